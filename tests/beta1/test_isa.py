"""Each function of the older nki.isa: values from NumPy formulas, with and without a mask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.api.official import BETA1_API, same_signature
from nki_lab.beta1.instructions import FUNCTIONS
from nki_lab.errors import NkiError, NotModelled, WrongCall, WrongOperand
from nki_lab.runtime.run import run

bf16 = ml_dtypes.bfloat16
LOWEST = float(np.finfo(np.float32).min)
P, F = 48, 20
rng = np.random.default_rng(2)


def signed(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.uniform(-4, 4, shape).astype(dtype)


X, Y, C = signed(P, F), signed(P, F), signed(P, 1)
POSITIVE = np.abs(X) + np.float32(0.25)
X3 = signed(P, 4, 6)
N = rng.integers(-40, 40, (P, F)).astype(np.int32)
TRUTH = (signed(P, F) > 0).astype(np.uint8)
DISTINCT = np.stack([rng.permutation(F) for _ in range(P)]).astype(np.float32) - 7


def scan(a: np.ndarray, b: np.ndarray, start: float) -> np.ndarray:
    result, state = np.empty_like(a), np.full(len(a), start, np.float32)
    for k in range(a.shape[1]):
        state = a[:, k] * state + b[:, k]
        result[:, k] = state
    return result


def bn(x: np.ndarray) -> np.ndarray:
    parts = [x[:, 0::2], x[:, 1::2]]
    return np.stack(
        [v for p in parts for v in (np.full(len(x), p.shape[1]), p.mean(1), p.var(1) * p.shape[1])],
        1,
    )


def eight(x: np.ndarray) -> np.ndarray:
    return -np.sort(-x, axis=1)[:, :8]


def found(x: np.ndarray) -> np.ndarray:
    return np.argsort(-x, axis=1)[:, :8].astype(np.uint32)


def replaced(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    np.put_along_axis(y, np.argsort(-x, axis=1)[:, :8], -99, axis=1)
    return y


@dataclass
class Case:
    """A call with tiles loaded from `arrays`, and what NumPy says of it.

    Attributes:
        call: `(tiles..., mask=...) -> tile`.
        arrays: one for each tile; those with one value per partition are cut by a mask along axis 0 only.
        formula: of the arrays.
        over: the axes that a mask may cut: all of the tile, or its partitions.
        exact: bits are equal.
        dtype: of the result.
    """

    name: str
    call: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    formula: Callable[..., np.ndarray]
    over: str = "all"
    exact: bool = True
    dtype: Any = np.float32

    def __str__(self) -> str:
        return self.name


CASES = [
    Case(
        "activation",
        lambda x, c, **k: nisa.activation(np.square, x, bias=c, scale=2.0, **k),
        (X, C),
        lambda x, c: np.square(x * 2 + c),
    ),
    Case(
        "activation_column",
        lambda x, c, **k: nisa.activation(op=nl.relu, data=x, scale=c, **k),
        (X, C),
        lambda x, c: np.maximum(x * c, 0),
    ),
    Case(
        "activation_dtype",
        lambda x, **k: nisa.activation(np.abs, x, dtype=nl.bfloat16, **k),
        (X,),
        lambda x: np.abs(x).astype(bf16),
        dtype=bf16,
    ),
    Case("bn_stats", lambda x, **k: nisa.bn_stats(x, **k), (X,), bn, exact=False),
    Case(
        "bn_aggr",
        lambda x, **k: nisa.bn_aggr(nisa.bn_stats(x), **k),
        (X,),
        lambda x: np.stack([x.mean(1), x.var(1)], 1),
        over="partitions",
        exact=False,
    ),
    Case("max8", lambda x, **k: nisa.max8(src=x, **k), (X,), eight),
    Case(
        "nc_match_replace8",
        lambda x, **k: nisa.nc_match_replace8(data=x, vals=nisa.max8(src=x), imm=-99.0, **k),
        (DISTINCT,),
        replaced,
        over="partitions",
    ),
    Case(
        "nc_find_index8",
        lambda x, **k: nisa.nc_find_index8(data=x, vals=nisa.max8(src=x), **k),
        (DISTINCT,),
        found,
        over="partitions",
        dtype=np.uint32,
    ),
    Case(
        "reciprocal",
        lambda x, **k: nisa.reciprocal(x, **k),
        (POSITIVE,),
        lambda x: np.float32(1) / x,
    ),
    Case(
        "scalar_tensor_tensor",
        lambda x, y, c, **k: nisa.scalar_tensor_tensor(
            data=x, op0=np.subtract, operand0=c, op1=np.multiply, operand1=y, reverse0=True, **k
        ),
        (X, Y, C),
        lambda x, y, c: (c - x) * y,
    ),
    Case(
        "tensor_copy",
        lambda x, **k: nisa.tensor_copy(x, dtype=nl.bfloat16, engine=nisa.vector_engine, **k),
        (X,),
        lambda x: x.astype(bf16),
        dtype=bf16,
    ),
    Case(
        "tensor_partition_reduce",
        lambda x, **k: nisa.tensor_partition_reduce(np.max, x, **k),
        (X,),
        lambda x: x.max(0, keepdims=True),
    ),
    Case(
        "tensor_reduce",
        lambda x, **k: nisa.tensor_reduce(np.max, x, axis=[1], negate=True, **k),
        (X,),
        lambda x: -x.max(1, keepdims=True),
    ),
    Case(
        "tensor_reduce_3d",
        lambda x, **k: nisa.tensor_reduce(np.add, x, axis=2, **k),
        (X3,),
        lambda x: x.sum(2),
        exact=False,
    ),
    Case(
        "tensor_reduce_keepdims",
        lambda x, **k: nisa.tensor_reduce(np.min, x, axis=(1, 2), keepdims=True, **k),
        (X3,),
        lambda x: x.min((1, 2), keepdims=True),
    ),
    Case(
        "tensor_scalar",
        lambda x, c, **k: nisa.tensor_scalar(
            x, np.multiply, c, op1=np.subtract, operand1=2.5, reverse1=True, **k
        ),
        (X, C),
        lambda x, c: np.float32(2.5) - x * c,
    ),
    Case(
        "tensor_scalar_divide",
        lambda x, **k: nisa.tensor_scalar(x, nl.divide, 3.0, **k),
        (X,),
        lambda x: x / np.float32(3),
    ),
    Case(
        "tensor_scalar_power",
        lambda x, **k: nisa.tensor_scalar(
            data=x, op0=np.add, operand0=0.5, op1=np.power, operand1=-0.5, **k
        ),
        (POSITIVE,),
        lambda x: np.power((x + np.float32(0.5)).astype(float), -0.5).astype(np.float32),
    ),
    Case(
        "tensor_scalar_rsqrt_alone",
        lambda x, **k: nisa.tensor_scalar(x, nl.rsqrt, 0.0, **k),
        (POSITIVE,),
        lambda x: 1 / np.sqrt(x),
        exact=False,
    ),
    Case(
        "tensor_scalar_rsqrt",
        lambda x, **k: nisa.tensor_scalar(x, nl.add, 1.0, op1=nl.rsqrt, operand1=0.0, **k),
        (POSITIVE,),
        lambda x: 1 / np.sqrt(x + 1),
        exact=False,
    ),
    Case(
        "tensor_scalar_bits",
        lambda x, **k: nisa.tensor_scalar(
            x, np.bitwise_and, 12, op1=nl.left_shift, operand1=2, **k
        ),
        (N,),
        lambda x: (x & 12) << 2,
        dtype=np.int32,
    ),
    Case(
        "tensor_scalar_not",
        lambda x, **k: nisa.tensor_scalar(x, nl.logical_not, 0.0, **k),
        (TRUTH,),
        lambda x: np.logical_not(x).astype(np.uint8),
        dtype=np.uint8,
    ),
    Case(
        "tensor_tensor",
        lambda x, y, **k: nisa.tensor_tensor(x, y, op=nl.subtract, **k),
        (X, Y),
        lambda x, y: x - y,
    ),
    Case(
        "tensor_tensor_promoted",
        lambda x, n, **k: nisa.tensor_tensor(n, x, np.multiply, **k),
        (X, N),
        lambda x, n: (n * x.astype(np.float32)).astype(np.float32),
    ),
    Case(
        "tensor_tensor_power",
        lambda x, y, **k: nisa.tensor_tensor(x, y, op=np.power, **k),
        (POSITIVE, Y),
        lambda x, y: np.power(x.astype(float), y).astype(np.float32),
    ),
    Case(
        "tensor_tensor_integers",
        lambda n, **k: nisa.tensor_tensor(n, n, np.multiply, **k),
        (N,),
        lambda n: n * n,
        dtype=np.int32,
    ),
    Case(
        "tensor_tensor_column",
        lambda x, c, **k: nisa.tensor_tensor(x, c, np.maximum, **k),
        (X, C),
        np.maximum,
    ),
    Case(
        "tensor_tensor_scan",
        lambda x, y, **k: nisa.tensor_tensor_scan(x, y, 0.5, np.multiply, np.add, **k),
        (X / 4, Y),
        lambda x, y: scan(x, y, 0.5),
        exact=False,
    ),
]


def kernel_of(case: Case, mask: Callable[..., Any] | None = None, into: bool = False) -> Any:
    """Make a kernel: it loads the arrays, calls, and returns the result; `into` a tile filled with 7 first."""

    @nki.jit
    def kernel(*tensors: Any) -> Any:
        tiles = [nl.load(t) for t in tensors]
        if mask is None:
            return case.call(*tiles)
        result = case.call(*tiles, mask=mask())
        filled = nl.full(result.shape, 7, result.dtype)
        filled[...] = result
        return filled

    return kernel


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_are_those_of_the_formula(case):
    value = kernel_of(case)(*case.arrays)
    expected = np.asarray(case.formula(*case.arrays))
    assert value.dtype == case.dtype
    assert value.reshape(expected.shape).shape == expected.shape
    if case.exact:
        np.testing.assert_array_equal(value.reshape(expected.shape), expected)
    else:
        np.testing.assert_allclose(value.reshape(expected.shape), expected, rtol=2e-5, atol=1e-5)


ROWS, COLUMNS = 37, 13


def limits(shape: tuple[int, ...], over: str) -> tuple[slice, ...]:
    """Return what the mask of the tests leaves of an array."""
    if over == "partitions":
        return (slice(0, ROWS),)
    last = (
        [] if shape[-1] in (1, 6) and len(shape) == 2 else [slice(0, min(COLUMNS, shape[-1] - 2))]
    )
    return (slice(0, ROWS), *[slice(None)] * (len(shape) - 2), *last)


def masked(case: Case) -> Callable[[], Any]:
    shape = case.arrays[0].shape
    cut = limits(shape, case.over)

    def mask() -> Any:
        grid = nl.mgrid[tuple(slice(0, n) for n in shape)]
        condition = grid[0] < ROWS
        return condition if case.over == "partitions" else condition & (grid[-1] < cut[-1].stop)

    return mask


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "bn_aggr"], ids=str)
def test_what_a_mask_leaves_is_computed_and_the_rest_stays(case):
    result = run(kernel_of(case, masked(case)), *case.arrays)
    cut = [a[limits(a.shape, case.over)] if a.shape[-1] > 1 else a[:ROWS] for a in case.arrays]
    part = np.asarray(case.formula(*cut))
    whole = np.asarray(case.formula(*case.arrays))
    part = part.reshape(part.shape[0], -1) if part.ndim == 2 and whole.ndim == 2 else part
    expected = np.full(whole.shape, 7, whole.dtype)
    expected[tuple(slice(0, n) for n in part.shape)] = part
    value = result.value.reshape(expected.shape)
    if case.exact:
        np.testing.assert_array_equal(value, expected)
    else:
        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=1e-5)
    assert not [f for f in result.findings if f.kind == "uninitialized"]
    name = case.name if case.name in FUNCTIONS else case.name.rsplit("_", 1)[0]
    name = next(n for n in sorted(FUNCTIONS, key=len, reverse=True) if name.startswith(n))
    (i,) = [i for i in result.compiled.kernel.body if i.definition.name == name][-1:]
    sizes = {t.shape[0] for t in i.read()}
    assert sizes <= {ROWS, 1}, "partitions that are masked off are not computed"


# -- names, signatures, mistakes ------------------------------------------------------------------------------------


def test_choices_have_the_old_numbers_and_todays_meaning():
    assert [m.value for m in nisa.dge_mode] == [0, 1, 2, 3]
    assert nisa.dge_mode.none == 0 and nisa.dge_mode.unknown == 3
    assert (nisa.engine.vector, nisa.engine.sync, nisa.reduce_cmd.reduce) == (5, 6, 2)
    assert nisa.vector_engine is nisa.engine.vector
    assert nisa.nc_version.gen2 < nisa.nc_version.gen3 == 3
    assert nisa.fp32.min == LOWEST

    @nki.jit
    def kernel(x):
        assert nisa.get_nc_version() >= nisa.nc_version.gen2
        return nisa.tensor_copy(nl.load(x), engine=nisa.engine.scalar)

    copy = run(kernel, X).compiled.kernel.body[-2]
    assert copy.form.engine.name == "scalar"


def refused(call: Callable[..., Any], *arrays: np.ndarray) -> Any:
    return kernel_of(Case("", call, arrays, np.abs))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: nisa.builtin_custom_op("f", "lib.so", 1, 1, [x], [x]),
            NotModelled,
            r"builtin_custom_op: the operator 'f' is a C\+\+ library",
        ),
        (
            lambda x: nisa.activation("exp", x),
            WrongOperand,
            "activation: op='exp' stands for no operator",
        ),
        (
            lambda x: nisa.activation(nl.exp, 3.0),
            WrongOperand,
            "`data` must be a tile, found float 3.0",
        ),
        (lambda x: nisa.tensor_copy(x, speed=2), WrongCall, "tensor_copy has no parameter `speed`"),
        (lambda x: nisa.iota(x, nl.int32), WrongOperand, "`expr` must be an affine expression"),
        (
            lambda x: nisa.affine_select(
                (nl.mgrid[0:48, 0:20][0] < 3) & (nl.mgrid[0:48, 0:20][1] < 3), x, 0.0
            ),
            WrongOperand,
            "must be one comparison",
        ),
        (
            lambda x: nisa.affine_select(nl.arange(48)[:, None, None] < 3, x, 0.0),
            WrongOperand,
            "is about 3 axes",
        ),
        (
            lambda x: nisa.activation(nl.copy, x, reduce_cmd=9),
            WrongOperand,
            "9 is not a member of nisa.reduce_cmd",
        ),
        (
            lambda x: nisa.max8(
                src=x, mask=(nl.mgrid[0:48, 0:20][1] < 9) | (nl.mgrid[0:48, 0:20][1] > 10)
            ),
            NotModelled,
            "leaves several separate parts",
        ),
        (lambda x: nisa.tensor_reduce(nl.add, x, axis=0), NkiError, "only free axes are reduced"),
        (lambda x: nisa.tensor_tensor(x, x[0:1, :], nl.add), NkiError, "repeat no partitions"),
    ],
)
def test_mistakes_are_told(call, error, message):
    with pytest.raises(error, match=message):
        refused(call, X)(X)


def test_functions_that_the_stubs_lack_are_of_later_releases():
    assert FUNCTIONS.keys() - _STUBS.keys() == {"tensor_scalar_cumulative"}
    assert _STUBS.keys() - FUNCTIONS.keys() == {"get_nc_version", "nc_matmul", "nc_transpose"}


_STUBS = BETA1_API["functions"]["neuronxcc.nki.isa"]


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() & _STUBS.keys()))
def test_a_signature_is_that_of_the_stub(name):
    assert same_signature(FUNCTIONS[name], _STUBS[name], vars(nisa))
    assert inspect.getdoc(FUNCTIONS[name])
