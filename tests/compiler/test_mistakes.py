"""Tests that newcomers who write NumPy, or forget an argument, read what to write instead."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import KernelRaised, NkiError, TensorOperator, UnknownName, WrongCall
from nki_lab.runtime.jit import jit
from tests.compiler.programs import failing, scaled

X = np.arange(128 * 6, dtype=np.float32).reshape(128, 6) - 300


def mistaken(use, error: type[NkiError]) -> NkiError:
    """Return the error of a kernel that does something with a tile."""

    def kernel(x):
        use(nl.load(x))
        return scaled(x)

    found = failing(kernel, X, error=error)
    assert found.span.function == use.__name__, "not at the line of the mistake"
    return found


def test_a_missing_destination():
    def returns(tile):
        return nisa.tensor_copy(src=tile)

    error = mistaken(returns, WrongCall)
    assert error.help == (
        "instructions write into `dst`, the first argument: make a tile with nl.ndarray first"
    )


def test_a_missing_destination_where_another_argument_took_its_place():
    def returns(tile):
        return nisa.tensor_tensor(tile, tile, nl.add)

    error = mistaken(returns, WrongCall)
    assert error.message == "tensor_tensor: missing 1 required positional argument: 'op'"
    assert "write into `dst`, the first argument" in error.help


def assigned_by_keyword(tile):
    tile[:, 0:2] = nisa.activation(op=nl.exp, data=tile[:, 2:4])


def assigned_by_position(tile):
    tile[...] = nisa.activation(nl.exp, tile)


@pytest.mark.parametrize(
    ("use", "help"),
    [
        (
            assigned_by_keyword,
            "write nisa.activation(dst=tile[:, 0:2], op=nl.exp, data=tile[:, 2:4])",
        ),
        (assigned_by_position, "write nisa.activation(tile[...], nl.exp, tile)"),
    ],
)
def test_a_tile_that_is_assigned_becomes_the_destination(use, help):
    assert mistaken(use, WrongCall).help == help


def without_a_size(tile):
    nl.rms_norm(tile, tile, axis=1)


def unknown_keyword(tile):
    nl.softmax(
        tile,
        axes=1,
    )


def of_an_operator(tile):
    nl.add(tile)


def of_a_view(tile):
    tile.reshape(128, 2, 3)


by_another_name = nl.zeros


def under_another_name(tile):
    by_another_name(tile.shape)


@pytest.mark.parametrize(
    ("use", "message", "known", "help"),
    [
        (without_a_size, "nl.rms_norm: missing 1 required positional argument: 'n'", "x, w, axis, n, ",
         "the call is nl.rms_norm(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None)"),
        (unknown_keyword, "nl.softmax: got an unexpected keyword argument 'axes'", "x, axis, ", "did you mean `axis`?"),
        (of_an_operator, "nl.add: missing 1 required positional argument: 'y'", "x, y, ",
         "the call is nl.add(x, y, dtype=None)"),
        (of_a_view, "reshape: takes 1 positional argument but 3 were given", "shape", "the call is reshape(shape)"),
        (under_another_name, "nl.zeros: missing 1 required positional argument: 'dtype'", "shape, dtype, ",
         "the call is nl.zeros(shape, dtype, buffer=nl.sbuf, name='')"),
    ],
)  # fmt: skip
def test_wrong_calls_of_functions(use, message, known, help):
    error = mistaken(use, WrongCall)
    assert (error.message, error.help) == (message, help)
    assert error.notes[0].startswith(f"parameters: {known}")
    assert isinstance(error, TypeError)


def softmax(tile, rows, columns):
    return tile, rows, columns


def test_a_wrong_call_of_the_author_s_own_function_is_their_own():
    def calls(tile):
        softmax(tile, 1)

    error = mistaken(calls, KernelRaised)
    assert error.message == "TypeError: softmax() missing 1 required positional argument: 'columns'"


def along_an_axis(tile):
    tile.sum(axis=1, dtype=nl.float32)


def on_a_view(tile):
    return nl.copy(tile[0:64].exp())


def cast(tile):
    tile.astype(nl.bfloat16)


def misspelled(tile):
    return tile.shpe


@pytest.mark.parametrize(
    ("use", "help"),
    [
        (along_an_axis, "write nl.sum(tile, axis=1, dtype=nl.float32)"),
        (on_a_view, "write nl.exp(tile[0:64])"),
        (cast, "write nl.copy({name}, dtype=...)"),
        (misspelled, "did you mean `shape` or `reshape`?"),
    ],
)
def test_attributes_that_arrays_have(use, help):
    error = mistaken(use, UnknownName)
    name = error.notes[0].split("`")[1]
    assert error.help == help.format(name=name)
    assert isinstance(error, AttributeError)


def test_a_kernel_may_ask_what_a_tensor_has():
    def kernel(x):
        return scaled(x, 2 if hasattr(x, "sum") else 3)

    np.testing.assert_array_equal(jit(kernel)(X), X * 3)


def larger(tile):
    max(tile, 0)


def smaller_of_three(tile):
    min(0.5, tile, tile)


def largest(tile):
    max(tile)


def total(tile):
    sum(tile)


@pytest.mark.parametrize(
    ("use", "help"),
    [
        (larger, "write nl.maximum(tile, 0)"),
        (smaller_of_three, "write nl.minimum(nl.minimum(0.5, tile), tile)"),
        (largest, "write nl.max(tile, axis=...)"),
        (total, "write nl.sum(tile, axis=...)"),
    ],
)
def test_python_s_own_functions(use, help):
    assert mistaken(use, TensorOperator).help == help


def chooses(tile):
    if tile > 0:
        return 1


def chooses_in_a_line(tile):
    return 1 if tile == 0 else 2


def compares(tile):
    return tile > 0


@pytest.mark.parametrize(
    ("use", "in_a_condition"), [(chooses, True), (chooses_in_a_line, True), (compares, False)]
)
def test_conditions_say_that_values_are_not_known(use, in_a_condition):
    error = mistaken(use, TensorOperator)
    note = "a condition chooses while tracing, before any value is known"
    assert (note in error.notes) is in_a_condition
    assert ("nl.where or nisa.tensor_copy_predicated" in error.help) is in_a_condition


def test_what_the_helps_name_exists():
    from nki_lab.compiler import mistakes

    for instead in mistakes._ELSEWHERE.values():
        space, _, name = instead.partition("(")[0].rpartition(".")
        assert hasattr({"nl": nl, "{t}": nl.NkiTensor}[space], name)
    for name, pair in mistakes._PAIRS.items():
        assert hasattr(nl, name) and (not pair or hasattr(nl, pair))
    assert hasattr(nl, "where") and hasattr(nisa, "tensor_copy_predicated")


def loaded_tile(tile):
    return nl.load(tile)


def two_shapes(tile):
    nl.add(tile, tile[:, 0:2])


def partition_axis(tile):
    return nl.max(tile, (0,))


def by_keyword(tile):
    return nl.exp(x=3.0)


@pytest.mark.parametrize(
    ("use", "marked"),
    [(loaded_tile, "tile"), (two_shapes, "tile"), (partition_axis, "(0,)"), (by_keyword, "3.0")],
)
def test_the_argument_of_a_function_of_nki_language_is_marked(use, marked):
    span = mistaken(use, NkiError).span
    assert span.text[span.column : span.end_column] == marked
