"""Tests that the notebooks are those of their sources, and that only open exercises fail in them, each with its
reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from nki_lab.exercises.catalog import all_problems
from tests.thorough import first
from workshop.generate import (
    FOLDER,
    ROLES,
    SOLUTIONS,
    BadSource,
    Solutions,
    has_exercises,
    learner,
    names,
    role_of,
    solved,
)

#: What an open exercise says: no code yet, no answer yet, no cause yet.
OPEN = ("this is still the skeleton", "there is no answer yet", "the cause is not named")
WITH_EXERCISES = [name for name in names() if has_exercises(name)]


def stored(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def text_of(notebook: Any) -> list[tuple]:
    return [(c.id, c.cell_type, c.source, c.metadata.get("tags")) for c in notebook.cells]


@pytest.mark.parametrize("name", names())
def test_its_text_is_that_of_its_lesson(name: str):
    assert text_of(stored(FOLDER / f"{name}.ipynb")) == text_of(learner(name)), "run make workshop"
    if has_exercises(name):
        assert text_of(stored(SOLUTIONS / f"{name}.ipynb")) == text_of(solved(name))


def test_every_notebook_has_a_lesson():
    assert sorted(p.stem for p in FOLDER.glob("*.ipynb")) == names()
    assert sorted(p.stem for p in SOLUTIONS.glob("*.ipynb")) == WITH_EXERCISES


@pytest.mark.parametrize("name", WITH_EXERCISES)
def test_every_exercise_has_a_place_to_be_solved_and_one_to_be_checked(name: str):
    ids = {id for id in all_problems() if id.startswith(name[:2])}
    for role in ("exercise", "check"):
        assert {role_of(cell, role) for cell in learner(name).cells} - {None} == ids
    for cell in learner(name).cells:
        id = role_of(cell, "check")
        if id is not None:
            assert f'("{id}", ' in cell.source
    assert not any("..." in c.source.split() for c in solved(name).cells if c.cell_type == "code")


@pytest.mark.parametrize("name", WITH_EXERCISES)
def test_learners_see_the_outputs_of_what_is_not_theirs(name: str):
    full = {cell.id: cell for cell in stored(SOLUTIONS / f"{name}.ipynb").cells}
    for cell in stored(FOLDER / f"{name}.ipynb").cells:
        if cell.cell_type == "code":
            own = any(role_of(cell, role) for role in ROLES)
            assert cell.outputs == ([] if own else full[cell.id].outputs)


@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.parametrize("name", first(WITH_EXERCISES))
def test_only_open_exercises_fail_and_say_so(name: str, monkeypatch):
    monkeypatch.setenv("NKI_LAB_PROGRESS", "none")
    monkeypatch.setenv(
        "PYTHONPATH", str(FOLDER.parent) + os.pathsep + os.environ.get("PYTHONPATH", "")
    )
    notebook = stored(FOLDER / f"{name}.ipynb")
    expected = {cell.id: texts(cell) for cell in notebook.cells}
    client = NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        allow_errors=True,
        coalesce_streams=True,
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if role_of(cell, "check"):
            assert [error.ename for error in errors] == ["ExerciseFailed"], cell.source
            assert any(words in errors[0].evalue for words in OPEN), errors[0].evalue
            assert "helps, in 3 steps" in errors[0].evalue
        elif not role_of(cell, "needs"):
            assert errors == [], cell.source
            if not (
                role_of(cell, "exercise") or "nbval-ignore-output" in cell.metadata.get("tags", ())
            ):
                assert texts(cell) == expected[cell.id], cell.source


def texts(cell: Any) -> list[str]:
    """Return what a cell printed and showed, as text."""
    return [
        o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.get("outputs", ())
    ]


SOURCE = """\
# %% id="kernel" exercise="01.9"
# %%nki
@nki.jit
def twice(x):
    ...
    return x

# %% id="ask" exercise="01.8" check="01.8"
answer("01.8", ..., run)
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Return a function that makes the solved notebook of a small lesson with the solutions it is given."""
    monkeypatch.setattr("workshop.generate.lesson_folders", lambda: {"01_small": tmp_path})
    (tmp_path / "lesson.py").write_text(SOURCE)

    def make(solutions: str) -> list[str]:
        (tmp_path / "solutions.py").write_text(solutions)
        return [cell.source for cell in solved("01_small").cells]

    return make


def test_a_skeleton_and_an_answer_are_filled_in(small):
    text = '@nki.jit\ndef twice(x):\n    y = f(x, ...)\n    return y\n\n\nANSWERS = {"01.8": np.s_[0:4, ...]}\n'
    kernel, ask = small(text)
    assert kernel == "%%nki\n@nki.jit\ndef twice(x):\n    y = f(x, ...)\n    return y"
    assert ask == 'answer("01.8", np.s_[0:4, ...], run)'
    assert Solutions.of("01_small").functions["twice"].startswith("@nki.jit\n")


def test_what_is_not_solved_is_told(small):
    with pytest.raises(BadSource, match=r"nothing in its solutions.py solves the cell of 01.8"):
        small("def twice(x):\n    return x\n")
    with pytest.raises(BadSource, match=r"nothing in its solutions.py solves the cell of 01.9"):
        small('ANSWERS = {"01.8": 1}\n')
