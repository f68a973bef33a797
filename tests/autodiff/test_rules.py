"""The rule of each instruction, operator and function, against differences of formulas written here."""

from math import erf, pi, sqrt

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.api.beta1 import language as bl
from nki_lab.api.beta1 import nki as beta1
from nki_lab.autodiff import backward
from nki_lab.choices import use_target
from nki_lab.errors import NoGradient
from nki_lab.ir.definition.instruction import registry
from nki_lab.isa.activations import ACTIVATIONS
from nki_lab.isa.operators import OPS
from tests.autodiff.gradcheck import check_gradients

SHAPE = 3, 6


def values(seed: int, shape=SHAPE, low=-1.4, high=1.9) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


X, Y, POSITIVE = values(1), values(2), values(3, low=0.3, high=2.5)
COLUMN = values(4, (3, 1), low=0.4)


def tile(shape=SHAPE, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def loaded(x):
    t = tile(x.shape, x.dtype)
    nisa.dma_copy(dst=t, src=x)
    return t


def stored(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


# -- activation functions --------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cdf(x):
    return np.vectorize(lambda v: 0.5 * (1 + erf(v / sqrt(2))))(x)


def swish_dx(factor):
    def function(x):
        s = sigmoid(factor * x)
        return s * (1 + factor * x * (1 - s))

    return function


FUNCTIONS = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: np.where(x > 0, x, 0),
    "abs": np.abs,
    "sigmoid": sigmoid,
    "gelu": lambda x: x * cdf(x),
    "gelu_dx": lambda x: cdf(x) + x * np.exp(-x * x / 2) / sqrt(2 * pi),
    "gelu_apprx_tanh": lambda x: 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": swish_dx(1.702),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": swish_dx(1.0),
    "tanh": np.tanh,
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "erf": np.vectorize(erf),
    "erf_dx": lambda x: 2 / sqrt(pi) * np.exp(-x * x),
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "arctan": np.arctan,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: x**-0.5,
    "reciprocal": lambda x: 1 / x,
}
#: Their slope is 0 everywhere (sign), or they need a parameter that no instruction with a rule has.
FLAT = {"sign", "prelu"}


def test_every_function_has_a_formula_here():
    assert {n for n, f in ACTIVATIONS.items() if f.slope is not None} == {*FUNCTIONS, "sign"}
    assert {*ACTIVATIONS} == {*FUNCTIONS, *FLAT}


#: Where the result was rounded, the slope takes another one.
ROUNDED = ("tanh", "sqrt", "gelu")


@pytest.mark.parametrize(
    ("name", "dtype"), [*((n, nl.float32) for n in FUNCTIONS), *((n, nl.bfloat16) for n in ROUNDED)]
)
def test_function(name, dtype):
    """The result is used where it is exact, and computed anew where it was rounded."""

    @nki.jit
    def kernel(x):
        t, y, out = loaded(x), tile(dtype=dtype), tile()
        nisa.activation(dst=y, op=getattr(nl, name), data=t)
        nisa.tensor_copy(dst=out, src=y)
        return stored(out)

    check_gradients(kernel, FUNCTIONS[name], x=POSITIVE if name in ("log", "sqrt", "rsqrt") else X)


def test_scale_bias_and_sum_of_an_activation():
    @nki.jit
    def kernel(x, scale, bias):
        t, s, b, total = loaded(x), loaded(scale), loaded(bias), tile((3, 1))
        nisa.activation(
            dst=t, op=nl.tanh, data=t, scale=s, bias=b,
            reduce_op=nl.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )  # fmt: skip
        return stored(t), stored(total)

    def formula(x, scale, bias):
        y = np.tanh(x * scale + bias)
        return y, y.sum(1, keepdims=True)

    check_gradients(kernel, formula, x=X, scale=COLUMN, bias=COLUMN * -0.3)


def test_activation_reduce_of_which_only_the_sum_is_used():
    @nki.jit
    def kernel(x):
        t, total = loaded(x), tile((3, 1))
        nisa.activation_reduce(
            dst=t, op=nl.exp, data=t, scale=-0.7, reduce_op=nl.add, reduce_res=total
        )
        return stored(total)

    check_gradients(kernel, lambda x: np.exp(-0.7 * x).sum(1, keepdims=True), x=X)


# -- operators -------------------------------------------------------------------------------------------------------

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
UNARY = {
    "abs": np.abs,
    "square": np.square,
    "relu": FUNCTIONS["relu"],
    "rsqrt": lambda x: x**-0.5,
    "reciprocal": lambda x: 1 / x,
}
#: Operators that only simulators compute, and those of one instruction only.
SPECIAL = {"divide", "power"}


def test_every_operator_has_a_formula_here():
    rules = {n for n, op in OPS.items() if op.alu and op.alu.slopes not in (None, (0, 0))}
    assert rules == {*BINARY, *UNARY, *SPECIAL, "max", "min"}


@pytest.mark.parametrize("name", BINARY)
def test_operator_of_two_tiles(name):
    @nki.jit
    def kernel(x, y):
        t = loaded(x)
        nisa.tensor_tensor(dst=t, data1=t, data2=loaded(y), op=getattr(nl, name))
        return stored(t)

    check_gradients(kernel, lambda x, y: BINARY[name](x, y), x=X, y=Y)


def test_equal_operands_of_a_maximum_share_the_gradient():
    @nki.jit
    def kernel(x, y):
        t = loaded(x)
        nisa.tensor_tensor(dst=t, data1=t, data2=loaded(y), op=nl.maximum)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.minimum, operand0=0.5)
        return stored(t)

    y = np.where(X > 0, X, X - 1).astype(np.float32)
    check_gradients(kernel, lambda x, y: np.minimum(np.maximum(x, y), 0.5), x=X, y=y)


