"""Which exercises are there?"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from nki_lab.errors import UnknownExercise, close_matches
from nki_lab.exercises import problems
from nki_lab.exercises.problem import Problem


@cache
def all_problems() -> dict[str, Problem]:
    """Return every exercise by its id, in order."""
    found: dict[str, Problem] = {}
    for module in pkgutil.iter_modules(problems.__path__):
        for problem in import_module(f"{problems.__name__}.{module.name}").PROBLEMS:
            assert problem.id not in found, f"two exercises have the id {problem.id}"
            found[problem.id] = problem
    return dict(sorted(found.items(), key=lambda item: item[1].number))


def problem_of(id: str) -> Problem:
    """Return an exercise; UnknownExercise lists those of its notebook."""
    known = all_problems()
    problem = known.get(str(id).strip())
    if problem is not None:
        return problem
    notebook = str(id).partition(".")[0]
    near = [k for k in known if k.partition(".")[0] == notebook.zfill(2)]
    raise UnknownExercise(
        f"there is no exercise `{id}`",
        help=f"notebook {notebook.zfill(2)} has {', '.join(near)}"
        if near
        else close_matches(str(id), known)
        or 'the number of an exercise is written "01.2", with its quotes',
    )
