"""Tests element-wise functions of nki.language against NumPy in float64."""

import math

import ml_dtypes
import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import NotOnTarget, RuleBroken, StrictFinding, WrongOperand
from nki_lab.versions import VERSIONS
from tests.language.evaluate import error_against, evaluate, run_kernel, stored

RNG = np.random.default_rng(7)
X = (3 * RNG.standard_normal((40, 56))).astype(np.float32)
Y = RNG.standard_normal((40, 56)).astype(np.float32)
X64, Y64 = X.astype(np.float64), Y.astype(np.float64)
INT = {
    dtype: RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (2, 24, 40), dtype)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32)
}

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "abs_max": lambda x, y: np.where(np.abs(x) > np.abs(y), x, y),
    "abs_min": lambda x, y: np.where(np.abs(x) < np.abs(y), x, y),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
# Values that compare equal and values that are false, beside the random ones.
LEFT, RIGHT = X.copy(), Y.copy()
LEFT[:, 0] = RIGHT[:, 0] = 1.25
LEFT[::3, 1] = 0
RIGHT[::2, 1] = 0


@pytest.mark.parametrize("name", BINARY)
def test_two_tiles(name):
    expected = BINARY[name](LEFT.astype(np.float64), RIGHT.astype(np.float64)).astype(np.float64)
    assert error_against(evaluate(getattr(nl, name), LEFT, RIGHT), expected) < 1e-6


@pytest.mark.parametrize("name", BINARY)
def test_a_tile_and_a_number_on_either_side(name):
    function, reference = getattr(nl, name), BINARY[name]
    left = evaluate(lambda x: function(x, 1.25), LEFT)
    right = evaluate(lambda x: function(1.25, x), LEFT)
    assert error_against(left, reference(LEFT.astype(np.float64), 1.25).astype(np.float64)) < 1e-6
    assert error_against(right, reference(1.25, LEFT.astype(np.float64)).astype(np.float64)) < 1e-6


def test_power_of_two_tiles():
    result = evaluate(nl.power, np.abs(X), Y)
    assert error_against(result, np.abs(X64) ** Y64) < 1e-5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal(x):
    """Return the density and the distribution function of the standard normal distribution."""
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return density, 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def swish_dx(x, factor):
    """Return the derivative of x * sigmoid(factor * x)."""
    s = sigmoid(factor * x)
    return s + factor * x * s * (1 - s)


