"""Tests that the change that an error offers makes its mistake go away."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest

from nki_lab.api.install import aliases
from nki_lab.errors import KernelErrors, NkiError
from nki_lab.rewrite import Edit, Hint, Rewrite, close_matches, edits_of
from nki_lab.source import Span, register_cell

BODY = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    tile = nl.load(x)
    other = nl.copy(tile)
    {line}
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out
"""
X = np.linspace(0.5, 2, 128 * 8, dtype=np.float32).reshape(128, 8)

# Line with a mistake, the same after the first change that is offered.
MISTAKES = [
    ("result = nl.ad(tile, other)", "result = nl.add(tile, other)"),
    ("result = nl.copy(tlie)", "result = nl.copy(tile)"),
    ("result = nl.copy(tile, dtpe=nl.float32)", "result = nl.copy(tile, dtype=nl.float32)"),
    ("result = nl.copy(src=tile)", "result = nl.copy(x=tile)"),
    ("result = nl.copy(tile, dtype=nl.flaot32)", "result = nl.copy(tile, dtype=nl.float32)"),
    ("result = nl.copy(tile, dtype='flaot32')", "result = nl.copy(tile, dtype='float32')"),
    ("result = nl.copy(tile, dtype=float)", "result = nl.copy(tile, dtype=nl.float32)"),
    ("result = tile + other", "result = nl.add(tile, other)"),
    ("result = nl.exp(tile) * other[:, 0:8]", "result = nl.multiply(nl.exp(tile), other[:, 0:8])"),
    ("result = -tile", "result = nl.negative(tile)"),
    ("result = tile.reshap((128, 8))", "result = tile.reshape((128, 8))"),
    ("µ = nl.ad(tile, other); result = µ", "µ = nl.add(tile, other); result = µ"),
]  # fmt: skip


def _run(line: str, name: str) -> NkiError | None:
    filename = f"<rewrite {name}>"
    text = BODY.format(line=line)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    register_cell(filename, None)
    scope: dict = {}
    with aliases():
        exec(compile(text, filename, "exec"), scope)
        try:
            scope["kernel"](X)
        except NkiError as error:
            return error.errors[0] if isinstance(error, KernelErrors) else error
    return None


def _applied(line: str, edit: Edit) -> str:
    text = BODY.format(line=line).splitlines()
    span = edit.span
    assert span.line == span.end_line
    old = text[span.line - 1]
    text[span.line - 1] = old[: span.column] + edit.text + old[span.end_column :]
    return text[9].strip()


@pytest.mark.parametrize(("line", "better"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_the_first_change_mends_the_mistake(line: str, better: str) -> None:
    error = _run(line, "wrong")
    assert error is not None
    assert error.edits, error
    assert _applied(line, error.edits[0]) == better
    assert _run(better, "right") is None


def test_a_missing_import_goes_above_the_first_statement() -> None:
    line = "result = nl.multiply(tile, np.pi)"
    error = _run(line, "import")
    assert error is not None
    (edit,) = error.edits
    assert (edit.span.line, edit.span.column, edit.text) == (1, 0, "import numpy as np\n")
    assert edit.span.covered == ""


@pytest.mark.parametrize(
    "line",
    [
        "result = nl.copy(tile, 'x', dtype=float, buffer=nl.sbuf, name='y')",
        "tile += other; result = tile",
        "result = nl.arange(4)",
    ],
)
def test_what_cannot_be_carried_out_offers_no_change(line: str) -> None:
    error = _run(line, "none")
    assert error is not None
    assert error.edits == []


def test_a_word_that_stands_in_a_line_twice_is_left_alone() -> None:
    filename = "<rewrite twice>"
    linecache.cache[filename] = (0, None, ["# %%nki --shwo ir --shwo\n", "# --shwo ir\n"], filename)
    hint = close_matches("--shwo", ["--show"])
    assert isinstance(hint, Hint)
    assert hint.rewrites == (Rewrite("--shwo", "--show"),)
    twice, once = Span(filename, 1), Span(filename, 2)
    assert edits_of(hint, twice, twice) == []
    (edit,) = edits_of(hint, once, once)
    assert (edit.span.column, edit.span.end_column, edit.text) == (2, 8, "--show")


def test_the_sentence_is_what_it_was() -> None:
    assert close_matches("lod", ["load", "store"]) == "did you mean `load`?"
    assert close_matches("zzz", ["load", "store"]) == ""
    assert re.fullmatch(r"did you mean .*\?", f"{close_matches('lod', ['load'])}")