def test_power_and_divide():
    @nki.jit
    def kernel(x, y):
        t, u = loaded(x), loaded(y)
        nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.power)
        nisa.tensor_tensor(dst=u, data1=t, data2=u, op=nl.divide)
        return stored(u)

    check_gradients(kernel, lambda x, y: x**y / y, x=POSITIVE, y=values(7, low=0.5))


def test_remainders():
    @nki.jit
    def kernel(x, y):
        t, u = loaded(x), loaded(y)
        return stored(nl.mod(t, u)), stored(nl.fmod(t, u))

    check_gradients(
        kernel, lambda x, y: (np.mod(x, y), np.fmod(x, y)), x=X * 2, y=values(7, low=0.5)
    )


def test_a_divided_number():
    @nki.jit
    def kernel(x):
        t = loaded(x)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.divide, operand0=2.5, reverse0=True)
        return stored(t)

    check_gradients(kernel, lambda x: 2.5 / x, x=POSITIVE)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", BINARY)
def test_operators_with_columns_and_numbers(name, reverse):
    op = getattr(nl, name)

    @nki.jit
    def kernel(x, y, column):
        t, c = loaded(x), loaded(column)
        nisa.tensor_scalar(
            dst=t, data=t, op0=op, operand0=c, reverse0=reverse, op1=nl.multiply, operand1=c
        )
        nisa.scalar_tensor_tensor(
            dst=t, data=t, op0=nl.add, operand0=c, op1=op, operand1=loaded(y), reverse1=reverse
        )
        nisa.tensor_scalar(dst=t, data=t, op0=op, operand0=0.25, reverse0=reverse)
        return stored(t)

    def formula(x, y, column):
        def f(a, b):
            return BINARY[name](b, a) if reverse else BINARY[name](a, b)

        return f(f(f(x, column) * column + column, y), 0.25)

    check_gradients(kernel, formula, x=X, y=Y * 4, column=COLUMN)


@pytest.mark.parametrize("name", UNARY)
def test_operator_of_one_tile(name):
    @nki.jit
    def kernel(x):
        t = loaded(x)
        if name == "rsqrt":
            nisa.tensor_scalar(dst=t, data=t, op0=nl.rsqrt, operand0=0.0)
        else:
            nisa.tensor_scalar(
                dst=t, data=t, op0=getattr(nl, name), operand0=0.0, op1=nl.add, operand1=1.0
            )
        return stored(t)

    shift = 0 if name == "rsqrt" else 1
    x = POSITIVE if name in ("rsqrt", "reciprocal") else X
    check_gradients(kernel, lambda x: UNARY[name](x) + shift, x=x)


def test_comparisons_have_no_slope():
    @nki.jit
    def kernel(x, y):
        t, u = loaded(x), loaded(y)
        nisa.scalar_tensor_tensor(
            dst=t, data=t, op0=nl.greater, operand0=0.2, op1=nl.multiply, operand1=u
        )
        nisa.tensor_tensor(dst=t, data1=t, data2=loaded(x), op=nl.multiply)
        return stored(t)

    check_gradients(kernel, lambda x, y: (x > 0.2) * y * x, x=X, y=Y)


# -- other instructions ----------------------------------------------------------------------------------------------


@nki.jit
def reciprocal(x):
    t = loaded(x)
    nisa.reciprocal(dst=t, data=t)
    return stored(t)