UNARY = {
    "abs": np.abs,
    "arctan": np.arctan,
    "erf": np.vectorize(math.erf),
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "exp": np.exp,
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_apprx_sigmoid": lambda x: x / (1 + np.exp(-1.702 * x)),
    "gelu_apprx_sigmoid_dx": lambda x: swish_dx(x, 1.702),
    "gelu_apprx_tanh": lambda x: (
        x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "gelu_dx": lambda x: normal(x)[1] + x * normal(x)[0],
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "negative": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "silu_dx": lambda x: swish_dx(x, 1.0),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "square": np.square,
    "tanh": np.tanh,
}
POSITIVE = {
    "log": np.log,
    "reciprocal": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
}


@pytest.mark.parametrize("name", UNARY)
def test_one_tile(name):
    assert error_against(evaluate(getattr(nl, name), X), UNARY[name](X64)) < 2e-6


@pytest.mark.parametrize("name", POSITIVE)
def test_one_tile_of_positive_elements(name):
    x = np.abs(X) + np.float32(0.01)
    assert error_against(evaluate(getattr(nl, name), x), POSITIVE[name](x.astype(np.float64))) < 2e-6  # fmt: skip


@pytest.mark.parametrize("narrow", [ml_dtypes.bfloat16, np.float16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", [*UNARY, *POSITIVE, *BINARY])
def test_the_result_is_rounded_once_to_the_dtype_of_the_tile_or_the_one_asked_for(name, narrow):
    x = (np.abs(X) + np.float32(0.5)).astype(narrow)
    y = Y.astype(narrow)
    both = (x, y) if name in BINARY else (x,)
    function, formula = getattr(nl, name), (UNARY | POSITIVE | BINARY)[name]
    exact = np.asarray(formula(*(a.astype(np.float64) for a in both)), np.float64)
    result = evaluate(function, *both)
    assert result.dtype == narrow
    epsilon = float(ml_dtypes.finfo(narrow).eps)
    # Half a step of the narrow dtype, and what float32 leaves open.
    np.testing.assert_allclose(result.astype(float), exact, rtol=0.5001 * epsilon + 1e-6, atol=2e-6)
    wide = evaluate(lambda *t: function(*t, dtype=nl.float32), *both)
    assert wide.dtype == np.float32
    np.testing.assert_allclose(wide, exact, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("name", sorted({*UNARY, *POSITIVE, *BINARY} - {"abs_max", "abs_min"}))
def test_older_chips_have_it_too(name, target):
    x = np.abs(X) + np.float32(0.5) if name in POSITIVE else X
    both = (x, Y) if name in BINARY else (x,)
    exact = (UNARY | POSITIVE | BINARY)[name](*(a.astype(np.float64) for a in both))
    result = evaluate(getattr(nl, name), *both, target=target)
    assert error_against(result, np.asarray(exact, np.float64)) < 2e-6


@pytest.mark.parametrize("dtype", INT, ids=lambda d: d.__name__)
def test_bits_of_integers(dtype):
    x, y = INT[dtype]
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        assert np.array_equal(evaluate(getattr(nl, name), x, y), getattr(np, name)(x, y)), name
    assert np.array_equal(evaluate(lambda t: nl.bitwise_xor(t, 5), x), x ^ dtype(5))
    assert np.array_equal(evaluate(nl.invert, x), ~x)
    # Both shifts work on the bits: the right one fills with zeros whatever the sign is.
    bits = x.view(f"u{x.itemsize}")
    assert np.array_equal(evaluate(lambda t: nl.left_shift(t, 3), x), (bits << 3).view(dtype))
    assert np.array_equal(evaluate(lambda t: nl.right_shift(t, 3), x), (bits >> 3).view(dtype))


def test_32_bit_integers_are_added_exactly():
    x, y = INT[np.int32] // 2
    assert np.array_equal(evaluate(nl.add, x, y), x + y)


def test_logical_not_of_zeros_and_ones():
    x = (X > 0).astype(np.float32)
    assert np.array_equal(evaluate(nl.logical_not, x), 1 - x)


def test_the_result_has_the_dtype_of_the_tile_or_the_one_asked_for():
    narrow = X.astype(ml_dtypes.bfloat16)
    for function in (lambda t: nl.add(t, 1), lambda t: nl.less(t, 0), nl.exp, nl.negative):
        assert evaluate(function, narrow).dtype == ml_dtypes.bfloat16
    assert evaluate(lambda t: nl.less(t, 0, dtype=nl.uint8), X).dtype == np.uint8
    assert evaluate(lambda t: nl.exp(t, dtype=nl.float16), X).dtype == np.float16
    assert evaluate(nl.add, X, narrow).dtype == np.float32
    assert evaluate(nl.add, narrow, X).dtype == ml_dtypes.bfloat16


def test_a_bfloat16_result_is_rounded_once():
    x = X.astype(ml_dtypes.bfloat16)
    exact = x.astype(np.float64) * 1.1
    result = evaluate(lambda t: nl.multiply(t, 1.1), x)
    assert np.array_equal(result, exact.astype(np.float32).astype(ml_dtypes.bfloat16))


def test_two_dtypes_without_a_choice_are_a_finding():
    def mixed(a, b):
        return stored(nl.add(nl.load(a), nl.load(b)))

    def chosen(a, b):
        return stored(nl.add(nl.load(a), nl.load(b), dtype=nl.float32))

    _, kernel = run_kernel(mixed, X, Y.astype(np.float16))
    assert [f.kind for f in kernel.findings] == ["portability"]
    assert "the dtype of the first one" in kernel.findings[0].message
    assert run_kernel(chosen, X, Y.astype(np.float16))[1].findings == ()


def test_abs_max_takes_one_value_per_partition():
    column = np.ascontiguousarray(Y[:, :1])
    expected = np.where(np.abs(X) > np.abs(column), X, column)
    assert np.array_equal(evaluate(nl.abs_max, X, column), expected)


def test_abs_max_is_of_the_newest_chip_only():
    with pytest.raises(NotOnTarget, match="must have the operator"):
        evaluate(nl.abs_max, X, Y, target="trn2")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda a, b: nl.add(nl.load(a), nl.load(b)[0:8]), RuleBroken, r"\[8, 56\]"),
        (lambda a, b: nl.add(a, nl.load(b)), WrongOperand, "load it first"),
        (lambda a, b: nl.exp(a), WrongOperand, "load it first"),
        (lambda a, b: nl.exp(2.0), WrongOperand, "must be a tile, found float"),
        (lambda a, b: nl.add(1, 2), WrongOperand, "one of the operands must be a tile"),
        (lambda a, b: nl.add(nl.load(a), "1"), WrongOperand, "tiles and numbers, found str"),
        (lambda a, b: nl.power(nl.load(a), 2), WrongOperand, r"nl\.square\(x\) for 2"),
    ],
)
def test_refused_operands_say_what_to_write(function, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        run_kernel(lambda a, b: stored(function(a, b)), X, Y)


def test_an_operator_is_a_value_and_a_function():
    assert repr(nl.add) == "nl.add"
    assert nl.add.__doc__.startswith("Add two tiles")
    assert nl.sin is not nl.cos


def finding_of(body, *arguments):
    outputs, compiled = run_kernel(lambda *a: stored(body(*a)), *arguments)
    (finding,) = [f for f in compiled.findings if f.kind == "portability"]
    with pytest.raises((StrictFinding, RuleBroken), match="portability"):
        run_kernel(lambda *a: stored(body(*a)), *arguments, strict=True)
    return outputs[0], finding


@pytest.mark.parametrize("name", ["subtract", "multiply", "maximum", "less", "power"])
def test_one_column_is_repeated_as_by_the_official_simulator(name):
    function, model = getattr(nl, name), getattr(np, name)
    x, y = np.abs(X) + 0.5, np.abs(Y) / 8
    got, finding = finding_of(lambda a, b: function(nl.load(a), nl.load(b)[:, 0:1]), x, y)
    np.testing.assert_allclose(got, model(x, y[:, :1]), rtol=1e-6)
    assert "runs on NKI's simulator; NKI's compiler refuses it" in finding.message
    assert "data=x" in finding.help and "operand0=y" in finding.help
    got, finding = finding_of(lambda a, b: function(nl.load(a)[:, 2:3], nl.load(b)), x, y)
    np.testing.assert_allclose(got, model(x[:, 2:3], y), rtol=1e-6)
    assert "data=y" in finding.help and "operand0=x" in finding.help


def test_free_axes_of_size_1_are_repeated_and_others_refused():
    def outer(a, b):
        rows = nl.load(a)[:, 0:6].reshape((X.shape[0], 6, 1))
        columns = nl.load(b)[:, 0:4].reshape((X.shape[0], 1, 4))
        return nl.subtract(rows, columns)

    got, _ = finding_of(outer, X, Y)
    np.testing.assert_array_equal(got, X[:, 0:6, None] - Y[:, None, 0:4])
    with pytest.raises(RuleBroken, match="do not broadcast"):
        run_kernel(lambda a, b: stored(nl.subtract(nl.load(a)[:, 0:2], nl.load(b))), X, Y)


def test_the_only_partition_of_a_tile_is_repeated_as_by_the_official_simulator():
    def outer(a, b):
        return nl.subtract(nl.load(a)[:, 5:6], nl.load(b)[32:33])

    got, finding = finding_of(outer, X, Y)
    np.testing.assert_array_equal(got, X[:, 5:6] - Y[32:33])
    assert "[40, 1] and [1, 56], which repeats elements, runs on NKI's simulator" in finding.message
    assert "nl.broadcast_to(tile, shape)" in finding.help
    got, _ = finding_of(lambda a, b: nl.power(nl.load(b)[0:1], nl.load(a)), X, np.abs(Y))
    np.testing.assert_allclose(got, np.abs(Y[0:1]) ** X, rtol=2e-6)


@pytest.mark.parametrize(
    ("name", "model"), [("divide", np.divide), ("mod", np.mod), ("fmod", np.fmod)]
)
def test_what_no_engine_has_runs_as_in_the_official_simulator_and_is_found(name, model):
    function = getattr(nl, name)
    divisor = np.where(np.abs(Y) < 0.25, 0.75, Y).astype(np.float32)
    got, finding = finding_of(lambda a, b: function(nl.load(a), nl.load(b)), X, divisor)
    np.testing.assert_array_equal(got, model(X, divisor))
    assert f"nl.{name} runs on NKI's simulator; NKI's compiler refuses it" in finding.message
    got, _ = finding_of(lambda a, b: function(nl.load(a), 0.75), X, Y)
    np.testing.assert_array_equal(got, model(X, np.float32(0.75)))
    got, _ = finding_of(lambda a, b: function(2.5, nl.load(b)), X, divisor)
    np.testing.assert_array_equal(got, model(np.float32(2.5), divisor))


@pytest.mark.parametrize("version", [v.name for v in VERSIONS])
def test_every_version_divides_and_says_since_0_3_that_no_engine_does(version):
    def divided(x, y, op):
        a, b = (nl.ndarray(v.shape, v.dtype) for v in (x, y))
        nisa.dma_copy(dst=a, src=x)
        nisa.dma_copy(dst=b, src=y)
        if op:
            nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.divide)
        else:
            a = nl.divide(a, b, dtype=nl.float32)
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        return out

    divisor = np.where(np.abs(Y) < 0.25, 0.75, Y).astype(np.float32)
    for op in (False, True):
        result = nki_lab.run(divided, X, divisor, op, nki=version)
        np.testing.assert_array_equal(result.value, X / divisor)
        told = [f for f in result.findings if "NKI's compiler refuses it" in f.message]
        assert len(told) == (
            op or version not in ("0.1", "0.2")
        )  # no page before 0.3 lists limits of nl


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_a_quotient_is_rounded_once(dtype):
    x, y = ((40 * v).astype(np.int32).astype(dtype) for v in (X, Y[::-1]))
    got, finding = finding_of(lambda a, b: nl.divide(nl.load(a), nl.load(b)), x, y)
    assert finding.help.startswith("write nl.multiply(x, nl.reciprocal(y))")
    with np.errstate(all="ignore"):
        exact = x.astype(float) / y.astype(float)  # has the bits that one more rounding needs
        if dtype == "int32":  # infinite where y is 0, which becomes the largest integer
            exact = np.nan_to_num(np.rint(exact), posinf=2**31 - 1, neginf=-(2**31))
        np.testing.assert_array_equal(got, exact.astype(dtype))
        if dtype == "float32":
            assert (got != x * (1 / y)).sum() > 100, (
                "the product with a reciprocal is another value"
            )


@pytest.mark.parametrize("op1", [None, nl.divide, nl.add])
def test_an_instruction_divides_on_the_official_simulator_and_that_is_found(op1):
    def scaled(a):
        data = nl.load(a)
        result = nl.ndarray(data.shape, nl.float32)
        column = data[:, 3:4]
        more = {} if op1 is None else {"op1": op1, "operand1": -0.7, "reverse1": True}
        nisa.tensor_scalar(result, data, op0=nl.divide, operand0=column, **more)
        return result

    got, finding = finding_of(scaled, X)
    quotient, number = X / X[:, 3:4], np.float32(-0.7)
    second = {None: quotient, nl.divide: number / quotient, nl.add: number + quotient}[op1]
    np.testing.assert_array_equal(got, second)
    assert "must be an operator that an engine has" in finding.message
    assert finding.help.startswith("no engine divides; multiply by nl.reciprocal")


def test_division_costs_what_another_operator_costs():
    @nki.jit
    def applied(a, b, function):
        return stored(function(nl.load(a), nl.load(b)))

    divided, subtracted = (nki_lab.run(applied, X, Y, f).profile for f in (nl.divide, nl.subtract))
    assert divided.total_ns == subtracted.total_ns
