"""Rows about expressions."""

from nki_lab.dialects.construct import (
    ACCEPTED,
    ERROR,
    PORTABILITY,
    Construct,
)

_GUIDE = "nki/get-started/nki-language-guide.rst"
_VALUES = f"{_GUIDE}, NKI Values"
_GATHER = "KLR interop/klr/gather.c"
_SIMPLIFY = "KLR KLR/NKI/Simplify.lean"
_PYTHON = "KLR KLR/Trace/Python.lean"
_LIST = "append to a list in a `for`"

EXPRESSIONS: dict[str, Construct] = {
    "logic": Construct(
        "`and`, `or`, `not` and `a if c else b` on values known while tracing", ACCEPTED,
        "as in Python", _SIMPLIFY,
        "size = 4 if x.shape[0] == 128 and not x.shape[1] == 5 else 2\n"
        "nisa.memset(dst=t[:, 0:size], value=1.0)",
    ),
    "chained comparison": Construct(
        "`a < b < c`", ACCEPTED, "the parser computes every part, also where one is false",
        _SIMPLIFY, "assert 0 < x.shape[0] <= 128",
    ),
    "in": Construct(
        "`in` and `not in`", ACCEPTED, "as in Python", _PYTHON,
        "assert x.shape[0] in (64, 128) and 5 not in x.shape",
    ),
    "chained in": Construct(
        "`in` in a chain of comparisons", PORTABILITY, "write two comparisons with `and`",
        _PYTHON,
        "assert 1 < 4 in x.shape", "assert 1 < 4 and 4 in x.shape",
    ),
    "is None": Construct(
        "`is None` and `is not None`", ACCEPTED, "as in Python", _SIMPLIFY,
        "scale = None\nassert scale is None and x is not None",
    ),
    "is": Construct(
        "`is` with anything but None", PORTABILITY, "write `==` or `!=`",
        "nki/migration/index.rst, Language restrictions",
        "exact = True\nassert exact is True", "exact = True\nassert exact == True",
    ),
    "f-string": Construct(
        "an f-string, also with !r, !s and !a", ACCEPTED, "as in Python", _GATHER,
        "assert x.shape[0] == 128, f'{x.shape[0]} rows of {x.dtype!s}'",
    ),
    "format spec": Construct(
        "a format in an f-string, `{value:03d}`", PORTABILITY,
        "leave the format out", _GATHER,
        "assert x.shape[0] == 128, f'{x.shape[0]:03d} rows'",
        "assert x.shape[0] == 128, f'{x.shape[0]} rows'",
    ),
    "lambda": Construct(
        "a lambda, except as the body of a device loop", PORTABILITY,
        "write a function in the module", _GATHER,
        "half = lambda n: n // 2\nnisa.memset(dst=t[:, 0 : half(4)], value=1.0)",
        """\
        def half(n):
            return n // 2

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            nisa.memset(dst=t[:, 0 : half(4)], value=1.0)
            return stored(t)
        """,
    ),
    "list comprehension": Construct(
        "a list comprehension", PORTABILITY, _LIST, _GATHER,
        "sizes = [2 * n for n in range(2)]",
        "sizes = []\nfor n in range(2):\n    sizes.append(2 * n)",
    ),
    "set comprehension": Construct(
        "a set comprehension", PORTABILITY, _LIST, _GATHER, "sizes = {2 * n for n in range(2)}",
    ),
    "dict comprehension": Construct(
        "a dict comprehension", PORTABILITY, "fill a dict in a `for`", _GATHER,
        "sizes = {name: 2 for name in ('a', 'b')}",
        "sizes = {}\nfor name in ('a', 'b'):\n    sizes[name] = 2",
    ),
    "generator": Construct(
        "a generator expression", PORTABILITY, _LIST, _GATHER,
        "size = max(n for n in x.shape)",
        "size = 0\nfor n in x.shape:\n    size = max(size, n)",
    ),
    "walrus": Construct(
        "`name := value`", PORTABILITY, "assign in a separate statement", _GATHER,
        "if (rows := x.shape[0]) > 1:\n    nisa.memset(dst=t[0:rows, :], value=1.0)",
        "rows = x.shape[0]\nif rows > 1:\n    nisa.memset(dst=t[0:rows, :], value=1.0)",
    ),
    "yield": Construct(
        "`yield`", ERROR, "a kernel runs once from top to bottom: return its output tensors", _GATHER,
        "yield t",
    ),
    "yield in a helper": Construct(
        "`yield` in a function that a kernel calls", PORTABILITY, "return a list", _GATHER,
        """\
        def columns(tile):
            for k in range(tile.shape[1]):
                yield tile[:, k : k + 1]

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            for column in columns(t):
                nisa.memset(dst=column, value=1.0)
            return stored(t)
        """,
        """\
        def columns(tile):
            found = []
            for k in range(tile.shape[1]):
                found.append(tile[:, k : k + 1])
            return found

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            for column in columns(t):
                nisa.memset(dst=column, value=1.0)
            return stored(t)
        """,
    ),
    "await": Construct(
        "`await`", ERROR, "call nki.isa instructions directly; engines overlap by themselves", _GATHER,
        "async def later():\n    await later()",
    ),
    "matmul operator": Construct(
        "the operator `@`", PORTABILITY, "write nisa.nc_matmul or nl.matmul", _SIMPLIFY,
        """\
        class Product(nl.NKIObject):
            def __matmul__(self, other):
                return 2.0

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            nisa.memset(dst=t, value=Product() @ 1)
            return stored(t)
        """,
        "nisa.memset(dst=t, value=2.0)",
    ),
    "star argument": Construct(
        "`*values` in a call, a list or a tuple", PORTABILITY, "write the values out", _SIMPLIFY,
        "size = max(*x.shape)", "size = max(x.shape[0], x.shape[1])",
    ),
    "double star argument": Construct(
        "`**values` in a call", PORTABILITY, "write the arguments out", _SIMPLIFY,
        "fill = {'value': 1.0}\nnisa.memset(dst=t, **fill)",
        "fill = {'value': 1.0}\nnisa.memset(dst=t, value=fill['value'])",
    ),
    "list": Construct(
        "lists, tuples and their slices, methods and comparison", ACCEPTED, "as in Python", _VALUES,
        "sizes = [1, 2]\nsizes.append(4)\nsizes.extend((3, 3))\nassert sizes[1:3] == [2, 4]\n"
        "assert len(sizes) == 5 and sizes.index(2) == 1",
    ),
    "dict": Construct(
        "dicts whose keys are strings", ACCEPTED, "as in Python", _VALUES,
        "sizes = {'rows': 128}\nsizes['columns'] = 4\nassert sizes.get('rows') == 128\n"
        "for name in sizes.keys():\n    assert sizes[name] in x.shape",
    ),
    "dict key": Construct(
        "a dict key that is not a literal string", PORTABILITY,
        "write strings as keys, give computed ones by `d[key] = value`, or use a list of pairs", _VALUES,
        "sizes = {0: 2, 1: 4}", "sizes = {'0': 2, '1': 4}",
    ),
    "list method": Construct(
        "a method of a list that NKI does not have, such as sort, insert or pop(0)", PORTABILITY,
        "use append, clear, copy, count, extend, index, pop(), remove and reverse, or make another list in a `for`",
        _PYTHON,
        "sizes = [2, 1]\nsizes.sort()", "sizes = [1, 2]",
    ),
    "dict method": Construct(
        "a method of a dict that NKI does not have, such as update", PORTABILITY,
        "use clear, copy, get, items, keys, pop, setdefault and values, or set elements one by one", _PYTHON,
        "sizes = {'a': 1}\nsizes.update({'b': 2})", "sizes = {'a': 1}\nsizes['b'] = 2",
    ),
    "set": Construct(
        "a set", PORTABILITY, "use a tuple or a list", _VALUES,
        "assert x.shape[0] in {64, 128}", "assert x.shape[0] in (64, 128)",
    ),
    "complex": Construct(
        "a complex number", PORTABILITY, "keep real and imaginary part in two numbers", _VALUES,
        "z = 2j", "imaginary = 2.0",
    ),
    "bytes": Construct(
        "a bytes literal", PORTABILITY, "use a string, or a list of integers", _VALUES,
        "name = b'x'", "name = 'x'",
    ),
    "large integer": Construct(
        "an integer of more than 32 bits", PORTABILITY, "NKI's integers have 32 bits, one of them the sign", _VALUES,
        "limit = 2147483648", "limit = 2147483647",
    ),
    "string method": Construct(
        "a method or an element of a string", PORTABILITY,
        "put strings together by an f-string or `+`", _PYTHON,
        "assert x.shape[0] == 128, ' '.join(['128', 'rows'])",
        "assert x.shape[0] == 128, '128' + ' rows'",
    ),
}  # fmt: skip