@nki.jit
def predicated(x, y):
    t, u, chosen, other = loaded(x), loaded(y), tile(dtype=nl.uint8), tile(dtype=nl.uint8)
    nisa.tensor_scalar(dst=chosen, data=t, op0=nl.greater, operand0=0.3)
    nisa.tensor_scalar(dst=other, data=t, op0=nl.greater, operand0=-0.5)
    nisa.tensor_copy_predicated(dst=t, src=u, predicate=chosen)
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.multiply)
    nisa.tensor_copy_predicated(dst=t, src=u, predicate=other, reverse_pred=True)
    return stored(t)


@nki.jit
def sums(x):
    t = loaded(x)
    total, largest = tile((3, 2)), tile((3, 1))
    rounded, least = tile((3, 1), nl.bfloat16), tile((3, 1))
    nisa.tensor_reduce(dst=total, op=nl.add, data=t.reshape((3, 2, 3)), axis=2, negate=True)
    nisa.tensor_reduce(dst=largest, op=nl.max, data=t, axis=1, negate=True)
    nisa.tensor_reduce(dst=rounded, op=nl.minimum, data=t, axis=1)
    nisa.tensor_copy(dst=least, src=rounded)
    return stored(total), stored(largest), stored(least)


@nki.jit
def partition_sums(x):
    t, total, mean = loaded(x), tile((1, 6)), tile((1, 6))
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=t)
    nisa.tensor_partition_reduce(dst=mean, op=nl.average, data=t)
    return stored(total), stored(mean)


@nki.jit
def selected(x, y):
    t = loaded(x)
    nisa.affine_select(
        dst=t, pattern=[[-1, 6]], channel_multiplier=2, on_true_tile=t, on_false_value=-3.0,
        cmp_op=nl.greater_equal,
    )  # fmt: skip
    nisa.tensor_tensor(dst=t, data1=t, data2=loaded(y), op=nl.multiply)
    return stored(t)


@nki.jit
def in_range(x):
    t, low, high = loaded(x), tile((3, 1)), tile((3, 1))
    nisa.memset(dst=low, value=1.0)
    nisa.memset(dst=high, value=4.0)
    nisa.range_select(
        dst=t, on_true_tile=t, comp_op0=nl.greater_equal, comp_op1=nl.less, bound0=low, bound1=high
    )
    nisa.tensor_scalar(dst=t, data=t, op0=nl.maximum, operand0=-9.0)
    return stored(t)


@nki.jit
def chosen(x, column):
    t, chosen, other = loaded(x), tile(dtype=nl.uint8), tile(dtype=nl.uint8)
    nisa.tensor_scalar(dst=chosen, data=t, op0=nl.less, operand0=0.3)
    nisa.tensor_scalar(dst=other, data=t, op0=nl.less, operand0=-0.5)
    nisa.select_reduce(dst=t, predicate=chosen, on_true=t, on_false=loaded(column))
    nisa.select_reduce(
        dst=t, predicate=other, on_true=t, on_false=loaded(column), reverse_pred=True
    )
    return stored(t)


def chosen_formula(x, column):
    return np.where(X < -0.5, column, np.where(X < 0.3, x, column))


@nki.jit
def scanned(x, y, column):
    t = tile()
    nisa.tensor_tensor_scan(
        dst=t, data0=loaded(x), data1=loaded(y), initial=loaded(column), op0=nl.multiply, op1=nl.add
    )
    return stored(t)


def scan_formula(x, y, column):
    results, state = [], column[:, 0]
    for n in range(x.shape[1]):
        results.append(state := x[:, n] * state + y[:, n])
    return np.stack(results, 1)


@nki.jit
def statistics(x):
    t, stats, result = loaded(x), tile((3, 12)), tile((3, 2))
    nisa.bn_stats(dst=stats[:, 0:6], data=t[:, 0:5])
    nisa.bn_stats(dst=stats[:, 6:12], data=t[:, 5:6])
    nisa.bn_aggr(dst=result, data=stats)
    return stored(result)


@nki.jit
def turned(x):
    t, u = loaded(x), tile((6, 3))
    nisa.nc_transpose(dst=u, data=t)
    v, w = tile((3, 6), buffer=nl.psum), tile()
    nisa.nc_transpose(dst=v, data=u)
    nisa.tensor_tensor(dst=w, data1=v, data2=t, op=nl.multiply)
    return stored(w), stored(u)


