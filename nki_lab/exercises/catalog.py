"""The exercises of the workshop: reads them from the folders of its lessons."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from nki_lab.errors import UnknownExercise, UsageError, close_matches
from nki_lab.exercises.problem import Problem

_PACKAGE = Path(__file__).parents[1]


def workshop_folder() -> Path:
    """Return the folder of the workshop: beside the package in a checkout, inside it in an installation."""
    checkout = (_PACKAGE.parent / "pyproject.toml").is_file()
    folder = (_PACKAGE.parent if checkout else _PACKAGE) / "workshop"
    if not folder.is_dir():
        raise UsageError("this installation of nki_lab has no workshop", help="install it again")
    return folder


def lesson_folders() -> dict[str, Path]:
    """Return the folder of each lesson by its name ("01_first_kernel"), in order."""
    folders = sorted((workshop_folder() / "lessons").glob("[0-9][0-9]_*"))
    return {folder.name: folder for folder in folders}


@cache
def lesson_module(folder: Path, part: str) -> ModuleType | None:
    """Run `problems.py` or another file of a lesson; return its module, or None if the lesson lacks the file."""
    path = folder / f"{part}.py"
    if not path.is_file():
        return None
    spec = spec_from_file_location(f"workshop.lessons.{folder.name}.{part}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def all_problems() -> dict[str, Problem]:
    """Return every exercise by its id, in order."""
    problems: dict[str, Problem] = {}
    for folder in lesson_folders().values():
        module = lesson_module(folder, "problems")
        for problem in () if module is None else module.PROBLEMS:
            assert problem.id not in problems, f"two exercises have the id {problem.id}"
            problems[problem.id] = problem
    return dict(sorted(problems.items(), key=lambda item: item[1].number))


def problem_of(id: str) -> Problem:
    """Return an exercise; UnknownExercise lists those of its notebook."""
    problems = all_problems()
    problem = problems.get(str(id).strip())
    if problem is not None:
        return problem
    notebook = str(id).partition(".")[0]
    near = [k for k in problems if k.partition(".")[0] == notebook.zfill(2)]
    raise UnknownExercise(
        f"there is no exercise `{id}`",
        help=f"notebook {notebook.zfill(2)} has {', '.join(near)}"
        if near
        else close_matches(str(id), problems)
        or 'the number of an exercise is written "01.2", with its quotes',
    )
