"""What a learner calls: hands in an answer, and gives help."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nki_lab.choices import Choices
from nki_lab.errors import ExerciseFailed, NkiError, UsageError
from nki_lab.exercises.catalog import problem_of
from nki_lab.exercises.coordinates import judge_places
from nki_lab.exercises.judge import Verdict, is_skeleton, judge
from nki_lab.exercises.problem import Cause, Places, Problem, Question, Task
from nki_lab.exercises.progress_file import progress, remember
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.text_table import text_table
from nki_lab.runtime import Result
from nki_lab.runtime.recording import record_runs
from nki_lab.views.difference import show_difference


def check(id: str, given: Any, *, cause: Any = None, seed: int | None = None) -> None:
    """Try an answer, print what was tried, and raise ExerciseFailed with a reason where it is wrong.

    Args:
        id: the exercise, "21.3".
        given: the kernel, or the slice, that it asks for.
        cause: what is wrong with the given kernel, for exercises that mend one.
        seed: draw the same arguments every time; by default they are others in each check.

    Raises:
        ExerciseFailed: the answer is wrong, with the reason.
        NkiError: as the kernel raises, with the arguments of the case as a note.
    """
    problem = problem_of(id)
    if isinstance(problem, Question):
        raise ExerciseFailed(
            f"{problem.id} is a question", help=f'write answer("{problem.id}", ...)'
        )
    assert isinstance(problem, (Task, Places))
    if isinstance(problem, Task) and problem.cause is not None:
        _check_cause(problem, problem.cause, cause)
    try:
        with record_runs():  # the table shows the findings of its runs
            verdict = _judge(problem, given, seed)
    except NkiError:
        _refuse_skeleton(problem, given)
        _keep(problem, tried=True)
        raise
    right = verdict.reason is None and verdict.error is None
    if not right:
        _refuse_skeleton(problem, given)
    print("\n".join(_table(problem, verdict)))
    if verdict.difference is not None:
        show_difference(verdict.difference)
    _keep(problem, tried=True, solved=right, stars=verdict.stars if right else 0)
    if verdict.error is not None:
        verdict.error.notes += (_more(problem),)
        raise verdict.error
    if verdict.reason is not None:
        raise _failed(problem, verdict.reason.message, verdict.reason.help)
    timed = isinstance(problem, Task) and Choices.current().chip.name in problem.tiers
    star = (
        ", with a star" if verdict.stars else "; there is a star for a faster one" if timed else ""
    )
    print(f"{problem.id} is solved{star}")


def answer(id: str, given: Any, run: Any = None) -> None:
    """Answer a question about a run, and raise ExerciseFailed where the profile says otherwise.

    Args:
        id: the exercise, "04.2".
        given: one of its choices, a number, or a formula as a function of the sizes that it names.
        run: the run that is asked about, a Result or a Profile, where the question does not bring its own.
    """
    problem = problem_of(id)
    if not isinstance(problem, Question):
        raise ExerciseFailed(
            f"{problem.id} asks for a kernel", help=f'write check("{problem.id}", ...)'
        )
    if given is ...:
        raise _failed(problem, "there is no answer yet", _asked(problem))
    if problem.sizes:
        _try_formula(problem, given)
        return
    if run is None:
        if problem.run is None:
            raise UsageError(
                f"{problem.id} needs a run, but none is named",
                help=f'write answer("{problem.id}", ..., run)',
            )
        with record_runs():
            run = problem.run()
    elif not isinstance(run, (Result, Profile)):
        raise UsageError(
            f"{problem.id} is about a run, found {type(run).__name__}",
            help="name a Result: what %%nki --run leaves in `<kernel>_result`, or nki_lab.run(...) returns",
        )
    _keep(problem, tried=True)
    complaint = problem.about(run)
    if complaint:
        raise _failed(problem, complaint)
    truth = problem.truth(run)
    if problem.choices:
        by_key = {str(key).lower(): key for key in problem.choices}
        choice = by_key.get(str(given).strip().lower())
        if choice is None:
            raise _failed(problem, f"{given!r} is not one of the choices", _asked(problem))
        if choice != truth:
            raise _failed(
                problem, f"`{choice}` says: {problem.choices[choice]}. The run does not show that"
            )
    elif not _is_number(given):
        raise _failed(problem, f"{given!r} is not a number", _asked(problem))
    elif not math.isclose(float(given), float(truth), rel_tol=problem.rtol):
        raise _failed(
            problem,
            f"{float(given):g} {problem.unit} is too {'much' if given > truth else 'little'}",
        )
    _keep(problem, solved=True)
    print(f"{problem.id} is solved: {problem.evidence(run)}")


def _try_formula(problem: Question, given: Any) -> None:
    """Compare a formula with the runs of every size, and raise ExerciseFailed where they differ."""
    if not callable(given):
        raise _failed(problem, f"{given!r} is not a function", _asked(problem))
    _refuse_skeleton(problem, given)
    _keep(problem, tried=True)
    assert problem.run is not None
    for sizes in problem.sizes:
        value = given(**sizes)
        at = ", ".join(f"{name}={size}" for name, size in sizes.items())
        if not _is_number(value):
            raise _failed(problem, f"for {at} it returns {value!r}, which is no number")
        with record_runs():
            run = problem.run(**sizes)
        truth = problem.truth(run)
        if not math.isclose(float(value), float(truth), rel_tol=problem.rtol):
            amount = "much" if value > truth else "little"
            raise _failed(problem, f"for {at} it returns {float(value):g}, which is too {amount}")
        print(f"{at}: {problem.evidence(run)}")
    _keep(problem, solved=True)
    print(f"{problem.id} is solved")


def hint(id: str, level: int | None = None) -> None:
    """Print the next hint of an exercise; `level` 1 to 3 asks for one of them."""
    problem = problem_of(id)
    read = progress().of(problem.id).hints
    level = min(read + 1, len(problem.hints)) if level is None else level
    if level not in range(1, len(problem.hints) + 1):
        raise UsageError(
            f"an exercise has hints 1 to {len(problem.hints)}, found {level}",
            help="leave `level` out for the next hint",
        )
    _keep(problem, hints=level)
    print(f"{problem.id}, hint {level} of {len(problem.hints)}: {problem.hints[level - 1]}")


def statement(id: str) -> str:
    """Return what an exercise asks, its state, and the next step."""
    problem = problem_of(id)
    state = progress().of(problem.id)
    lines = [f"{problem.id} {problem.title}", "", problem.statement.strip(), ""]
    asked = _asked(problem)
    lines += [asked, ""] if asked else []
    hints = f", {state.hints} of {len(problem.hints)} hints read" if state.hints else ""
    return "\n".join([*lines, f"{state.word}{hints}", f"next: {_next(problem)}"])


def _keep(problem: Problem, **news: Any) -> None:
    """Remember what has happened; problems of the file are reported where they are noticed."""
    note = remember(problem.id, **news)
    if note:
        print(note)


def _judge(problem: Task | Places, given: Any, seed: int | None) -> Verdict:
    return (
        judge(problem, given, seed)
        if isinstance(problem, Task)
        else judge_places(problem, given, seed)
    )


def _check_cause(problem: Problem, cause: Cause, named: Any) -> None:
    choices = "name one of\n" + _choices(cause.choices)
    if named is None or named is ...:
        raise _failed(
            problem,
            f'the cause is not named: check("{problem.id}", kernel, cause="...")',
            choices,
        )
    key = str(named).strip().lower()
    if key not in cause.choices:
        raise _failed(problem, f"{named!r} is not one of the causes", choices)
    if key != cause.right:
        _keep(problem, tried=True)
        raise _failed(
            problem,
            f"`{key}` says: {cause.choices[key]}. That is not the cause here",
            "look for the place in the kernel that this would be; then run it, and read what it says",
        )


def _refuse_skeleton(problem: Problem, given: Any) -> None:
    if given is ... or is_skeleton(given):
        raise _failed(
            problem,
            "this is still the skeleton: a line `...` is waiting for your code",
            _asked(problem),
        ) from None


def _failed(problem: Problem, message: str, help: str = "") -> ExerciseFailed:
    return ExerciseFailed(f"{problem.id}: {message}", notes=(_more(problem),), help=help)


def _more(problem: Problem) -> str:
    return f'hint("{problem.id}") helps, in {len(problem.hints)} steps'


def _asked(problem: Problem) -> str:
    if isinstance(problem, Task):
        return f"write {problem.signature}"
    if isinstance(problem, Question) and problem.sizes:
        return f"write a function of {' and '.join(problem.sizes[0])}"
    if isinstance(problem, Question):
        return (
            f"choose one of\n{_choices(problem.choices)}"
            if problem.choices
            else f"a number in {problem.unit}"
        )
    if isinstance(problem, Places) and problem.has_order:
        return 'write a pattern, such as {"pattern": [[64, 4], [1, 8]], "offset": 0}'
    return "write a slice, such as np.s_[0:64, ::2]"


def _choices(choices: Any) -> str:
    width = max(map(len, choices))
    return "\n".join(f"    {key:<{width}}  {text}" for key, text in choices.items())


def _next(problem: Problem) -> str:
    if isinstance(problem, Question):
        return f'answer("{problem.id}", ...)'
    name = problem.name if isinstance(problem, Task) else "..."
    cause = ', cause="..."' if isinstance(problem, Task) and problem.cause else ""
    return f'check("{problem.id}", {name}{cause})'


def _table(problem: Problem, verdict: Verdict) -> Sequence[str]:
    target = Choices.current().chip.name
    rows = [(what, count, limit) for what, count, limit in verdict.rows]
    return [f"{problem.id} {problem.title}, on {target}", *text_table(("", "", ""), rows, None)[1:]]


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value)) and not isinstance(value, str)
    except (TypeError, ValueError):
        return False
