"""Does the exercise of the first notebook accept a right kernel, and only that?"""

from pathlib import Path

import nbformat
import pytest

from tests.magics.notebook import Notebook, bare, shell

__all__ = ["bare", "shell"]  # fixtures

PATH = Path(__file__).parents[2] / "workshop" / "01_first_kernel.ipynb"
CELLS = {cell.id: cell.source for cell in nbformat.read(PATH, as_version=4).cells}
EXPECT = " --expect NKI601"
STORE = "    nisa.dma_copy(dst=out, src=total)"


@pytest.fixture
def learner(bare: Notebook) -> Notebook:
    """Return a notebook that has come as far as the exercise needs."""
    for cell in ("load", "target", "inputs", "one-kernel"):
        bare.good(CELLS[cell])
    return bare


def solved(*statements: str) -> str:
    """Return the skeleton with statements in front of the store."""
    assert CELLS["turn"].count(STORE) == 1
    return CELLS["turn"].replace(STORE, "\n".join([*(f"    {s}" for s in statements), STORE]))


MULTIPLY = "nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0={})"
RIGHT = [
    [MULTIPLY.format("2.0")],
    ["nisa.tensor_tensor(dst=total, data1=total, data2=total, op=nl.add)"],
    ["nisa.activation(dst=total, op=nl.copy, data=total, scale=2.0)"],
]
WRONG = {
    "another factor": [MULTIPLY.format("3.0")],
    "one input doubled": ["nisa.tensor_tensor(dst=total, data1=total, data2=left, op=nl.add)"],
    "square": ["nisa.tensor_tensor(dst=total, data1=total, data2=total, op=nl.multiply)"],
    "part of the columns": [
        MULTIPLY.format("2.0").replace("=total", "=total[:, :511]"),
    ],
    "zeros": ["nisa.memset(dst=total, value=0.0)"],
}


def test_the_skeleton_is_not_the_solution(learner: Notebook):
    assert EXPECT in CELLS["turn"]
    assert "error[NKI601]" in learner.good(CELLS["turn"])
    assert learner.bad(CELLS["turn"].replace(EXPECT, "")).code == "NKI601"


@pytest.mark.parametrize("statements", RIGHT)
def test_a_right_kernel_passes_and_asks_to_take_expect_away(learner: Notebook, statements):
    assert learner.bad(solved(*statements)).code == "NKI609"
    assert "matches: " in learner.good(solved(*statements).replace(EXPECT, " --show none"))


@pytest.mark.parametrize("statements", WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_does_not_pass(learner: Notebook, statements):
    assert learner.bad(solved(*statements).replace(EXPECT, "")).code == "NKI601"
    learner.good(solved(*statements))