@nki.jit
def products(x, y, z):
    a, b, c = loaded(x), loaded(y), loaded(z)
    total, turned, out, out2 = (
        tile((6, 300), buffer=nl.psum), tile((6, 3), buffer=nl.psum), tile((6, 300)), tile((6, 3)),
    )  # fmt: skip
    nisa.nc_matmul(dst=total, stationary=a, moving=c, accumulate=False)
    nisa.nc_matmul(dst=total, stationary=b, moving=c, accumulate=True)
    nisa.nc_matmul(
        dst=turned,
        stationary=a,
        moving=nl.shared_identity_matrix(3, dtype=nl.float32)[0:3, 0:3],
        is_transpose=True,
    )
    nisa.tensor_copy(dst=out, src=total)
    nisa.tensor_copy(dst=out2, src=turned)
    return stored(out), stored(out2)


def extrema(x):
    return -x.reshape(3, 2, 3).sum(2), -x.max(1, keepdims=True), x.min(1, keepdims=True)


@nki.jit
def scaled_sums(x, column):
    t, total = loaded(x), tile((3, 1))
    nisa.tensor_scalar_reduce(
        dst=t, data=t, op0=nl.multiply, operand0=loaded(column), reduce_op=nl.add, reduce_res=total
    )
    return stored(t), stored(total)


@nki.jit
def exponentials(x, column):
    t, rounded, u, total = loaded(x), tile(dtype=nl.bfloat16), tile(), tile((3, 1))
    nisa.exponential(dst=rounded, src=t, max_value=loaded(column))
    nisa.tensor_copy(dst=u, src=rounded)
    reset = nisa.reduce_cmd.reset_reduce
    nisa.exponential(dst=t, src=u, max_value=0.5, reduce_res=total, reduce_cmd=reset)
    return stored(t), stored(total)


def exponentials_formula(x, column):
    y = np.exp(np.exp(x - column) - 0.5)
    return y, y.sum(1, keepdims=True)


@nki.jit
def turned_load(x):
    turned, t = tile((6, 3), nl.bfloat16), tile((3, 6), nl.bfloat16)
    between = nl.ndarray((3, 6), dtype=nl.bfloat16, buffer=nl.hbm)
    nisa.tensor_copy(dst=t, src=loaded(x))
    nisa.dma_copy(dst=between, src=t)
    nisa.dma_transpose(dst=turned, src=between)
    result = tile((6, 3))
    nisa.tensor_tensor(dst=result, data1=turned, data2=turned, op=nl.multiply)
    return stored(result)


WIDE = values(8, (3, 300))
RULES = {
    "reciprocal": (reciprocal, lambda x: 1 / x, {"x": POSITIVE}),
    "tensor_copy_predicated": (
        predicated,
        lambda x, y: np.where(X > -0.5, np.where(X > 0.3, y * y, x * x), y),
        {"x": X, "y": Y},
    ),
    "tensor_reduce": (sums, extrema, {"x": X}),
    "tensor_partition_reduce": (
        partition_sums,
        lambda x: (x.sum(0, keepdims=True), x.mean(0, keepdims=True)),
        {"x": X},
    ),
    "tensor_scalar_reduce": (
        scaled_sums,
        lambda x, column: (x * column, (x * column).sum(1, keepdims=True)),
        {"x": X, "column": COLUMN},
    ),
    "exponential": (exponentials, exponentials_formula, {"x": X, "column": COLUMN}),
    "dma_transpose": (turned_load, lambda x: x.T**2, {"x": X}),
    "affine_select": (
        selected,
        lambda x, y: np.where(2 * np.arange(3)[:, None] >= np.arange(6), x, -3) * y,
        {"x": X, "y": Y},
    ),
    "range_select": (
        in_range,
        lambda x: np.where((np.arange(6) >= 1) & (np.arange(6) < 4), x, -9),
        {"x": X},
    ),
    "select_reduce": (chosen, chosen_formula, {"x": X, "column": COLUMN}),
    "tensor_tensor_scan": (scanned, scan_formula, {"x": X, "y": Y, "column": COLUMN}),
    "bn_aggr": (statistics, lambda x: np.stack([x.mean(1), x.var(1)], 1), {"x": X}),
    "nc_transpose": (turned, lambda x: (x * x, x.T), {"x": X}),
    "nc_matmul": (products, lambda x, y, z: ((x + y).T @ z, x.T), {"x": X, "y": Y, "z": WIDE}),
}
#: Instructions that other tests of this file use.
SHOWN = {
    "activation", "activation_reduce", "bn_stats", "dma_copy", "scalar_tensor_tensor", "tensor_copy",
    "tensor_scalar", "tensor_tensor",
}  # fmt: skip


def test_every_rule_is_shown_here():
    assert {n for n, d in registry.items() if "backward" in d.facets} == {*RULES, *SHOWN}


