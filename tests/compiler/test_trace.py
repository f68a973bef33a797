"""Tests that tracing takes every kind of argument and returns every structure of results."""

from __future__ import annotations

import dataclasses
import inspect
from enum import Enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler.trace import TensorSpec
from nki_lab.dtypes import bfloat16
from nki_lab.errors import (
    KernelArgument,
    KernelResult,
)
from nki_lab.runtime.jit import jit
from tests.compiler.programs import compiled, failing, line_of, scaled

X = np.arange(128 * 6, dtype=np.float32).reshape(128, 6)


def at(text):
    return line_of(__file__, text)


# -- arguments -----------------------------------------------------------------------------------


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Weights:
    w: Any
    scale: float = 2.0


@dataclasses.dataclass(slots=True)
class Slots:
    w: Any


class Config(nl.NKIObject):
    w: Any
    scale: float = 3.0


class Kind(Enum):
    FAST = 1


@jit
def takes_everything(x, pair, weights, slots, config, listed, named, *more, flag, kind=Kind.FAST, **rest):  # fmt: skip
    assert flag is True and kind is Kind.FAST and weights.scale == 2.0 and config.scale == 3.0
    assert (pair.second, listed[1], named["n"], rest["note"]) == (7, "text", None, 1.5)
    tensors = [
        x,
        pair.first,
        weights.w,
        slots.w,
        config.w,
        listed[0],
        named["t"],
        *more,
        rest["last"],
    ]
    return tuple(scaled(t, k + 1) for k, t in enumerate(tensors))


def test_arrays_are_found_in_every_container():
    args = [X + k for k in range(9)]
    results = takes_everything(
        args[0], Pair(args[1], 7), Weights(args[2]), Slots(args[3]), Config(w=args[4]), [args[5], "text"],
        {"t": args[6], "n": None}, args[7], flag=True, last=args[8], note=1.5,
    )  # fmt: skip
    assert len(results) == 9
    for k, (found, given) in enumerate(zip(results, args, strict=True)):
        np.testing.assert_array_equal(found, given * (k + 1))


def test_an_argument_is_named_by_its_path():
    def named(x, pair, weights, *more, **rest):
        return scaled(x)

    kernel = compiled(named, X, Pair(X, [X, 3]), Weights(w={"k": X}), X, last=X).kernel
    assert [s.name for s in kernel.inputs] == [
        "x",
        "pair.0",
        "pair.1.0",
        "weights.w.k",
        "more.0",
        "rest.last",
    ]


def test_the_callers_objects_stay_as_they_are():
    listed, weights = [X, 1], Weights(X)

    def changes(x, listed, weights):
        listed.append(5)
        assert len(listed) == 3 and not isinstance(weights.w, np.ndarray)
        return scaled(listed[0])

    compiled(changes, X, listed, weights)
    assert len(listed) == 2 and listed[0] is X and weights.w is X


def test_defaults_and_constants():
    half = np.float32(0.5)

    def defaults(x, n=3, *, dtype=nl.bfloat16, op=nl.add, scale=half):
        assert (n, dtype, op) == (3, nl.bfloat16, nl.add)
        assert scale == 0.5
        return scaled(x, n)

    np.testing.assert_array_equal(jit(defaults)(X), X * 3)


def test_arrays_without_axes_are_constants():
    def scalars(x, factor):
        assert type(factor) is float
        return scaled(x, factor)

    np.testing.assert_array_equal(jit(scalars)(X, np.array(2.5)), X * 2.5)
    assert [s.name for s in compiled(scalars, X, np.array(2.5)).kernel.inputs] == ["x"]


