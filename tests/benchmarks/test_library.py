"""Tests that a published goal is matched with its configuration of nki-library's suite."""

from __future__ import annotations

from benchmarks.library.mended import _mended
from benchmarks.library.rows import agrees, goal_of
from benchmarks.published import MEASUREMENTS, read

ROWS = {row.source.rsplit("/", 1)[-1]: row for row in read(MEASUREMENTS)}


def test_a_goal_is_read_with_its_configuration() -> None:
    goal = goal_of(ROWS["test_mlp_tkg.py:301"])
    assert goal is not None
    assert (goal.file, goal.commit) == ("core/mlp/test_mlp_tkg.py", "d2ad3a5")
    assert round(goal.goal) == 106305668  # as the suite writes it
    assert goal.facts["hidden"] == "16384" and goal.facts["dtype"] == "bfloat16"
    assert goal.facts["gu_col_tiling"] == "True" and goal.facts["skip_gate"] == "False"


def test_what_is_no_goal_of_the_suite() -> None:
    assert goal_of(ROWS["design-rmsnorm-quant.rst:249"]) is None
    assert goal_of(ROWS["fused_mamba.rst:514"]) is None
    assert goal_of(ROWS["test_mlp_cte.py:372"]) is None  # a size is computed in the test


def test_every_scored_goal_tells_its_configuration() -> None:
    goals = [goal_of(row) for row in ROWS.values() if row.score_use == "secondary"]
    assert sum(goal is not None for goal in goals) > 250
    assert all(len(goal.facts) >= 5 for goal in goals if goal is not None)


def test_one_fact_that_differs_is_enough() -> None:
    goal = goal_of(ROWS["test_mlp_tkg.py:301"])
    assert goal is not None
    assert agrees(goal, {**goal.facts, "name of a fixture": "3"})
    assert not agrees(goal, {**goal.facts, "batch": "4"})
    assert not agrees(goal, {"batch": goal.facts["batch"]})  # too little to say so


def test_python_stays_and_a_docstring_that_is_closed_twice_is_mended() -> None:
    text = 'def f():\n    """One.\n\n        TKG mode supports:\n    """\n{}    """\n    return 1\n'
    twice = text.format("\n        TKG mode supports:\n")
    once = 'def f():\n    """One."""\n'
    assert _mended(once) == once
    mended = _mended(twice)
    assert len(mended.splitlines()) == len(twice.splitlines())
    space: dict[str, object] = {}
    exec(mended, space)
    assert space["f"]() == 1  # type: ignore[operator]
