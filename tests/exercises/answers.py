"""Right and wrong answers that the exercises are tried with.

The right ones are the solutions of the workshop. Wrong ones are made of them: the right kernel runs, and then what it
returned, or what it was given, is changed, as a mistake in the kernel would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from nki_lab.api.install import aliases
from nki_lab.choices import Choices
from nki_lab.exercises.catalog import all_problems, lesson_folders, lesson_module
from nki_lab.exercises.problem import Places, Problem, Question, Task
from nki_lab.runtime import KernelFunction, Result

PROBLEMS = all_problems()
TASKS = [p for p in PROBLEMS.values() if isinstance(p, Task)]
PLACES = [p for p in PROBLEMS.values() if isinstance(p, Places)]
QUESTIONS = [p for p in PROBLEMS.values() if isinstance(p, Question)]


def by_id(problem: Problem) -> str:
    """Return the id, for the name of a test."""
    return problem.id


def part_of(lesson: str, part: str) -> ModuleType | None:
    """Return the module of `solutions.py` or `wrong.py` of a lesson, "01"; None if the lesson lacks the file."""
    folder = next(f for name, f in lesson_folders().items() if name.startswith(f"{lesson}_"))
    with aliases():
        return lesson_module(folder, part)


def kernel_of(task: Task) -> KernelFunction:
    """Return the kernel that solves a task."""
    return getattr(part_of(task.id[:2], "solutions"), task.name)


def wrong_answers() -> list[tuple[Task | Places, str, Any]]:
    """Return the wrong answers written for one exercise each, with the kind of reason they are rejected for."""
    answers = []
    for name in lesson_folders():
        for id, kernels in getattr(part_of(name[:2], "wrong"), "WRONG", {}).items():
            problem = PROBLEMS[id]
            assert isinstance(problem, (Task, Places))
            answers += [(problem, kind, kernel) for kind, kernel in kernels.items()]
    return answers


def answer_of(problem: Problem) -> Any:
    """Return the entry of ANSWERS for an exercise; None where there is none."""
    return getattr(part_of(problem.id[:2], "solutions"), "ANSWERS", {}).get(problem.id)


def target_of(task: Problem) -> str:
    """Return a chip that an exercise can be solved on."""
    if isinstance(task, Task):
        return next(iter((*task.targets, *task.tiers, "trn2")))
    return "trn2"


class Changed(KernelFunction):
    """A right kernel whose run is changed: `change(result, arguments)` returns another result."""

    def __init__(self, right: KernelFunction, change: Callable[[Result, Any], Result]) -> None:
        super().__init__(right.func)
        self.right = right
        self.change = change

    def launch_with(self, choices: Choices, args: Any, kwargs: Any) -> Result:
        """Run the right kernel, then change what has become of it."""
        right = self.right._with(launched_on=self.launched_on)
        return self.change(right.launch_with(choices, args, kwargs), args)


def of_value(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Result, Any], Result]:
    """Return a change of every array that a kernel returns."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(part) for name, part in value.items()}
        if isinstance(value, (tuple, list)):
            return tuple(map(changed, value))
        return change(value)

    return lambda result, _: dataclasses.replace(result, value=changed(result.value))


def zeros(array: np.ndarray) -> np.ndarray:
    return np.zeros_like(array)


def last_column(array: np.ndarray) -> np.ndarray:
    """Leave the last column as it was: what it would hold is NaN, or 4."""
    found = array.copy()
    found[..., -1:] = np.nan if found.dtype.kind not in "iub" else 4
    return found


def offset(array: np.ndarray) -> np.ndarray:
    """Add a hundredth of the mean magnitude, or 1."""
    if array.dtype.kind in "iub":
        return array + np.ones_like(array)
    values = array.astype(np.float64)
    return (values + max(1e-2 * np.abs(values).mean(), 1e-6)).astype(array.dtype)


def return_argument(result: Result, arguments: Any) -> Result:
    first = next(a for a in arguments if isinstance(a, np.ndarray))
    return dataclasses.replace(result, value=first)


def overwrite_argument(result: Result, arguments: Any) -> Result:
    first = next(a for a in arguments if isinstance(a, np.ndarray))
    first[...] = first + np.ones_like(first)
    return result
