"""Tests that `make quick` runs the tests of the rooms that changed."""

from __future__ import annotations

import pytest

from tests.quick import changed_files, unit_tests


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ("nki_lab/isa/matmul.py", ["tests/isa"]),
        ("nki_lab/compiler/passes/schedule.py", ["tests/compiler"]),
        ("nki_lab/source.py", ["tests/test_source.py"]),
        ("tests/timing/advice/cases.py", ["tests/timing"]),
        ("workshop/lessons/01_first_kernel/solutions.py", ["tests/exercises", "tests/notebooks"]),
        ("workshop/01_first_kernel.ipynb", ["tests/exercises", "tests/notebooks"]),
        ("benchmarks/running.py", ["tests/benchmarks"]),
        ("README.md", []),
    ],
)
def test_a_changed_file_names_the_unit_tests_its_room(changed: str, named: list[str]):
    always = unit_tests([])
    assert "tests/test_layers.py" in always
    assert [name for name in unit_tests([changed]) if name not in always] == [
        name for name in named if name not in always
    ]
    assert set(named) <= set(unit_tests([changed]))


def test_changes_are_files_of_this_repository():
    assert [file for file in changed_files() if file.startswith(("/", ".."))] == []
