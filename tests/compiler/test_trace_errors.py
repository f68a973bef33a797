"""Tests that every mistake in a kernel's own Python and calls is reported at its line, with a way out."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.errors import (
    InstructionError,
    KernelErrors,
    KernelRaised,
    KernelResult,
    NkiError,
    OutsideKernel,
    StrictFinding,
    UnknownName,
    WrongCall,
    WrongOperand,
)
from nki_lab.ir.tensor.trace import active
from nki_lab.runtime.jit import jit
from nki_lab.targets import TRN1
from tests.compiler.programs import compiled, failing, line_of, scaled

X = np.arange(128 * 6, dtype=np.float32).reshape(128, 6)


def at(text):
    return line_of(__file__, text)


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


MEMSET = "the call is memset(dst, value, engine=nisa.engine.unknown, name=None)"


def given_twice(x):
    t = nl.load(x)
    nisa.memset(t, 1.0, dst=t)  # given twice
    return scaled(x)


@pytest.mark.parametrize(
    ("kernel", "said", "help"),
    [
        (unknown_keyword, "tensor_copy: got an unexpected keyword argument 'scr'", "did you mean `src`?"),
        (
            missing_argument,
            "tensor_copy: missing 1 required positional argument: 'src'",
            "instructions write into `dst`, the first argument: make a tile with nl.ndarray first",
        ),
        (too_many_arguments, "memset: takes from 2 to 4 positional arguments but 5 were given", MEMSET),
        (given_twice, "memset: got multiple values for argument 'dst'", MEMSET),
    ],
)  # fmt: skip
def test_wrong_calls_of_instructions(kernel, said, help):
    error = failing(kernel, X, error=WrongCall)
    assert (error.message, error.help) == (said, help)
    assert error.notes[0].startswith("parameters: dst, ")
    assert error.span.line == at(f"# {kernel.__name__.replace('_', ' ')}")


def array_argument(x):
    t = nl.load(x)
    nisa.tensor_copy(dst=t, src=t, engine=np.ones(3))  # an array
    return scaled(x)


def test_numpy_arrays_are_no_arguments_of_instructions():
    error = failing(array_argument, X, error=WrongOperand)
    assert error.message.startswith("an argument is a NumPy array of shape [3]")
    assert error.span.line == at("# an array")

    def number(x):
        t = nl.load(x)
        nisa.memset(dst=t, value=np.array(2.5))
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    assert (jit(number)(X) == 2.5).all()


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
    error = failing(presence, X, options=Choices(strict=True))
    assert error.span.line == at("# presence")
    assert isinstance(error, (StrictFinding, NkiError))


def test_what_the_target_does_not_have_is_said():
    def large(x):
        t = nl.ndarray((129, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=t, value=0.0)
        return scaled(x)

    error = failing(large, X, target=TRN1)
    assert error.message == "shape (129, 4) in sbuf: 129 partitions, but the memory has 128"


@pytest.mark.parametrize(
    "call",
    [lambda x: getattr(x, "reshape")(1, 2, 3), lambda x: {"f": nl.load}["f"]()],  # noqa: B009
)
def test_a_wrong_call_of_what_has_no_name_in_the_text_is_an_error_of_the_kernel(call):
    def kernel(x):
        return call(x)

    error = failing(kernel, X, error=KernelRaised)
    assert "TypeError: " in str(error) and "argument" in str(error)


@pytest.mark.parametrize(
    ("use", "said"),
    [(lambda i: i.shape, "has no attribute `shape`"), (lambda i: i[0:1], "has no elements")],
)
def test_an_instruction_is_no_tensor(use, said):
    def kernel(x):
        tile = nl.load(x)
        use(nisa.tensor_copy(dst=tile, src=tile))
        return x

    error = failing(kernel, X)
    assert f"an instruction {said}" in error.message and "`dst`" in error.help


@pytest.mark.parametrize("raised", [StopIteration, StopAsyncIteration, SystemExit])
def test_what_ends_generators_and_programs_is_an_error_of_the_kernel(raised):
    def kernel(x):
        raise raised("nothing left")

    error = failing(kernel, X, error=KernelRaised)
    assert f"{raised.__name__}: nothing left" in str(error)


def test_a_group_of_exceptions_leaves_no_context():
    """IPython shows a traceback of its own for whatever a group of exceptions stands behind."""

    def kernel(x):
        raise ExceptionGroup("several", [ValueError("a"), TypeError("b")])

    error = failing(kernel, X, error=KernelRaised)
    assert "ExceptionGroup: several" in str(error)
    assert error.__context__ is None


# -- rules of instructions ---------------------------------------------------------------------------------------------


def odd_start(x):
    tile = nl.ndarray((128, 6), x.dtype, buffer=nl.sbuf)
    for low in (0, 32, 33):
        nisa.memset(dst=tile[low : low + 1], value=1.0)
    return tile


def test_a_start_partition_is_told_with_the_values_it_comes_from():
    with pytest.raises(InstructionError) as error:
        compiled(odd_start, X)
    assert "must start at partition 0, 32, 64 or 96" in error.value.message
    assert error.value.notes == (
        "dst = `tile` [1, 6] float32 in sbuf, from partition 33 on",
        "here low = 33",
    )


def over_partitions(x):
    tile = nl.load(x)
    total = nl.ndarray((1, 6), x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=0)
    return total


def test_a_reduction_over_partitions_names_what_does_it():
    with pytest.raises(InstructionError, match="axis 0, the partition axis") as error:
        compiled(over_partitions, X)
    assert "nisa.tensor_partition_reduce" in error.value.help
    assert "nisa.nc_matmul" in error.value.help


def _copied(x, shape):
    out = nl.ndarray(shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@pytest.mark.parametrize(
    ("shape", "help"),
    [
        ((6, 128), "to transpose, use nisa.dma_transpose"),
        ((64, 12), "give `src` the shape of `dst`, [64, 12]"),
    ],
)
def test_a_copy_between_unlike_shapes_says_which_shape_lines_up(shape, help):
    (finding,) = [f for f in compiled(_copied, X, shape).findings if f.code == "NKI203"]
    assert (
        "the shapes of `dst` and `src` do not line up; elements are paired in row-major order"
        in finding.message
    )
    assert help in finding.help and f"{list(shape)}" in finding.help
