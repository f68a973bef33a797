"""Rows about values, tensors and registers."""

from nki_lab.dialects.construct import (
    ACCEPTED,
    ERROR,
    PORTABILITY,
    Construct,
)

_GUIDE = "nki/get-started/nki-language-guide.rst"
_INDEX = f"{_GUIDE}, Tensor Indexing"
_TERM = "KLR KLR/Trace/Term.lean"
_MIGRATION = "nki/migration/index.rst"
_REGISTER = "nki/api/nki/isa/__init__.py, VirtualRegister"

VALUES: dict[str, Construct] = {
    "argument": Construct(
        "arguments: arrays, numbers, strings, dtypes, None, and tuples and NKIObjects of them", ACCEPTED,
        "arrays become tensors in HBM, all else is a constant of the program", _GUIDE,
        "@nki.jit\ndef kernel(x, scale=2.0, name='x', dtype=nl.float32, bias=None, sizes=(1, 2)):\n"
        "    assert dtype == x.dtype and bias is None\n    return stored(nl.load(x))",
    ),
    "large argument": Construct(
        "an integer of more than 32 bits as argument of a kernel, or a global it reads", PORTABILITY,
        "NKI's integers have 32 bits, one of them the sign", f"{_GUIDE}, NKI Values",
        "@nki.jit\ndef kernel(x, limit=1 << 40):\n    return stored(nl.load(x))",
        "@nki.jit\ndef kernel(x, limit=1 << 20):\n    return stored(nl.load(x))",
    ),
    "list argument": Construct(
        "a list as argument of a kernel", PORTABILITY, "pass a tuple",
        f"{_MIGRATION}, Language restrictions",
        "@nki.jit\ndef kernel(x, sizes=[1, 2]):\n    return stored(nl.load(x))",
        "@nki.jit\ndef kernel(x, sizes=(1, 2)):\n    return stored(nl.load(x))",
    ),
    "dtype argument": Construct(
        "a dtype of NumPy as argument of a kernel, or a global it reads", PORTABILITY, "pass the dtype of nki.language",
        "KLR interop/klr/gather.c",
        """\
        import numpy as np

        @nki.jit
        def kernel(x, dtype=np.float32):
            return stored(nl.load(x))
        """,
        "@nki.jit\ndef kernel(x, dtype=nl.float32):\n    return stored(nl.load(x))",
    ),
    "number argument": Construct(
        "a number of NumPy as argument of a kernel, or a global it reads", PORTABILITY,
        "convert it with float() or int()", "KLR interop/klr/gather.c",
        """\
        import numpy as np

        @nki.jit
        def kernel(x, scale=np.float32(2.0)):
            return stored(nl.load(x))
        """,
        "@nki.jit\ndef kernel(x, scale=2.0):\n    return stored(nl.load(x))",
    ),
    "value argument": Construct(
        "a set, bytes or a complex number as argument of a kernel, or a global it reads", PORTABILITY,
        "take a tuple, a string, or two numbers", f"{_GUIDE}, NKI Values",
        "@nki.jit\ndef kernel(x, sizes={1, 2}):\n    return stored(nl.load(x))",
        "@nki.jit\ndef kernel(x, sizes=(1, 2)):\n    return stored(nl.load(x))",
    ),
    "key argument": Construct(
        "a dict with keys that are not strings as argument of a kernel, or a global it reads", PORTABILITY,
        "use strings as keys", f"{_GUIDE}, NKI Values",
        "@nki.jit\ndef kernel(x, sizes={0: 1}):\n    return stored(nl.load(x))",
        "@nki.jit\ndef kernel(x, sizes={'0': 1}):\n    return stored(nl.load(x))",
    ),
    "object argument": Construct(
        "an object of a class other than NKIObject, Enum or NamedTuple as argument of a kernel, or a global it reads",
        PORTABILITY, "let its class inherit from nl.NKIObject and nothing else", f"{_GUIDE}, Class Support",
        """\
        @dataclass
        class Sizes:
            rows: int = 128

        @nki.jit
        def kernel(x, sizes=Sizes()):
            return stored(nl.load(x))
        """,
        """\
        @dataclass
        class Sizes(nl.NKIObject):
            rows: int = 128

        @nki.jit
        def kernel(x, sizes=Sizes()):
            return stored(nl.load(x))
        """,
    ),
    "name twice": Construct(
        "two tensors with one `name=`", PORTABILITY,
        "give each tensor a different name, or none", "KLR KLR/Trace/Types.lean",
        "for k in range(2):\n    u = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, name='u')\n"
        "    nisa.tensor_copy(dst=u, src=t)\n    nisa.tensor_copy(dst=t, src=u)",
        "for k in range(2):\n    u = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, name=f'u_{k}')\n"
        "    nisa.tensor_copy(dst=u, src=t)\n    nisa.tensor_copy(dst=t, src=u)",
    ),
    "operator": Construct(
        "an operator of Python between tensors, `a + b`", ERROR,
        "write nl.add(a, b), or the instruction with its destination", _TERM,
        "nisa.tensor_copy(dst=t, src=t + t)", "nisa.tensor_copy(dst=t, src=nl.add(t, t))", code="NKI103",
    ),
    "odd address": Construct(
        "an explicit address at an odd byte, or from another partition than 0, 32, 64 and 96 on", PORTABILITY,
        "give an even byte, and start at partition 0, 32, 64 or 96", _TERM,
        "u = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf, address=(16, 0))\n"
        "nisa.dma_copy(dst=u, src=x[0:8])\nnisa.dma_copy(dst=t[0:8], src=u)",
        "u = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf, address=(32, 0))\n"
        "nisa.dma_copy(dst=u, src=x[0:8])\nnisa.dma_copy(dst=t[0:8], src=u)",
    ),
    "truth of a tensor": Construct(
        "a tensor as a condition, which only tells that there is one", PORTABILITY,
        "write `tensor is not None`", "KLR KLR/Trace/Types.lean",
        "assert t", "assert t is not None",
    ),
    "condition on values": Construct(
        "a comparison of tensors as a condition", ERROR,
        "choose with nl.where or nisa.tensor_copy_predicated", "KLR KLR/Trace/Types.lean",
        "if t > 0:\n    nisa.memset(dst=t, value=1.0)", code="NKI103",
    ),
    "index": Construct(
        "integers, slices with steps, `...` and registers as an index", ACCEPTED,
        "a view of the same bytes", _INDEX,
        "nisa.memset(dst=t[0:64, ::2], value=1.0)\nnisa.memset(dst=t[..., 0], value=1.0)",
    ),
    "index outside": Construct(
        "an index or slice outside its tensor", ERROR, "keep the index within the shape", _TERM,
        "nisa.memset(dst=t[:, 9], value=1.0)", code="NKI106",
    ),
    "too many indices": Construct(
        "more indices than a tensor has axes", ERROR, "give one index per axis", _TERM,
        "nisa.memset(dst=t[:, 0, 0], value=1.0)", code="NKI106",
    ),
    "list index": Construct(
        "an index outside a list", ERROR, "keep the index within the length", _TERM,
        "sizes = [1, 2]\nsizes[2]", code="NKI109",
    ),
    "missing key": Construct(
        "a key that a dict does not have", ERROR, "ask with `in`, or take it with get", _TERM,
        "sizes = {'rows': 128}\nsizes['row']", code="NKI109",
    ),
    "number of a register": Construct(
        "int(), float() or range() of a register", ERROR,
        "use it as a bound of nl.fori_loop, or as an index", _REGISTER,
        "r = nisa.register_alloc(2)\nfor k in range(r):\n    nisa.memset(dst=t, value=1.0)",
        code="NKI117",
    ),
    "program_id": Construct(
        "nl.program_id of another axis than 0", ERROR, "write nl.program_id(0)",
        "KLR KLR/Trace/ISA.lean",
        "core = nl.program_id(1)", "core = nl.program_id(0)", code="NKI106",
    ),
    "after a device loop": Construct(
        "a tensor made in the body of a device loop, used behind the loop", ERROR,
        "make the tensor before the loop, so that it lives on after it",
        f"{_MIGRATION}, NKI 0.6.0",
"def body(i):\n    made.append(nl.load(x))\n\nmade = []\nnl.fori_loop(0, 2, body)\n"
        "nisa.tensor_copy(dst=t, src=made[0])",
        code="NKI122",
    ),
    "result": Construct(
        "results: one tensor in nl.shared_hbm, or tuples and dicts of them", ACCEPTED,
        "returned as arrays in the same containers", f"{_MIGRATION}, NKI 0.3.0",
        "@nki.jit\ndef kernel(x):\n    t = nl.load(x)\n    return {'a': stored(t), 'b': (stored(t), None)}",
    ),
    "result elsewhere": Construct(
        "a result that is not in nl.shared_hbm", ERROR,
        "make it with nl.ndarray(..., buffer=nl.shared_hbm) and copy into it", f"{_MIGRATION}, NKI 0.3.0",
        "@nki.jit\ndef kernel(x):\n    return nl.load(x)", code="NKI111",
    ),
}  # fmt: skip
