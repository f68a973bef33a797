"""Tests that a cell of the older dialect is checked without being run, in its own dialect."""

import textwrap

import numpy as np
import pytest

import nki_lab.language as todays
from nki_lab.errors import MixedDialects
from nki_lab.errors.beta1 import IndexExpression, OutputDependency, TileTruth
from nki_lab.magics.cells import Cell
from nki_lab.magics.check_cell import Draft

IMPORTS = "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"


def checked(text, line="--run 'kernel(x)'"):
    """Return the draft of a cell after its check, beside a notebook that has today's `nl`."""
    cell = Cell.unrun("<cell b1>", "%%nki", f"%%nki {line}\n{text}")
    scope = {"np": np, "x": np.ones((128, 4), np.float32), "nl": todays}
    draft = Draft(cell, scope)
    try:
        if draft.read():
            draft.compile()
    finally:
        cell.forget()
    assert scope["nl"] is todays
    return draft


def of_cell(example):
    """Return the example of an error as a cell has it: its call stands behind --run."""
    text = textwrap.dedent(example).strip()
    return text[: text.rindex("kernel(")].rstrip()


@pytest.mark.parametrize(
    "kind", [IndexExpression, OutputDependency, TileTruth], ids=lambda kind: kind.code
)
def test_the_check_says_what_a_run_says(kind):
    wrong, right = checked(of_cell(kind.wrong)), checked(of_cell(kind.right))
    assert [error.code for error in wrong.errors] == [kind.code]
    assert wrong.errors[0].stack
    assert (right.errors, right.unseen) == ([], "")


KERNEL = """\
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x, mask={mask}))
    return out
"""


def test_a_cell_without_imports_says_its_dialect_with_an_option():
    """Today's nl.load has no mask."""
    text = KERNEL.format(mask="nl.arange(128)[:, None] + 0 * nl.arange(4)[None, :] < 128")
    older = checked(text, "--dialect beta1 --run 'kernel(x)'")
    assert (older.errors, older.unseen) == ([], "")
    assert checked(text).errors != []


def test_a_cell_that_mixes_dialects_is_marked():
    mixed = checked(IMPORTS + "import nki.isa as nisa\n" + KERNEL.format(mask="nisa.iota"))
    assert isinstance(mixed.errors[0], MixedDialects)
