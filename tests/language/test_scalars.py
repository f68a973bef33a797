# nki: 0.7  # noqa: ERA001
"""Tests integers that the device computes, against NumPy's of 32 and 64 bits, which wrap around."""

import operator
import random

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import (
    AddressOutOfRange,
    LoopControl,
    NkiError,
    NotModelled,
    OutsideKernel,
    RegisterValue,
    ViewError,
    WrongOperand,
)

SIZES = {"int32": np.int32, "int64": np.int64}
OPERATORS = (operator.add, operator.sub, operator.mul)


def loaded(x, k=0):
    """Return a scalar with an element of a row in HBM, through SBUF."""
    tile = nl.ndarray((1, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[0:1, k : k + 1])
    return nisa.scalar_load(tile)


def stored(*scalars):
    """Return a row of scalars in HBM."""
    out = nl.ndarray((1, len(scalars)), dtype=scalars[0].dtype, buffer=nl.shared_hbm)
    for k, scalar in enumerate(scalars):
        tile = nl.ndarray((1, 1), dtype=scalar.dtype, buffer=nl.sbuf)
        nisa.scalar_store(tile, scalar)
        nisa.dma_copy(dst=out[0:1, k : k + 1], src=tile)
    return out


def expression(r, values, size):
    """Return a random expression as functions of a list of scalars, and what it gives for `values`, in NumPy."""
    parts = [(lambda s, k=k: s[k], values[k]) for k in range(len(values))]
    kept = np.iinfo(size)
    for _ in range(r.randint(1, 8)):
        op, (f, x) = r.choice(OPERATORS), r.choice(parts)
        number = r.choice([r.randint(-9, 9), r.randint(kept.min, kept.max)])
        other = r.choice([*parts, (lambda s, n=number: n, size(number))])
        sides = [(f, x), other] if r.random() < 0.5 else [other, (f, x)]
        (g, a), (h, b) = sides
        if r.random() < 0.2:
            parts.append((lambda s, f=f: -f(s), -x))
        parts.append((lambda s, op=op, g=g, h=h: op(g(s), h(s)), op(a, b)))
    return parts[-1]


@pytest.mark.parametrize("name", SIZES)
def test_random_arithmetic_is_that_of_numpy(name, rng):
    size = SIZES[name]
    r = random.Random(int(rng.integers(2**32)))
    kept = np.iinfo(size)
    row = np.array([[kept.min, kept.max, -1, 0, 3, *rng.integers(kept.min, kept.max, 3)]], size)
    with np.errstate(over="ignore"):
        expressions = [expression(r, list(row[0]), size) for _ in range(60)]

    @nki.jit
    def kernel(x):
        scalars = [loaded(x, k) for k in range(x.shape[1])]
        return stored(*(f(scalars) for f, _ in expressions))

    assert kernel(row)[0].tolist() == [int(value) for _, value in expressions]


@pytest.mark.parametrize("run", [lambda k, x: k(x), lambda k, x: nki.simulate(k)(x),
                                 lambda k, x: nki_lab.run(k, x).outputs[0],
                                 lambda k, x: nki_lab.run(k, x, debug=True).outputs[0]])  # fmt: skip
def test_the_values_of_the_page(run):
    @nki.jit
    def kernel(x):
        i = loaded(x)
        assert isinstance(i, nisa.NkiScalar) and not isinstance(i, nisa.VirtualRegister)
        assert i.dtype is nl.int32
        return stored(i * 4 + 1, i * 100000, +i, loaded(x, 1) + 1)

    assert run(kernel, np.array([[100000, 2**31 - 1]], np.int32)).tolist() == [
        [400001, 1410065408, 100000, -(2**31)]
    ]


def test_scalars_bound_loops_and_address_tensors(rng):
    @nki.jit
    def kernel(x, bounds):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.zeros(x.shape, x.dtype)
        first, last = loaded(bounds), loaded(bounds, 1)

        def body(i):
            assert isinstance(i, nisa.NkiScalar)
            row = nl.ndarray((x.shape[0], 4), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=row, src=x[:, nl.ds(i * 4, 4)])
            nisa.tensor_copy(dst=tile[:, nl.ds(24 - (i * 4 + 4), 4)], src=row)

        nl.fori_loop(first, last * 2 - 1, body)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = rng.standard_normal((5, 24)).astype(np.float32)
    expected = np.zeros_like(x)
    for i in range(1, 5):
        expected[:, 20 - 4 * i : 24 - 4 * i] = x[:, 4 * i : 4 * i + 4]
    assert np.array_equal(kernel(x, np.array([[1, 3]], np.int32)), expected)


def test_a_scalar_stands_where_an_integer_does():
    """In registers, and as the offset of iota: counters of loops go there, too."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((3, 4), dtype=nl.int32, buffer=nl.shared_hbm)
        register = nisa.register_alloc(loaded(x))
        tile = nl.ndarray((1, 4), dtype=nl.int32, buffer=nl.sbuf)

        def row(i):
            nisa.iota(tile, [[7, 4]], offset=i * 10 - 3)
            nisa.register_store(tile[0:1, 3:4], register)
            nisa.dma_copy(dst=out[nl.ds(i, 1)], src=tile)
            nisa.register_move(register, i + 2)

        nl.fori_loop(0, 3, row)
        return out

    assert kernel(np.array([[-5]], np.int32)).tolist() == [
        [-3, 4, 11, -5],
        [7, 14, 21, 2],
        [17, 24, 31, 3],
    ]


def test_a_scalar_of_64_bits_addresses_hbm(rng):
    @nki.jit
    def kernel(x, at):
        out = nl.ndarray((1, 3), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x.ap([[3, 1], [1, 3]], scalar_offset=loaded(at) - 2**33))
        return out

    x = rng.standard_normal((4, 3)).astype(np.float32)
    assert np.array_equal(kernel(x, np.array([[2**33 + 2]], np.int64)), x[2:3])


@pytest.mark.parametrize("wide", [False, True])
def test_only_64_bits_reach_beyond_4_gb(wide):
    """The index is out of range either way: what is told is whether its bytes can be counted at all."""

    @nki.jit
    def kernel(x, at):
        out = nl.ndarray((1, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x.ap([[2, 1], [1, 1]], scalar_offset=loaded(at)))
        return out

    at = np.array([[2**30]], np.int64 if wide else np.int32)
    message = (
        "index 1073741824" if wide else "8,589,934,592 bytes away.*32 bits reaches 4,294,967,296"
    )
    with pytest.raises(AddressOutOfRange, match=f"(?s){message}"):
        kernel(np.zeros((4, 2), np.float32), at)


def test_an_int64_tensor_is_only_moved(rng):
    @nki.jit
    def copied(x):
        tile = nl.load(x)
        out = nl.ndarray(x.shape, dtype=nl.int64, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = rng.integers(-(2**62), 2**62, (3, 5))
    result = copied(x)
    assert result.dtype == np.int64 and np.array_equal(result, x)


# -- what is refused ---------------------------------------------------------------------------------------------------

NUMBERS = np.array([[5, 2**40]], np.int64)


def tile_of(x, dtype=nl.int32):
    return nl.ndarray((1, 1), dtype=dtype, buffer=nl.sbuf)


WRONG = [
    (lambda x, s, w: bool(s < 3), RegisterValue, "comparing scalars cannot be used"),
    (lambda x, s, w: (s == s) + 1, RegisterValue, "comparing scalars cannot be used"),
    (lambda x, s, w: nisa.scalar_store(tile_of(x), s != 1), RegisterValue, "comparing scalars cannot be used"),
    (lambda x, s, w: nl.fori_loop(0, s >= 1, print), RegisterValue, "comparing scalars cannot be used"),
    (lambda x, s, w: w > 3, RegisterValue, "scalars of 64 bits are not compared"),
    (lambda x, s, w: 1 if s else 2, RegisterValue, r"Python cannot test it.*fori_loop\(0, flag, body\)"),
    (lambda x, s, w: int(s), RegisterValue, "only known at run time"),
    (lambda x, s, w: range(s), RegisterValue, "only known at run time"),
    (lambda x, s, w: s // 2, NotModelled, r"other than \+ - \*"),
    (lambda x, s, w: s << 2, NotModelled, r"other than \+ - \*"),
    (lambda x, s, w: 7 % s, NotModelled, r"other than \+ - \*"),
    (lambda x, s, w: s + w, WrongOperand, "NkiScalars of one dtype"),
    (lambda x, s, w: s + 2**31, WrongOperand, "an integer that fits"),
    (lambda x, s, w: 1.5 * s, WrongOperand, "an integer that fits"),
    (lambda x, s, w: s + nisa.register_alloc(1), (WrongOperand, RegisterValue), "NkiScalars of one dtype"),
    (lambda x, s, w: nl.fori_loop(0, w, print), LoopControl, "has 64 bits, and a loop counts in 32"),
    (lambda x, s, w: nl.load(x)[:, nl.ds(w, 1)], ViewError, "on chip the offset must have 32 bits"),
    (lambda x, s, w: nisa.scalar_load(nl.load(x)), NkiError, r"`src` must have shape \[1, 1\]"),
    (lambda x, s, w: nisa.scalar_store(tile_of(x, nl.int64), s), NkiError, "dtype of `value`"),
    (lambda x, s, w: nisa.register_store(tile_of(x), s), WrongOperand, "must be a register.*nisa.scalar_store"),
    (lambda x, s, w: nisa.register_move(nisa.register_alloc(), w), WrongOperand, "a scalar or an integer, of 32 bits"),
    (lambda x, s, w: nisa.register_alloc(s == 3), RegisterValue, "comparing scalars cannot be used"),
    (lambda x, s, w: nisa.iota(tile_of(x), [[1, 1]], offset=w), NkiError, "a register or a scalar, of 32 bits"),
    (lambda x, s, w: nisa.memset(nl.load(x), 1), NkiError, "int64, which only scalars and copies take"),
    (lambda x, s, w: nisa.dma_copy(dst=tile_of(x), src=x[0:1, 0:1]), NkiError, "int64 dtypes cannot be cast"),
    (lambda x, s, w: nisa.NkiScalar(3), RegisterValue, "nisa.scalar_load"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "error", "message"), WRONG)
def test_refused(use, error, message):
    @nki.jit
    def kernel(x):
        w = loaded(x)
        half = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(half, 3)
        s = nisa.scalar_load(half)
        use(x, s, w)
        return stored(w)

    with pytest.raises(error, match=f"(?s){message}") as raised:
        kernel(NUMBERS)
    if issubclass(raised.type, RegisterValue):
        assert issubclass(raised.type, TypeError)


def test_a_scalar_of_another_kernel_is_refused():
    kept = []

    @nki.jit
    def first(x):
        kept.append(loaded(x))
        return stored(kept[0])

    @nki.jit
    def second(x):
        return stored(kept[0] + 1)

    first(NUMBERS)
    with pytest.raises(NkiError, match=r"(?s)scalar `\w+` was made by .*nisa\.scalar_load"):
        second(NUMBERS)
    with pytest.raises(OutsideKernel):
        kept[0] + 1


def test_a_scalar_is_named_after_its_variable():
    seen = []

    @nki.jit
    def kernel(x):
        start = loaded(x)
        twice = start * 2
        seen.append(repr(twice))
        return stored(twice)

    result = nki_lab.run(kernel, NUMBERS)
    assert seen == ["<int64 scalar twice>"]
    assert (
        "scalar_arithmetic(dst=$twice:int64, op=nl.multiply, a=$start:int64, b=2)"
        in result.ir["trace"]
    )