def test_shapes_and_dtypes_without_values():
    kernel = compiled(scaled, TensorSpec((128, 7), bfloat16)).kernel
    assert [(s.shape, s.dtype) for s in kernel.inputs] == [((128, 7), bfloat16)]


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint16, np.int32]
)
def test_element_types_that_nki_has(dtype):
    def copy(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        return out

    x = np.arange(6).reshape(2, 3).astype(dtype)
    found = jit(copy)(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(
    ("array", "found", "instead"),
    [
        (X.astype(np.uint64), "uint64", "array.astype(np.int32)"),
        (X.astype(np.float64), "float64", "array.astype(np.float32)"),
        (X.astype(np.complex64), "complex64", "use float32"),
        (X.astype(object), "object", "use float32"),
    ],
)
def test_element_types_that_nki_does_not_have(array, found, instead):
    error = failing(lambda x, weights: scaled(x), X, Weights(array), error=KernelArgument)
    assert error.message == f"argument `weights.w` has dtype {found}, which NKI does not have"
    assert instead in error.help


def test_a_tensor_holds_at_least_one_element():
    error = failing(scaled, X[:0], error=KernelArgument)
    assert error.message == "argument `x` has shape [0, 6]: a tensor holds at least one element"


def test_a_container_that_holds_itself():
    endless = [X]
    endless.append(endless)
    assert "`x` is nested more than" in failing(scaled, endless, error=KernelArgument).message


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "missing a required argument: 'x'"),
        ((X, 1.0, 2.0), {}, "too many positional arguments"),
        ((X,), {"factr": 2.0}, "got an unexpected keyword argument 'factr'"),
        ((X,), {"x": X}, "multiple values for argument 'x'"),
    ],
)
def test_calls_that_do_not_fit_the_signature(args, kwargs, said):
    error = failing(scaled, *args, error=KernelArgument, **kwargs)
    assert error.message == f"scaled: {said}"
    assert error.notes == ("parameters: x, factor",)
    assert error.help == ("did you mean `factor`?" if "factr" in said else "")
    assert error.span.text.startswith("def scaled(x: ")


# -- results -------------------------------------------------------------------------------------


def test_results_come_back_in_their_structure():
    @jit
    def many(x):
        a, b = scaled(x, 2), scaled(x, 3)
        return {"a": a, "rest": [b, (a, None)], "pair": Pair(b, 4), "n": 5}

    found = many(X)
    assert list(found) == ["a", "rest", "pair", "n"]
    np.testing.assert_array_equal(found["a"], X * 2)
    np.testing.assert_array_equal(found["rest"][0], X * 3)
    np.testing.assert_array_equal(found["rest"][1][0], X * 2)
    assert found["rest"][1][1] is None and type(found["rest"][1]) is tuple and found["n"] == 5
    assert type(found["pair"]) is Pair and found["pair"].second == 4
    np.testing.assert_array_equal(found["pair"].first, X * 3)


def test_an_argument_that_is_written_is_a_result_of_its_own():
    @jit
    def in_place(x):
        t = nl.load(x)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        nl.store(x, t)

    x = X.copy()
    assert in_place(x) is None
    np.testing.assert_array_equal(x, X + 1)


def test_a_view_of_a_result_is_a_result():
    @jit
    def half(x):
        return scaled(x).permute((1, 0))[1:4]

    np.testing.assert_array_equal(half(X), X.T[1:4])


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (lambda x: x, lambda x: x),
        (lambda x: x.permute((1, 0)), lambda x: x.T),
        (lambda x: x[0:3], lambda x: x[0:3]),
        (lambda x: x.reshape((36,)), lambda x: x.reshape(36)),
        (lambda x: x.view(nl.int32), lambda x: x.view(np.int32)),
        (lambda x: x.ap([[6, 6], [-1, 6]], offset=5), lambda x: x[:, ::-1]),
    ],
    ids=["all", "transposed", "rows", "flat", "bits", "backwards"],
)
def test_a_view_of_an_argument_is_a_result(view, expected):
    @jit
    def same(x):
        return scaled(x, 2), view(x)

    x = X[:6].copy()
    _, found = same(x)
    np.testing.assert_array_equal(found, expected(x))
    assert found.dtype == expected(x).dtype
    assert np.shares_memory(found, x), (
        "arguments are updated in place, so a result is a view of one"
    )


def nothing(x):
    nl.load(x)


def a_tile(x):
    return nl.load(x)


def in_private(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.private_hbm)
    nl.store(out, nl.load(x))
    return [scaled(x), out]


def an_array(x):
    return np.ones(3)


def a_number(x):
    return 3


@pytest.mark.parametrize(
    ("kernel", "said", "instead"),
    [
        (nothing, "nothing returns nothing", "is the `return` missing?"),
        (a_tile, "[128, 6] float32 in sbuf: a result must be in shared_hbm", "buffer=nl.shared_hbm"),
        (in_private, "`out` [128, 6] float32 in private_hbm: a result must be in shared_hbm", "where it is made"),
        (an_array, "an_array returns ndarray: a kernel returns tensors in shared_hbm", "return the output tensor"),
        (a_number, "a_number returns no tensor", "return the tensor made with"),
    ],
)  # fmt: skip
def test_results_that_are_none(kernel, said, instead):
    error = failing(kernel, X, error=KernelResult)
    assert said in error.message and instead in error.help
    line = at(f"def {kernel.__name__}(x)")
    returns = "return" in inspect.getsource(kernel)
    assert error.span.text.strip().startswith("return" if returns else "def")
    assert error.span.line in range(line, line + 6)
