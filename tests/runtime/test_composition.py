"""Tests kernels put together of functions, objects and kernels as arguments, containers of tensors, several results."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import KernelArgument, KernelResult
from nki_lab.runtime.jit import jit
from nki_lab.runtime.run import run

X = np.random.default_rng(11).standard_normal((128, 6)).astype(np.float32)
Y = np.random.default_rng(12).standard_normal((128, 6)).astype(np.float32)


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# -- functions as arguments ---------------------------------------------------------------------------------------


def tiled(source, function):
    """Apply a function to each half of the rows."""
    out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
    for k in range(2):
        tile = nl.load(source[64 * k : 64 * (k + 1)])
        result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        function(dst=result, src=tile)
        nisa.dma_copy(dst=out[64 * k : 64 * (k + 1)], src=result)
    return out


def scaled(dst, src, factor=2.0, plus=0.0):
    nisa.tensor_scalar(
        dst=dst, data=src, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=plus
    )


def twice(function, dst, src):
    between = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
    function(dst=between, src=src)
    function(dst=dst, src=between)


class Scaler(nl.NKIObject):
    factor: float = 1.0

    def __call__(self, dst, src):
        scaled(dst, src, factor=self.factor)

    def by_name(self, dst, src):
        scaled(dst, src, plus=self.factor)

    @staticmethod
    def halved(dst, src):
        scaled(dst, src, factor=0.5)


@jit
def applied(x, function):
    return tiled(x, function)


FUNCTIONS = {
    "a function": (scaled, 2 * X),
    "a partial": (partial(scaled, factor=4.0), 4 * X),
    "a partial of a partial": (partial(partial(scaled, factor=4.0), plus=1.0), 4 * X + 1),
    "a partial of a function of functions": (
        partial(twice, partial(scaled, factor=4.0)),
        16 * X,
    ),
    "a lambda": (lambda dst, src: scaled(dst, src, 8.0), 8 * X),
    "an object that is called": (Scaler(factor=0.25), X / 4),
    "a method": (Scaler(factor=3.0).by_name, 2 * X + 3),
    "a static method": (Scaler.halved, X / 2),
    "a kernel": (jit(scaled), 2 * X),
    "a partial of a kernel": (partial(jit(scaled), plus=1.0), 2 * X + 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_arguments_of_kernels(name):
    function, expected = FUNCTIONS[name]
    np.testing.assert_allclose(applied(X, function), expected, rtol=1e-6)
    np.testing.assert_allclose(applied(X, function=function), expected, rtol=1e-6)
    compiled = applied.compile(X, function)
    np.testing.assert_allclose(compiled(X, function), expected, rtol=1e-6)


def test_a_compiled_kernel_does_not_take_another_function():
    compiled = applied.compile(X, scaled)
    with pytest.raises(KernelArgument, match="function"):
        compiled(X, twice)


@pytest.mark.parametrize("op", [nl.add, nl.multiply, nl.maximum])
def test_operators_are_arguments(op):
    @jit
    def kernel(x, y, op):
        return stored(op(nl.load(x), nl.load(y)))

    numpy = {nl.add: np.add, nl.multiply: np.multiply, nl.maximum: np.maximum}[op]
    np.testing.assert_array_equal(kernel(X, Y, op), numpy(X, Y))


def test_partial_kernels_are_called():
    @jit
    def kernel(x, factor, plus=0.0):
        t = nl.load(x)
        scaled(t, t, factor, plus)
        return stored(t)

    np.testing.assert_allclose(partial(kernel, factor=3.0)(X), 3 * X, rtol=1e-6)
    np.testing.assert_allclose(partial(kernel, X)(2.0, plus=1.0), 2 * X + 1, rtol=1e-6)
    np.testing.assert_allclose(
        run(partial(kernel, factor=3.0), X, plus=1.0).value, 3 * X + 1, rtol=1e-6
    )
    np.testing.assert_allclose(run(partial(kernel, X, 2.0), plus=1.0).value, 2 * X + 1, rtol=1e-6)
    with pytest.raises(KernelArgument, match=r"functools\.partial\(nki\.jit\(function\)"):
        jit(partial(kernel.func, factor=3.0))


# -- defaults and keywords ------------------------------------------------------------------------------------------


@jit
def configured(x, y=None, factor=2.0, names=("a", "b"), dtype=nl.float32):
    t = nl.load(x)
    scaled(t, t, factor, float(len(names)))
    if y is not None:
        nisa.tensor_tensor(dst=t, data1=t, data2=nl.load(y), op=nl.add)
    out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.copy(t, dtype=dtype))
    return out


def test_defaults_keywords_and_their_order():
    near = partial(np.testing.assert_allclose, rtol=1e-6)
    near(configured(X), 2 * X + 2)
    near(configured(X, Y), 2 * X + 2 + Y)
    near(configured(factor=3.0, x=X, y=Y), 3 * X + 2 + Y)
    near(configured(X, None, 1.0, ()), X)
    assert configured(X, dtype=nl.float16).dtype == np.float16


# -- containers of tensors -----------------------------------------------------------------------------------------


class Pair(NamedTuple):
    low: object
    high: object


@dataclass
class Config(nl.NKIObject):
    weights: dict
    bias: object = None
    way: object = None


class Way(Enum):
    up = 1
    down = -1


def summed(first, second):
    t = nl.load(first)
    nisa.tensor_tensor(dst=t, data1=t, data2=nl.load(second), op=nl.subtract)
    return stored(t)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ((X, Y), lambda v: (v[0], v[1])),
        ([X, Y], lambda v: (v[0], v[1])),
        ({"a": X, "b": Y}, lambda v: (v["a"], v["b"])),
        (Pair(X, Y), lambda v: (v.low, v.high)),
        ({"a": (1, X), "b": {"c": [Y]}}, lambda v: (v["a"][1], v["b"]["c"][0])),
        (Config({"w": X}, bias=Y), lambda v: (v.weights["w"], v.bias)),
        (Pair(Config({"w": (X,)}), {"y": Y}), lambda v: (v.low.weights["w"][0], v.high["y"])),
    ],
    ids=["tuple", "list", "dict", "named tuple", "nested", "object", "object in a tuple"],
)
def test_containers_of_tensors_are_arguments(given, taken):
    @jit
    def kernel(given):
        return summed(*taken(given))

    np.testing.assert_array_equal(kernel(given), X - Y)
    compiled = kernel.compile(given)
    np.testing.assert_array_equal(compiled(given), X - Y)


def test_objects_keep_what_is_no_tensor():
    @jit
    def kernel(config):
        assert config.way == Way.down and config.bias is None
        return summed(config.weights["x"], config.weights["y"])

    np.testing.assert_array_equal(kernel(Config({"x": X, "y": Y}, way=Way.down)), X - Y)


def same(found, expected):
    """Compare containers by type and arrays by value."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert found == expected


