"""Rows about functions, classes and calls."""

from nki_lab.dialects.construct import (
    ACCEPTED,
    ERROR,
    PORTABILITY,
    Construct,
)

_GUIDE = "nki/get-started/nki-language-guide.rst"
_CLASSES = f"{_GUIDE}, Class Support"
_COMPOSABLE = f"{_GUIDE}, Composable Kernels"
_MIGRATION = "nki/migration/index.rst"
_GATHER = "KLR interop/klr/gather.c"
_SIMPLIFY = "KLR KLR/NKI/Simplify.lean"
_PYTHON = "KLR KLR/Trace/Python.lean"

# Functions of Python, and names of `math`, that the parser knows (KLR/Trace/Python.lean).
BUILTINS = frozenset(
    "isinstance type slice print min max abs str bool int float divmod tuple list dict len range".split()
)
LOOPING = frozenset(
    "all any enumerate filter iter map next pow reversed round sorted sum zip".split()
)
MATH = frozenset("ceil floor gcd log2 log10 pow sqrt pi e inf nan".split())
DECORATORS = frozenset({"jit", "staticmethod", "dataclass"})

CALLS: dict[str, Construct] = {
    "call": Construct(
        "calls of functions, with defaults and keyword arguments", ACCEPTED,
        "the call is inlined", _COMPOSABLE,
        """\
        def filled(tile, value=1.0, columns=4):
            nisa.memset(dst=tile[:, 0:columns], value=value)
            return tile

        @nki.jit
        def kernel(x):
            return stored(filled(nl.load(x), columns=2))
        """,
    ),
    "function value": Construct(
        "functions as values and arguments", ACCEPTED, "the call is inlined", _COMPOSABLE,
        """\
        def doubled(dst, src):
            nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=2.0)

        def applied(function, tile):
            function(dst=tile, src=tile)
            return tile

        @nki.jit
        def kernel(x):
            return stored(applied(doubled, nl.load(x)))
        """,
    ),
    "varargs": Construct(
        "a parameter `*args`", PORTABILITY, "take a tuple as one parameter", _SIMPLIFY,
        """\
        def filled(*tiles):
            nisa.memset(dst=tiles[0], value=1.0)

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            filled(t)
            return stored(t)
        """,
        """\
        def filled(tiles):
            nisa.memset(dst=tiles[0], value=1.0)

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            filled((t,))
            return stored(t)
        """,
    ),
    "kwargs": Construct(
        "a parameter `**kwargs`", PORTABILITY, "name the parameters, or take a dict as one", _SIMPLIFY,
        """\
        def filled(tile, **how):
            nisa.memset(dst=tile, value=how["value"])

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            filled(t, value=1.0)
            return stored(t)
        """,
    ),
    "keyword-only": Construct(
        "a parameter after `*`", PORTABILITY,
        "leave the `*` out, with parameters that have defaults at the end",
        f"{_MIGRATION}, Language restrictions",
        "@nki.jit\ndef kernel(x, *, value=1.0):\n    return stored(nl.load(x))",
        "@nki.jit\ndef kernel(x, value=1.0):\n    return stored(nl.load(x))",
    ),
    "decorator": Construct(
        "a decorator other than nki.jit, dataclass and staticmethod", PORTABILITY,
        "call the wrapping function in the kernel", _SIMPLIFY,
        """\
        def same(function):
            return function

        @same
        def filled(tile):
            nisa.memset(dst=tile, value=1.0)

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            filled(t)
            return stored(t)
        """,
    ),
    "class": Construct(
        "classes whose base is NKIObject, Enum or NamedTuple, with fields and methods", ACCEPTED,
        "built by NKI's rules: a field that is not given has its default, or None", _CLASSES,
        """\
        @dataclass
        class Sizes(nl.NKIObject):
            rows: int
            columns: int = 4

            def all(self):
                return self.rows * self.columns

        class Way(Enum):
            up = 1
            down = 2

        class Pair(NamedTuple):
            low: int
            high: int

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            assert Sizes(128).all() == 512 and Way.up != Way.down
            pair = Pair(0, 2)
            nisa.memset(dst=t[:, pair.low : pair.high], value=1.0)
            return stored(t)
        """,
    ),
    "class base": Construct(
        "a class with a base other than NKIObject, Enum or NamedTuple", PORTABILITY,
        "let the class inherit from nl.NKIObject and nothing else", _CLASSES,
        """\
        class Sizes:
            def __init__(self, rows):
                self.rows = rows

        @nki.jit
        def kernel(x):
            assert Sizes(128).rows == 128
            return stored(nl.load(x))
        """,
        """\
        class Sizes(nl.NKIObject):
            def __init__(self, rows):
                self.rows = rows

        @nki.jit
        def kernel(x):
            assert Sizes(128).rows == 128
            return stored(nl.load(x))
        """,
    ),
    "class body": Construct(
        "a statement in a class other than fields, methods, `assert` and `pass`", PORTABILITY,
        "move it out of the class", _GATHER,
        """\
        class Sizes(nl.NKIObject):
            rows: int = 128
            if rows > 64:
                rows = 64

        @nki.jit
        def kernel(x):
            assert Sizes().rows == 64
            return stored(nl.load(x))
        """,
        """\
        class Sizes(nl.NKIObject):
            rows: int = 64

        @nki.jit
        def kernel(x):
            assert Sizes().rows == 64
            return stored(nl.load(x))
        """,
    ),
    "class keyword": Construct(
        "a keyword after the base of a class, such as `metaclass=`", PORTABILITY, "leave it out", _GATHER,
        """\
        class Way(Enum, boundary=None):
            up = 1

        @nki.jit
        def kernel(x):
            assert Way.up == Way.up
            return stored(nl.load(x))
        """,
        """\
        class Way(Enum):
            up = 1

        @nki.jit
        def kernel(x):
            assert Way.up == Way.up
            return stored(nl.load(x))
        """,
    ),
    "unknown field": Construct(
        "a field that an NKIObject does not have", ERROR, "give the fields that the class declares", _CLASSES,
        """\
        class Sizes(nl.NKIObject):
            rows: int = 128

        @nki.jit
        def kernel(x):
            assert Sizes(row=128)
            return stored(nl.load(x))
        """,
        code="NKI113",
    ),
    "builtins": Construct(
        "isinstance, type, slice, print, min, max, abs, str, bool, int, float, divmod, tuple, list, dict, len, range",
        ACCEPTED, "as in Python", _PYTHON,
        "assert isinstance(x.shape, tuple) and max(x.shape) == 128\nassert divmod(len(x.shape), 2) == (1, 0)",
    ),
    "builtin": Construct(
        "sum, sorted, enumerate, zip, any, all, map, filter, reversed, round, pow, iter and next",
        PORTABILITY, "write it out with a `for` over range", _PYTHON,
        "size = sum(x.shape)",
        "size = 0\nfor n in x.shape:\n    size += n",
    ),
    "other builtin": Construct(
        "any other function of Python, such as open, getattr, hasattr, super or eval", PORTABILITY,
        "read attributes by their names, and do what needs it before the kernel is called", _PYTHON,
        "size = getattr(x, 'shape')[1]", "size = x.shape[1]",
    ),
    "math": Construct(
        "math.ceil, floor, gcd, log2, log10, pow, sqrt, pi, e, inf and nan", ACCEPTED, "as in Python", _PYTHON,
        "nisa.memset(dst=t, value=math.sqrt(4.0) + math.ceil(1.5))",
    ),
    "other math": Construct(
        "a name of math that NKI does not have", PORTABILITY,
        "compute it before the kernel is called and pass it as an argument", _PYTHON,
        "nisa.memset(dst=t, value=math.sin(1.0))",
        "@nki.jit\ndef kernel(x, value=0.5):\n    t = nl.load(x)\n"
        "    nisa.memset(dst=t, value=value)\n    return stored(t)",
    ),
    "library": Construct(
        "a call into NumPy, PyTorch or Python's own library, except math and functools.partial", PORTABILITY,
        "compute it before the kernel is called and pass it as an argument", "KLR KLR/Trace/NKI.lean",
        """\
        import numpy as np

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            nisa.memset(dst=t, value=float(np.mean((1.0, 3.0))))
            return stored(t)
        """,
        "@nki.jit\ndef kernel(x, value=2.0):\n    t = nl.load(x)\n"
        "    nisa.memset(dst=t, value=value)\n    return stored(t)",
    ),
    "unknown name": Construct(
        "a name that is defined nowhere", ERROR,
        "define it in this cell or an earlier one, or import it", "KLR KLR/Trace/Term.lean",
        "nisa.memset(dst=t, value=one)",
        code="NKI108",
    ),
    "unknown API": Construct(
        "a name that nki.language or nki.isa does not have", ERROR, "use one of the close matches",
        "KLR KLR/Trace/NKI.lean",
        "nisa.memsett(dst=t, value=1.0)",
        code="NKI108",
    ),
    "call of a number": Construct(
        "a call of something that is not a function", ERROR, "call a function, or a class with `__call__`",
        "KLR KLR/Trace/NKI.lean",
        "size = 4\nsize()", code="NKI109",
    ),
    "wrong arguments": Construct(
        "a call of a function with missing, extra or unknown arguments", ERROR,
        "give the arguments that its `def` has", "KLR KLR/Trace/NKI.lean",
        """\
        def filled(tile):
            nisa.memset(dst=tile, value=1.0)

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            filled(t, value=1.0)
            return stored(t)
        """,
        code="NKI109",
    ),
    "wrong argument of an instruction": Construct(
        "a call of an instruction with missing, extra or unknown arguments, such as `mask`", ERROR,
        "take the arguments that `explain` shows", f"{_MIGRATION}, NKI 0.2.0",
        "nisa.memset(dst=t, value=1.0, mask=None)", code="NKI201",
    ),
    "call in a grid": Construct(
        "a launch on more than two cores, kernel[3]", ERROR, "write kernel[1] or kernel[2]",
        "nki/get-started/about/lnc.rst",
        """\
        @nki.jit
        def inner(x):
            return stored(nl.load(x))

        @nki.jit
        def kernel(x):
            return inner[3](x)
        """,
        code="NKI112",
    ),
    "platform_target": Construct(
        "nki.jit(platform_target=...)", ERROR,
        "set NEURON_PLATFORM_TARGET_OVERRIDE, or use %%nki --target / nki_lab.run(..., target=...)",
        f"{_MIGRATION}, NKI 0.3.0",
        "@nki.jit(platform_target='trn2')\ndef kernel(x):\n    return stored(nl.load(x))", code="NKI112",
    ),
}  # fmt: skip