@pytest.mark.parametrize("name", RULES)
def test_rule(name):
    kernel, formula, inputs = RULES[name]
    rounds = name in ("exponential", "dma_transpose")  # to bfloat16, where the formula does not
    with use_target("trn3"):
        check_gradients(kernel, formula, tolerance=2e-2 if rounds else 2e-4, **inputs)


# -- what has no rule ------------------------------------------------------------------------------------------------


def refused(kernel, *inputs) -> str:
    with pytest.raises(NoGradient) as error:
        backward(kernel, *inputs)
    return str(error.value)


def test_an_instruction_without_a_rule_is_named_with_its_line():
    @nki.jit
    def kernel(x):
        largest = tile((3, 8))
        nisa.max8(dst=largest, src=loaded(x))
        return stored(largest)

    text = refused(kernel, values(1, (3, 8)))
    assert "`max8`" in text or "max8 has no rule for its gradient" in text
    assert "nisa.max8(dst=largest" in text
    assert "write the backward kernel by hand" in text


def test_operators_and_forms_without_a_rule_are_named():
    @nki.jit
    def product(x):
        p = tile((3, 1))
        nisa.tensor_reduce(dst=p, op=nl.multiply, data=loaded(x), axis=1)
        return stored(p)

    @nki.jit
    def scan(x):
        t = loaded(x)
        nisa.tensor_tensor_scan(
            dst=t, data0=loaded(x), data1=t, initial=0.0, op0=nl.add, op1=nl.add
        )
        return stored(t)

    @nki.jit
    def sum_of_two(x):
        t, total = loaded(x), tile((3, 1))
        for command in (nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce):
            nisa.activation(
                dst=t, op=nl.exp, data=t, reduce_op=nl.add, reduce_res=total, reduce_cmd=command
            )
        return stored(total)

    assert "tensor_reduce reduces with nl.multiply" in refused(product, X)
    assert "scans with nl.add and nl.add" in refused(scan, X)
    assert "a sum over several instructions" in refused(sum_of_two, X)


def test_random_numbers_differ_the_second_time():
    @nki.jit
    def kernel(x):
        t, bits, random = loaded(x), tile(dtype=nl.int8), tile()
        nisa.rng(dst=bits)
        nisa.tensor_copy(dst=random, src=bits)
        nisa.tensor_tensor(dst=t, data1=t, data2=random, op=nl.multiply)
        return stored(t)

    assert "rng depends on what the random state of Vector held before" in refused(kernel, X)


def test_bits_of_floats_have_no_gradient():
    @nki.jit
    def kernel(x):
        t = loaded(x)
        bits = t.view(nl.int32)
        nisa.tensor_scalar(dst=bits, data=bits, op0=nl.bitwise_and, operand0=0x7FFFFFFF)
        return stored(t)

    assert "as int32, and it is read as float32" in refused(kernel, X)


def test_what_the_device_decides_has_no_gradient():
    @nki.jit
    def loop(x):
        t = loaded(x)

        def body(n):
            nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)

        nl.fori_loop(0, 3, body)
        return stored(t)

    @nki.jit
    def in_place(x):
        nisa.dma_copy(dst=x, src=loaded(x))
        return x

    assert "has a loop that the device runs" in refused(loop, X)
    assert "writes its argument `x`" in refused(in_place, X)


def test_a_kernel_for_an_older_version():
    """NKI 0.7 took away the reduction of activation_reduce by a maximum, which is a mask here."""

    @nki.jit(nki="0.6")
    def kernel(x):
        t, copy, largest = loaded(x), tile(), tile((3, 1))
        nisa.activation_reduce(
            dst=copy, op=nl.copy, data=t, reduce_op=nl.maximum, reduce_res=largest
        )
        nisa.tensor_scalar(dst=copy, data=t, op0=nl.less, operand0=largest)
        nisa.tensor_tensor(dst=t, data1=t, data2=copy, op=nl.multiply)
        return stored(t)

    derived = check_gradients(kernel, lambda x: x * (x < x.max(1, keepdims=True)), x=X)
    assert derived.version.name == "0.6"


def test_operators_of_the_older_dialect():
    @beta1.jit
    def kernel(x, y):
        out = bl.ndarray(x.shape, dtype=x.dtype, buffer=bl.shared_hbm)
        t, u = bl.load(x), bl.load(y)
        bl.store(out, bl.power(t, 2.5) / bl.sum(u * t, axis=1))
        return out

    def formula(x, y):
        return x**2.5 / np.sum(y * x, 1, keepdims=True)

    check_gradients(kernel, formula, x=POSITIVE, y=values(5, low=0.2))