@pytest.mark.parametrize(
    "form",
    [
        lambda a, b: (a, b),
        lambda a, b: [b, a],
        lambda a, b: {"second": b, "first": a},
        lambda a, b: Pair(a, (b, None)),
        lambda a, b: {"all": [a, {"b": b}], "rows": 128, "name": "x"},
        lambda a, b: (a, b, a),
    ],
    ids=["tuple", "list", "dict", "named tuple", "nested", "one twice"],
)
def test_results_keep_their_form(form):
    @jit
    def kernel(x, y):
        return form(stored(nl.load(x)), stored(nl.load(y)))

    same(kernel(X, Y), form(X, Y))
    same(kernel.compile(X, Y)(X, Y), form(X, Y))


def test_a_result_may_be_an_argument():
    @jit
    def kernel(x, y):
        t = nl.load(x)
        scaled(t, t)
        nisa.dma_copy(dst=y, src=t)
        return y, stored(t)

    y = Y.copy()
    first, second = kernel(X, y)
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X)
    np.testing.assert_array_equal(y, 2 * X)


def test_an_object_is_no_result():
    @jit
    def kernel(x):
        return Config({"w": stored(nl.load(x))})

    with pytest.raises(KernelResult, match="kernel returns Config"):
        kernel(X)


# -- kernels that call kernels ---------------------------------------------------------------------------------------


@jit
def doubled(x, plus=0.0):
    t = nl.load(x)
    scaled(t, t, plus=plus)
    return stored(t)


@jit
def both(x, y):
    return doubled(x), {"y": doubled(y, plus=1.0)}


def test_kernels_call_kernels():
    @jit
    def outer(x, y):
        first, rest = both(x, y)
        return summed(first, rest["y"]), doubled(doubled(x))

    difference, quadruple = outer(X, Y)
    np.testing.assert_allclose(difference, 2 * X - (2 * Y + 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(quadruple, 4 * X)
    np.testing.assert_array_equal(doubled(X), 2 * X)  # as before, on its own


def test_a_kernel_calls_itself():
    @jit
    def power(x, n):
        return doubled(x) if n == 1 else doubled(power(x, n - 1))

    np.testing.assert_array_equal(power(X, 3), 8 * X)


def test_kernels_from_a_factory_are_apart():
    def make(factor):
        @jit
        def kernel(x):
            t = nl.load(x)
            scaled(t, t, factor)
            return stored(t)

        return kernel

    first, second = make(2.0), make(4.0)
    np.testing.assert_array_equal(first(X), 2 * X)
    np.testing.assert_array_equal(second(X), 4 * X)
    np.testing.assert_array_equal(first(X), 2 * X)


def test_module_level_composition_has_no_finding():
    result = run(applied, X, function=partial(twice, scaled), strict=True)
    assert result.findings == ()
    np.testing.assert_array_equal(result.value, 4 * X)
