"""Judges whether a kernel solves a task."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nki_lab.choices import Choices
from nki_lab.errors import ExerciseFailed, NkiError
from nki_lab.exercises.attempt import Attempt, attempt, ignored_number, shown
from nki_lab.exercises.counts import counts, idle_barrier, narrow_sum, never_written, race
from nki_lab.exercises.draw import Draw
from nki_lab.exercises.problem import Sizes, Task
from nki_lab.exercises.reasons import Reason, why_wrong
from nki_lab.exercises.touches import unneeded_reads
from nki_lab.runtime import KernelFunction, as_kernel
from nki_lab.views.difference import Difference

_DRAWN = 2
_MARK = re.compile(r"^\s*\.\.\.\s*(#.*)?$", re.MULTILINE)


@dataclass
class Verdict:
    """What was tried, and how it went.

    Attributes:
        rows: lines of the table: what, how, and what was allowed.
        reason: why it is not accepted; None where it is.
        stars: 1 where it is as fast as the solution.
        error: what the kernel itself raised.
        timed: the run of the first case, which is counted and timed.
        difference: where its values are not those of the reference; None where none were compared.
    """

    rows: list[tuple[str, str, str]] = field(default_factory=list)
    reason: Reason | None = None
    stars: int = 0
    error: NkiError | None = None
    timed: Attempt | None = None
    difference: Difference | None = None


def judge(task: Task, given: Any, seed: int | None = None) -> Verdict:
    """Try a kernel on every case of a task, then count and time it; stop at the first thing that is wrong.

    Args:
        task: the exercise.
        given: what the learner hands in: a kernel, or a function to make one of.
        seed: of the arguments; None draws others each time.

    Raises ExerciseFailed where what is handed in is not a kernel.
    """
    kernel = kernel_of(task, given)
    _check_target(task)
    verdict = Verdict()
    draw = Draw(seed)
    right: list[Sizes] = []
    for sizes, name in _cases(task, draw):
        try:
            tried = attempt(task, kernel, sizes, draw)
        except NkiError as error:
            verdict.rows.append((name, "error", ""))
            verdict.error = error
            return verdict
        verdict.timed = verdict.timed or tried
        reason = why_wrong(tried)
        if reason is not None:
            verdict.difference = tried.difference()
            # A race explains wrong numbers; how they are wrong says little, and may be another each time.
            reason = race(tried.result) or never_written(reason, tried.result)
        else:
            reason = unneeded_reads(tried) or narrow_sum(tried)
        verdict.rows.append((name, "right" if reason is None else "wrong", ""))
        if reason is not None:
            verdict.reason = _with_case(reason, sizes, right)
            return verdict
        right.append(sizes)
    assert verdict.timed is not None
    for count in counts(task, verdict.timed.result):
        verdict.rows.append((count.what, count.found, count.limit))
        verdict.stars += count.stars
        if count.reason is not None:
            verdict.reason = count.reason
            return verdict
    verdict.reason = idle_barrier(verdict.timed.result) or ignored(verdict.timed, kernel)
    return verdict


def kernel_of(task: Task, given: Any) -> KernelFunction:
    """Return what is handed in as a kernel; ExerciseFailed says what to hand in instead."""
    while isinstance(given, functools.partial):
        given = given.func
    if isinstance(given, KernelFunction):
        return given
    if inspect.isfunction(given):
        return as_kernel(given)
    what = "an array" if hasattr(given, "dtype") else f"of type {type(given).__name__}"
    raise ExerciseFailed(
        f"{task.id} asks for the kernel {task.signature}, and what was handed in is {what}",
        help=f'hand in the kernel itself, without calling it: check("{task.id}", {task.name})',
    )


def is_skeleton(given: Any) -> bool:
    """Tell whether a kernel, or a function, still has the line `...` that the learner is to replace."""
    if isinstance(given, KernelFunction):
        return bool(given.source is not None and _MARK.search(given.source.text))
    try:
        return inspect.isfunction(given) and bool(_MARK.search(inspect.getsource(given)))
    except OSError:
        return False  # made where no text was kept, as by exec


def ignored(tried: Attempt, kernel: KernelFunction) -> Reason | None:
    """Return which of its numbers a kernel takes no notice of; None where each changes the program."""
    number = ignored_number(tried, kernel)
    if number is None:
        return None
    name, value, other = number
    return Reason(
        "ignored",
        f"right, but the kernel ignores `{name}`: its program is the same with {value:.4g} and with {other:.4g}",
        f"use `{name}` where the kernel has a number, or a loop, in its place",
    )


def _check_target(task: Task) -> None:
    target = Choices.current().chip.name
    if task.targets and target not in task.targets:
        raise ExerciseFailed(
            f"{task.id} is about {' and '.join(task.targets)}, and kernels are compiled for {target} here",
            help=f"choose the chip first: %nki_target {task.targets[0]}",
        )


def _cases(task: Task, draw: Draw) -> Iterator[tuple[Sizes, str]]:
    """Yield the sizes of each case with the words the table has for it."""
    for sizes in task.cases:
        yield sizes, shown(sizes)
    for number in range(_DRAWN if task.fresh else 0):
        base = task.cases[number % len(task.cases)]
        yield draw.sizes(task.fresh, base), f"drawn anew ({number + 1} of {_DRAWN})"


def _with_case(reason: Reason, sizes: Sizes, right: list[Sizes]) -> Reason:
    if reason.kind in ("reads", "narrow"):
        return reason
    message = f"{reason.message} (with {shown(sizes)})"
    if right and reason.kind not in ("unwritten", "negative", "nan"):
        message += f"; it was right with {shown(right[0])}"
        help = reason.help
        if reason.kind in ("values", "part", "shape"):
            help = "which number in the kernel is the size of the first case, where it should come from the shape?"
        return Reason(reason.kind, message, help)
    return Reason(reason.kind, message, reason.help)
