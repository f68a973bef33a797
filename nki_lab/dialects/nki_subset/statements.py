"""Rows about statements."""

from nki_lab.dialects.construct import (
    ACCEPTED,
    DEPRECATED,
    ERROR,
    PORTABILITY,
    Construct,
)

_GUIDE = "nki/get-started/nki-language-guide.rst"
_FLOW = f"{_GUIDE}, Control Flow"
_DYNAMIC = f"{_GUIDE}, Dynamic Control Flow"
_LOOPS = "nki/deep-dives/nki-dynamic-loops.rst"
_MIGRATION = "nki/migration/index.rst"
_GATHER = "KLR interop/klr/gather.c"
_SIMPLIFY = "KLR KLR/NKI/Simplify.lean"

STATEMENTS: dict[str, Construct] = {
    "if": Construct(
        "`if` on a value known while tracing", ACCEPTED,
        "only the branch taken becomes part of the program",
        _FLOW,
        "if x.shape[0] == 128:\n    nisa.memset(dst=t, value=1.0)\nelse:\n    nisa.memset(dst=t, value=2.0)",
    ),
    "if register": Construct(
        "`if` on a register", ERROR,
        "mask with nl.where or nisa.tensor_copy_predicated, or run the branch in nl.while_loop",
        "nki/api/nki/isa/__init__.py, VirtualRegister",
        "r = nisa.register_alloc(1)\nif r:\n    nisa.memset(dst=t, value=1.0)",
        code="NKI117",
    ),
    "for": Construct(
        "`for` over a range, list or tuple", ACCEPTED, "the loop is unrolled", _FLOW,
        "for k in range(2):\n    nisa.memset(dst=t[:, k : k + 1], value=float(k))\n"
        "for k in (2, 3):\n    nisa.memset(dst=t[:, k : k + 1], value=0.0)",
    ),
    "ranges": Construct(
        "`for` over nl.static_range, nl.affine_range or nl.sequential_range", ACCEPTED,
        "the loop is unrolled, as over range",
        "nki/api/nki/language/__init__.py, affine_range",
        "for k in nl.affine_range(4):\n    nisa.memset(dst=t[:, k : k + 1], value=0.0)",
    ),
    "while": Construct(
        "`while` on a value known while tracing", ACCEPTED, "the loop is unrolled", _FLOW,
        "k = 0\nwhile k < 4:\n    nisa.memset(dst=t[:, k : k + 1], value=0.0)\n    k += 1",
    ),
    "break": Construct(
        "`break`, `continue` or `return` in an unrolled loop", ACCEPTED,
        "decided while tracing", _FLOW,
        "for k in range(9):\n    if k == 1:\n        continue\n    if k == 4:\n        break\n"
        "    nisa.memset(dst=t[:, k : k + 1], value=0.0)",
    ),
    "device loop": Construct(
        "nl.fori_loop or nl.while_loop with a nested function as its body", ACCEPTED,
        "the device runs the loop; its body is traced once",
        _LOOPS,
        "def body(i):\n    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)\n\nnl.fori_loop(0, 3, body)",
    ),
    "dynamic_range": Construct(
        "`for` over nl.dynamic_range", DEPRECATED,
        "write nl.fori_loop(lower, upper, body, step)", f"{_MIGRATION}, NKI 0.6.0",
        "for i in nl.dynamic_range(3):\n    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)",
        "def body(i):\n    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)\n\nnl.fori_loop(0, 3, body)",
    ),
    "while register": Construct(
        "`while` on a register", DEPRECATED,
        "write nl.while_loop(register, body)", f"{_MIGRATION}, NKI 0.6.0",
        "r = nisa.register_alloc(1)\nwhile r:\n    nisa.register_move(r, 0)",
        "def body(r):\n    nisa.register_move(r, 0)\n    return r\n\n"
        "nl.while_loop(nisa.register_alloc(1), body)",
        form="while register",
    ),
    "leave device loop": Construct(
        "`break`, `continue` or `return` in a loop that the device runs", ERROR,
        "end the loop by its bound or condition, and skip work with a mask",
        "KLR KLR/Trace/NKI.lean",
        "for i in nl.dynamic_range(3):\n    nisa.memset(dst=t, value=1.0)\n    break",
        code="NKI118",
    ),
    "loop in no_reorder": Construct(
        "a device loop inside nl.no_reorder", ERROR,
        "put the no_reorder block inside the loop's body", _LOOPS,
        "with nl.no_reorder():\n    nl.fori_loop(0, 3, lambda i: nisa.memset(dst=t, value=1.0))",
        code="NKI123",
    ),
    "induction variable": Construct(
        "a write to the induction register of nl.dynamic_range", ERROR,
        "keep your own value in a register from nisa.register_alloc()", _DYNAMIC,
        "for i in nl.dynamic_range(3):\n    nisa.register_move(i, 1)",
        code="NKI117",
    ),
    "register step": Construct(
        "a step of a device loop that is not a positive integer", ERROR,
        "give the step as a number", _LOOPS,
        "nl.fori_loop(0, 3, lambda i: nisa.memset(dst=t, value=1.0), nisa.register_alloc(1))",
        code="NKI118",
    ),
    "for target": Construct(
        "a target of a `for` other than one name", PORTABILITY,
        "loop over one name and take its parts in the body", _SIMPLIFY,
        "for low, high in ((0, 2), (2, 4)):\n    nisa.memset(dst=t[:, low:high], value=1.0)",
        "for pair in ((0, 2), (2, 4)):\n    nisa.memset(dst=t[:, pair[0] : pair[1]], value=1.0)",
    ),
    "for over text": Construct(
        "`for` over a string or a dict", PORTABILITY, "loop over a list, or over the keys() of the dict",
        "KLR KLR/Trace/Python.lean",
        "sizes = {'a': 1, 'b': 2}\nfor name in sizes:\n    nisa.memset(dst=t, value=float(sizes[name]))",
        "sizes = {'a': 1, 'b': 2}\nfor name in sizes.keys():\n    nisa.memset(dst=t, value=float(sizes[name]))",
    ),
    "range keyword": Construct(
        "a keyword argument of nl.affine_range, nl.sequential_range or nl.static_range in a `for`", PORTABILITY,
        "give start, stop and step by position", "KLR KLR/NKI/Annotations.lean",
        "for k in nl.affine_range(0, stop=2):\n    nisa.memset(dst=t[:, k : k + 1], value=0.0)",
        "for k in nl.affine_range(0, 2):\n    nisa.memset(dst=t[:, k : k + 1], value=0.0)",
    ),
    "loop else": Construct(
        "`else` of a loop", PORTABILITY, "set a flag in the loop and test it with `if` after the loop",
        _SIMPLIFY,
        "for k in range(2):\n    nisa.memset(dst=t, value=1.0)\nelse:\n    nisa.memset(dst=t, value=2.0)",
        "for k in range(2):\n    nisa.memset(dst=t, value=1.0)\nnisa.memset(dst=t, value=2.0)",
    ),
    "assignment": Construct(
        "assignment to names, attributes, tuples and lists of them, also augmented or annotated", ACCEPTED,
        "as in Python; `x += y` is `x = x + y`", _SIMPLIFY,
        "low, (high, last) = 0, (2, 4)\nk: int = 1\nk += low\nn = m = k\n"
        "nisa.memset(dst=t[:, low : high * n * m], value=1.0)",
    ),
    "chained mutation": Construct(
        "one value for several elements or attributes, `a[0] = a[1] = v`", PORTABILITY,
        "write one assignment for each", _SIMPLIFY,
        "sizes = [0, 0]\nsizes[0] = sizes[1] = 2",
        "sizes = [0, 0]\nsizes[0] = 2\nsizes[1] = 2",
    ),
    "starred target": Construct(
        "a starred target, `first, *rest = values`", PORTABILITY,
        "take elements and slices by index", _GATHER,
        "first, *rest = x.shape", "first = x.shape[0]\nrest = x.shape[1:]",
    ),
    "tile assignment": Construct(
        "`tile[...] = other` with a tensor", ACCEPTED,
        "copies, as nisa.tensor_copy(dst=tile[...], src=other) does", _MIGRATION,
        "made = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)\nmade[:, 0:4] = t\n"
        "nisa.tensor_copy(dst=t, src=made)",
    ),
    "number to tile": Construct(
        "`tile[...] = value` with a value that is not a tensor", ERROR,
        "fill it with nisa.memset(dst=tile[...], value=...), or give the view as dst of an instruction",
        "KLR KLR/NKI/SimplifyOperators.lean",
        "t[:, 0:2] = 1.0", "nisa.memset(dst=t[:, 0:2], value=1.0)",
        code="NKI104",
    ),
    "instruction to tile": Construct(
        "`tile[...] = nisa.op(...)` without `dst`, as in NKI 0.1", ERROR,
        "give the view as dst: nisa.op(dst=tile[...], ...)", f"{_MIGRATION}, NKI 0.2.0",
        "t[:, 0:2] = nisa.tensor_copy(src=t[:, 2:4])", "nisa.tensor_copy(dst=t[:, 0:2], src=t[:, 2:4])",
        code="NKI201",
    ),
    "no_reorder": Construct(
        "`with nl.no_reorder():`", ACCEPTED,
        "keeps the order of the instructions in it", "KLR KLR/NKI/Annotations.lean",
        "with nl.no_reorder():\n    nisa.memset(dst=t, value=1.0)",
    ),
    "with": Construct(
        "`with` of anything but nl.no_reorder()", PORTABILITY,
        "do what the context manager does before and after the block", _SIMPLIFY,
        """\
        class Marked(nl.NKIObject):
            def __enter__(self):
                pass

            def __exit__(self, kind, error, trace):
                pass

        @nki.jit
        def kernel(x):
            with Marked():
                t = nl.load(x)
            return stored(t)
        """,
        "nisa.memset(dst=t, value=1.0)",
    ),
    "assert": Construct(
        "`assert` on a value known while tracing", ACCEPTED,
        "checked while tracing; one that fails is an error", "KLR KLR/Trace/NKI.lean",
        "assert x.shape[0] <= 128, 'one tile'",
    ),
    "failed assert": Construct(
        "an `assert` that does not hold", ERROR,
        "correct what it claims, or the arguments", "KLR KLR/Trace/NKI.lean",
        "assert x.shape[0] > 128, 'more than one tile'", code="NKI109",
    ),
    "nested def": Construct(
        "a function inside a function, except as the body of a device loop", PORTABILITY,
        "move it to the module and pass it what it needs", _GATHER,
        "def fill(value):\n    nisa.memset(dst=t, value=value)\n\nfill(1.0)",
        """\
        def fill(tile, value):
            nisa.memset(dst=tile, value=value)

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            fill(t, 1.0)
            return stored(t)
        """,
    ),
    "nested class": Construct(
        "a class inside a function", PORTABILITY, "move it to the module", _GATHER,
        "class Sizes(nl.NKIObject):\n    rows: int = 128",
    ),
    "try": Construct(
        "`try`", PORTABILITY,
        "check with `if` or `assert` on values known while the kernel is traced", _GATHER,
        "try:\n    size = x.shape[1]\nexcept IndexError:\n    size = 1",
        "size = x.shape[1] if len(x.shape) > 1 else 1",
    ),
    "raise": Construct(
        "`raise`", PORTABILITY, "write `assert condition, message`", _GATHER,
        "if x.shape[0] > 128:\n    raise ValueError('more than one tile')",
        "assert x.shape[0] <= 128, 'more than one tile'",
    ),
    "del": Construct(
        "`del`", PORTABILITY, "leave it out: a tile is free after its last use", _GATHER,
        "size = 1\ndel size", "size = 1",
    ),
    "match": Construct(
        "`match`", PORTABILITY, "write `if` and `elif`", _GATHER,
        "match x.shape[0]:\n    case 128:\n        nisa.memset(dst=t, value=1.0)",
        "if x.shape[0] == 128:\n    nisa.memset(dst=t, value=1.0)",
    ),
    "import": Construct(
        "`import` inside a kernel", PORTABILITY, "import at the top of the module", _GATHER,
        "import math as m\n\nnisa.memset(dst=t, value=m.pi)",
        "nisa.memset(dst=t, value=math.pi)",
    ),
    "global": Construct(
        "`global`", ERROR, "pass the value as an argument, or read it without `global`",
        f"{_GUIDE}, Kernel Caching",
        "global calls\ncalls = 1", "calls = 1", plain=ACCEPTED,
    ),
    "nonlocal": Construct(
        "`nonlocal`", PORTABILITY, "pass the value as an argument and return the new one", _GATHER,
        "n = 1\n\ndef more(i):\n    nonlocal n\n    n = 2\n\nnl.fori_loop(0, 1, more)",
    ),
    "type alias": Construct(
        "a `type` statement", PORTABILITY, "move it to the module", _GATHER, "type Size = int",
    ),
    "async": Construct(
        "`async`", ERROR, "write a plain `def`, `for` or `with`: engines overlap by themselves",
        _GATHER,
        "async def later():\n    pass",
    ),
}  # fmt: skip
