"""Does tracing take every kind of argument and result, and does each mistake name its line and the way out?"""

from __future__ import annotations

import dataclasses
import functools
from enum import Enum
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.trace import TensorSpec
from nki_lab.dtypes import bfloat16
from nki_lab.errors import (
    InstructionError,
    KernelArgument,
    KernelErrors,
    KernelRaised,
    KernelResult,
    NkiError,
    OutsideKernel,
    StrictFinding,
    UnknownName,
    WrongCall,
)
from nki_lab.ir.instruction import active
from nki_lab.runtime.jit import jit
from nki_lab.targets import TRN1
from tests.compiler.programs import compiled, line_of

X = np.arange(128 * 6, dtype=np.float32).reshape(128, 6)


def scaled(x, factor=1.0):
    """Return a new result that is `x` times `factor`."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=float(factor))
    nisa.dma_copy(dst=out, src=t)
    return out


def failing(fn, *args, error=NkiError, **kwargs):
    """Return the error that compiling a function for arguments raises."""
    with pytest.raises(error) as caught:
        compiled(fn, *args, **kwargs)
    return caught.value


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
        (X.astype(np.int64), "int64", "array.astype(np.int32)"),
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
    assert (error.span.line, error.span.text) == (at("def scaled(x"), "def scaled(x, factor=1.0):")


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
        (in_private, "`out` [128, 6] float32 in private_hbm: a result must be in shared_hbm", "nisa.dma_copy"),
        (an_array, "an_array returns ndarray: a kernel returns tensors in shared_hbm", "return the output tensor"),
        (a_number, "a_number returns no tensor", "return the tensor made with"),
    ],
)  # fmt: skip
def test_results_that_are_none(kernel, said, instead):
    error = failing(kernel, X, error=KernelResult)
    assert said in error.message and instead in error.help
    assert error.span.line == at(f"def {kernel.__name__}(x)")


# -- the kernel's own Python ---------------------------------------------------------------------


def helper(shape):
    return shape[5]  # out of range


def calls_helper(x):
    n = helper(x.shape)  # the call
    return scaled(x, n)


def test_an_exception_in_a_helper_is_shown_there_and_where_it_was_called():
    error = failing(calls_helper, X, error=KernelRaised)
    assert error.message == "IndexError: tuple index out of range"
    assert [s.line for s in error.spans] == [at("# out of range"), at("# the call")]
    assert error.span.text[error.span.column : error.span.end_column] == "shape[5]"
    assert isinstance(error, IndexError), "who expects it can catch it by its own type"


def asserts(x):
    assert x.shape[0] == 64, f"need 64 rows, found {x.shape[0]}"
    return scaled(x)


def test_assert_acts_while_tracing():
    assert failing(asserts, X).message.startswith("AssertionError: need 64 rows, found 128")
    compiled(asserts, X[:64])


def test_print_acts_while_tracing(capsys):
    def prints(x):
        for k in range(2):
            print("trip", k, x.shape)
        return scaled(x)

    kernel = jit(prints).compile(X)
    assert capsys.readouterr().out == "trip 0 (128, 6)\ntrip 1 (128, 6)\n"
    kernel(X)
    assert capsys.readouterr().out == "", "a compiled kernel is not traced again"


def endless(x):
    return endless(x)  # again


def between(x, n):
    return around(x, n + 1)


def around(x, n):
    return between(x, n)


def test_recursion_without_end_is_one_short_error():
    error = failing(endless, X, error=KernelRaised)
    assert error.message == "RecursionError: maximum recursion depth exceeded"
    assert error.span.line == at("# again")
    assert len(str(error).splitlines()) < 12
    assert len(str(failing(lambda x: around(x, 0), X, error=KernelRaised)).splitlines()) < 32


def test_recursion_with_an_end_is_fine():
    @jit
    def recursive(x, n=3):
        return scaled(x) if n == 0 else recursive(x, n - 1)

    np.testing.assert_array_equal(recursive(X), X)


def test_closures_factories_methods_and_kernels_calling_kernels():
    def factory(factor):
        @jit
        def inner(x):
            return scaled(x, factor)

        return inner

    class Model(nl.NKIObject):
        factor: float = 7.0

        def run(self, x):
            return scaled(x, self.factor)

    two, three = factory(2.0), factory(3.0)

    @jit
    def outer(x, model):
        return two(x), three(x), model.run(x), functools.partial(scaled, factor=5.0)(x)

    for found, factor in zip(outer(X, Model()), (2, 3, 7, 5), strict=True):
        np.testing.assert_array_equal(found, X * factor)


FACTOR = 2.0


def test_the_latest_values_and_functions_count(monkeypatch):
    @jit
    def reads_global(x):
        return scaled(x, FACTOR)

    np.testing.assert_array_equal(reads_global(X), X * 2)
    monkeypatch.setitem(globals(), "FACTOR", 9.0)
    np.testing.assert_array_equal(reads_global(X), X * 9)
    monkeypatch.setitem(globals(), "scaled", lambda x, factor: _original(x, factor + 1))
    np.testing.assert_array_equal(reads_global(X), X * 10)


_original = scaled


def test_a_tensor_of_another_call_is_refused():
    kept = []

    def keeps(x):
        kept.append(nl.load(x))
        return scaled(x)

    def uses(x):
        out = scaled(x)
        nisa.dma_copy(dst=out, src=kept[0])  # of the other call
        return out

    compiled(keeps, X)
    error = failing(uses, X, error=InstructionError)
    assert "was made by another kernel call" in error.message
    assert error.span.line == at("# of the other call")
    error = failing(lambda x: kept[0], X, error=KernelResult)
    assert "a result must be in shared_hbm" in error.message


def test_outside_a_kernel():
    for call in (
        lambda: nl.ndarray((128, 4), nl.float32),
        lambda: nl.load(X),
        lambda: nisa.memset(None, 0.0),
    ):
        with pytest.raises(OutsideKernel, match="outside a kernel"):
            call()


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit, ValueError])
def test_after_any_exception_the_next_kernel_works(exception):
    def raises(x):
        nl.load(x)
        raise exception("stop")

    with pytest.raises((exception, KernelRaised)):
        compiled(raises, X)
    assert active.builder is None
    np.testing.assert_array_equal(jit(scaled)(X), X)


# -- instructions --------------------------------------------------------------------------------


def unknown_keyword(x):
    t = nl.load(x)
    nisa.tensor_copy(dst=t, scr=t)  # unknown keyword
    return scaled(x)


def missing_argument(x):
    t = nl.load(x)
    nisa.tensor_copy(t)  # missing argument
    return scaled(x)


def too_many_arguments(x):
    t = nl.load(x)
    nisa.memset(t, 1.0, nisa.engine.vector, "name", 5)  # too many arguments
    return scaled(x)


def given_twice(x):
    t = nl.load(x)
    nisa.memset(t, 1.0, dst=t)  # given twice
    return scaled(x)


@pytest.mark.parametrize(
    ("kernel", "said", "help"),
    [
        (unknown_keyword, "tensor_copy: got an unexpected keyword argument 'scr'", "did you mean `src`?"),
        (missing_argument, "tensor_copy: missing 1 required positional argument: 'src'", ""),
        (too_many_arguments, "memset: takes from 2 to 4 positional arguments but 5 were given", ""),
        (given_twice, "memset: got multiple values for argument 'dst'", ""),
    ],
)  # fmt: skip
def test_wrong_calls_of_instructions(kernel, said, help):
    error = failing(kernel, X, error=WrongCall)
    assert (error.message, error.help) == (said, help)
    assert error.notes[0].startswith("parameters: dst, ")
    assert error.span.line == at(f"# {kernel.__name__.replace('_', ' ')}")


def misspelled_instruction(x):
    t = nl.load(x)
    nisa.tensor_cpy(dst=t, src=t)
    return scaled(x)


def misspelled_dtype(x):
    return nl.ndarray(x.shape, nl.flaot32)


@pytest.mark.parametrize(
    ("kernel", "said", "near"),
    [
        (misspelled_instruction, "nki.isa has no `tensor_cpy`", "`tensor_copy`"),
        (misspelled_dtype, "nki.language has no `flaot32`", "`float32`"),
    ],
)
def test_unknown_names_of_nki_get_close_matches(kernel, said, near):
    error = failing(kernel, X, error=UnknownName)
    assert error.message == said and near in error.help
    assert error.span.line in (at("nisa.tensor_cpy("), at("nl.flaot32"))


def several_mistakes(x):
    out = scaled(x)
    t = nl.load(x)
    narrow = nl.ndarray((128, 2), dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(4):
        nisa.tensor_copy(dst=narrow, src=t)  # first mistake
    nisa.tensor_copy(dst=x, src=t)  # second mistake
    nisa.tensor_tensor(
        dst=t,
        data1=narrow,  # third mistake
        data2=t,
        op=nl.add,
    )
    t.shape[7]  # fourth mistake
    return out


def test_all_mistakes_are_told_at_once_and_each_once():
    error = failing(several_mistakes, X, error=KernelErrors)
    assert [type(e).__name__ for e in error.errors] == [
        "RuleBroken",
        "WrongOperand",
        "RuleBroken",
        "KernelRaised",
    ]
    lines = [at(f"# {n} mistake") for n in ("first", "second", "third", "fourth")]
    assert [e.span.line for e in error.errors][:2] == lines[:2]
    assert abs(error.errors[2].span.line - lines[2]) <= 1, "within the call of several lines"
    assert error.errors[3].span.line == lines[3]
    assert str(error).endswith("4 errors in this kernel")
    assert "`narrow` [128, 2] float32 in sbuf" in error.errors[0].notes[0]


def presence(x, mask=None):
    t = nl.load(x)
    if t:  # presence
        nisa.memset(dst=t, value=0.0)
    return scaled(x)


def test_findings_are_errors_under_strict():
    (finding,) = [f for f in compiled(presence, X).findings if f.kind == "portability"]
    assert "only tells that it is there" in finding.message
    error = failing(presence, X, options=CompileOptions(strict=True))
    assert error.span.line == at("# presence")
    assert isinstance(error, (StrictFinding, NkiError))


def test_what_the_target_does_not_have_is_said():
    def large(x):
        t = nl.ndarray((129, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=t, value=0.0)
        return scaled(x)

    error = failing(large, X, target=TRN1)
    assert error.message == "shape (129, 4) in sbuf: 129 partitions, the memory has 128"
