"""Loop variables by hand: ids lead from an instruction to its loops, on its own core."""

from __future__ import annotations

from typing import Any

from nki_lab.profiler.analyses.loops import loop_values
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN2


def made(variables: dict[str, Any]) -> Profile:
    return Profile.from_tables(
        TRN2,
        {
            "Instruction": {
                "kernel_instruction_name": ["a", "b", "a", "c", None],
                "pcore_idx": [0, 0, 1, 0, 0],
            },
            "KernelInstructions": {
                "kernel_instruction_name": ["a", "b", "a"],
                "iteration_variables_id": [7, 9, 8],
                "pcore_idx": [0, 0, 1],
            },
            "KernelIterationVariables": variables,
        },
        is_simulation=False,
    )


def test_values_of_each_instruction() -> None:
    p = made(
        {
            "iteration_variable_id": [9, 7, 8],
            "variable_name": ["j", "i", "k"],
            "variable_value": [-4, 3, None],
            "parent_iteration_variable_id": [7, None, None],
        }
    )
    assert loop_values(p).to_list() == ["i=3", "i=3, j=-4", "k=?", None, None]
    assert loop_values(p, 1).to_list() == ["i=3", "i=3", "k=?", None, None]


def test_links_that_lead_nowhere_or_round() -> None:
    p = made(
        {
            "iteration_variable_id": [7, 9, 8],
            "variable_name": ["i", "j", "k"],
            "variable_value": [1, 2, 3],
            "parent_iteration_variable_id": [9, 7, 55],
        }
    )
    assert loop_values(p).to_list()[2] == "k=3"
    assert loop_values(made({})).to_list() == [None] * 5
