"""Tests the error where a kernel's own Python raised: its line, the values involved, and the name that was meant."""

import dataclasses
from enum import Enum

import numpy as np
import pytest

import nki_lab.api.isa as nisa
import nki_lab.language as nl
from nki_lab.errors import KernelErrors, KernelRaised, LoopControl, NkiError, TileAssignment
from nki_lab.runtime.run import run

X = np.arange(512, dtype=np.float32).reshape(128, 4)


class Way(Enum):
    upward = 1
    down = 2


@dataclasses.dataclass
class Sizes(nl.NKIObject):
    rows: int = 3

    def filled(self, tile):
        nisa.memset(dst=tile, value=1.0)


def given(value, columns=2):
    return value, columns


def mistake(use) -> NkiError:
    def kernel(x):
        t = nl.load(x)
        use(t)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    with pytest.raises(NkiError) as caught:
        run(kernel, X)
    error = caught.value
    assert error.span.filename == __file__
    return error


def divided(t):
    n = 0
    return t.shape[1] // n


def asserted(t):
    sizes = Sizes(rows=7)
    assert t.shape[0] == sizes.rows


def indexed(t):
    sizes, n = [1, 2], 5
    return sizes[n]


def keyed(t):
    sizes = {"rows": 1, "columns": 2}
    return sizes["row"]


def empty(t):
    return {}["row"]


def member(t):
    return Way.upwards


def attribute(t):
    return Sizes().row


def method(t):
    Sizes().fill(t)


def unknown_argument(t):
    given(t, column=2)


def missing_argument(t):
    given()


def raised(t):
    n = 3
    if n > 2:
        raise ValueError(f"{n} is too many")


def library(t):
    return dataclasses.replace(Sizes, rows=3)


def uncalled_context(t):
    with nl.no_reorder:
        pass


def a_list(t):
    return [1.0, 2.0].shape


@pytest.mark.parametrize(
    ("use", "message", "notes", "help"),
    [
        (a_list, "'list' object has no attribute 'shape'", [], "pass an array, such as np.array("),
        (divided, "ZeroDivisionError: integer division", ["here t.shape[1] = 4, n = 0"], ""),
        (asserted, "AssertionError", ["here t.shape[0] = 128, sizes.rows = 7"], ""),
        (indexed, "IndexError: list index out of range", ["here sizes = [1, 2], n = 5"], ""),
        (keyed, "KeyError: 'row'", ["its keys: rows, columns"], "did you mean `rows`?"),
        (empty, "KeyError: 'row'", [], ""),
        (member, "AttributeError: class `Way` has no `upwards`", [], "did you mean `upward`?"),
        (attribute, "'Sizes' object has no attribute 'row'", [], "did you mean `rows`?"),
        (method, "'Sizes' object has no attribute 'fill'", [], "did you mean `filled`?"),
        (
            unknown_argument,
            "given() got an unexpected keyword argument 'column'",
            ["parameters: value, columns"],
            "did you mean `columns`?",
        ),
        (missing_argument, "missing 1 required", ["parameters: value, columns"], ""),
        (raised, "ValueError: 3 is too many", [], ""),
        (library, "TypeError: replace() should be called on dataclass instances", [], ""),
        (uncalled_context, "context manager", [], "with nl.no_reorder():"),
    ],
)  # fmt: skip
def test_an_exception_is_told_with_its_values_and_what_was_meant(use, message, notes, help):
    error = mistake(use)
    assert isinstance(error, KernelRaised)
    assert message in error.message
    assert [*error.notes[1:]] == notes
    assert help in error.help and bool(help) == bool(error.help)
    assert error.span.function == use.__name__


# -- what a tensor is ----------------------------------------------------------------------------------------------


def shaped(t):
    t.shape = (4, 128)


def typed(t):
    t[:, 0:2].dtype = nl.bfloat16


def marked(t):
    t.mine = 3


def deleted(t):
    del t.shape


@pytest.mark.parametrize(
    ("use", "message", "help"),
    [
        (shaped, "`t.shape` cannot be assigned", "t.reshape(shape)"),
        (typed, "`t.dtype` cannot be assigned", "t.view(dtype)"),
        (marked, "`t.mine` cannot be assigned", "your own object"),
        (deleted, "`t.shape` cannot be deleted", ""),
    ],
)
def test_a_tensor_stays_what_it_is(use, message, help):
    error = mistake(use)
    assert isinstance(error, TileAssignment)
    assert message in error.message and help in error.help
    assert "NkiTensor" not in str(error)


# -- several, and where ----------------------------------------------------------------------------------------------


def misspelled(t):
    nisa.memsett(dst=t, value=1.0)
    nisa.memset(dst=t, engine=nisa.engine.vectr)
    nl.multipy(t, t)


def test_names_that_nki_does_not_have_come_together():
    error = mistake(misspelled)
    assert isinstance(error, KernelErrors)
    assert [(e.message, e.help) for e in error.errors] == [
        ("nki.isa has no `memsett`", "did you mean `memset`?"),
        ("nisa.engine has no `vectr`", "did you mean `vector`?"),
        ("nki.language has no `multipy`", "did you mean `multiply`?"),
    ]
    assert all(len(e.spans) == 2 for e in error.errors)


def test_names_in_a_branch_not_taken_are_no_errors():
    def kernel(x):
        t = nl.load(x)
        if x.shape[0] == 1:
            nl.multipy(t, t)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    assert run(kernel, X).findings == ()


def left(t):
    for _ in nl.dynamic_range(4):
        if t.shape[0] == 1:
            break
        nisa.memset(dst=t, value=1.0)


def with_else(t):
    r = nisa.register_alloc(1)
    while r:
        nisa.register_move(r, 0)
    else:
        nisa.memset(dst=t, value=1.0)


@pytest.mark.parametrize(
    ("use", "word", "text"),
    [(left, "break", "break"), (with_else, "else", "nisa.memset(dst=t, value=1.0)")],
)
def test_what_leaves_a_device_loop_is_told_where_it_stands(use, word, text):
    error = mistake(use)
    assert isinstance(error, LoopControl)
    assert error.message == f"`{word}` is not allowed in a loop that the device runs"
    assert error.span.text.strip() == text
    assert error.span.text[error.span.column :] == text
    assert [s.function for s in error.spans] == [use.__name__, "kernel"]
