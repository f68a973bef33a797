"""Tests that every exercise accepts its solution, rejects wrong ones for the right reason, and fits its notebook."""

from __future__ import annotations

from itertools import cycle, islice

import numpy as np
import pytest

from nki_lab.choices import use_target
from nki_lab.errors import ExerciseFailed
from nki_lab.exercises import answer, check
from nki_lab.exercises.catalog import lesson_folders
from nki_lab.exercises.coordinates import judge_places
from nki_lab.exercises.judge import judge
from nki_lab.exercises.problem import Places, Problem, Question, Task
from tests.exercises.answers import (
    PLACES,
    PROBLEMS,
    QUESTIONS,
    TASKS,
    Changed,
    answer_of,
    by_id,
    kernel_of,
    last_column,
    of_value,
    offset,
    overwrite_argument,
    part_of,
    return_argument,
    target_of,
    wrong_answers,
    zeros,
)
from tests.thorough import first

#: Wrong kernels of any task, and the kinds of reason that name what is wrong.
WRONG = {
    "zeros": (of_value(zeros), {"zeros"}),
    "last column": (
        of_value(last_column),
        {"nan", "unwritten", "part", "values", "offset", "factor"},
    ),
    "offset": (
        of_value(offset),
        {"offset", "mistake", "rounded", "values", "part", "factor", "zeros"},
    ),
    "argument returned": (return_argument, {"argument", "count"}),
    "argument overwritten": (overwrite_argument, {"mutated"}),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=by_id)
def test_it_is_told_in_full(problem: Problem):
    assert 3 <= len(problem.title) <= 60
    assert len(problem.statement) > 40
    assert len(set(problem.hints)) == 3
    assert all(len(hint) > 20 for hint in problem.hints)
    assert problem.id == f"{problem.number[0]:02d}.{problem.number[1]}"


@pytest.mark.parametrize("task", TASKS, ids=by_id)
@pytest.mark.parametrize("seed", first([0, 1]))
def test_the_solution_passes_with_a_star_on_every_chip_that_gives_one(
    task: Task, seed: int, capsys
):
    for target in task.tiers or (target_of(task),):
        with use_target(target):
            cause = None if task.cause is None else answer_of(task)
            check(task.id, kernel_of(task), cause=cause, seed=seed)
        star = ", with a star" if target in task.tiers else ""
        assert f"{task.id} is solved{star}\n" in capsys.readouterr().out


#: Each task with each wrong kernel. The first turn, which a plain run takes, has one of a task, and every kind often.
TURNS = [
    pair
    for turn in range(len(WRONG))
    for pair in zip(TASKS, islice(cycle(WRONG), turn, None), strict=False)
]


@pytest.mark.parametrize(
    ("task", "name"),
    first(TURNS, len(TASKS)),
    ids=[f"{name}-{task.id}" for task, name in TURNS],
)
def test_a_wrong_kernel_is_rejected_for_a_reason(task: Task, name: str):
    change, kinds = WRONG[name]
    if name == "argument overwritten" and 0 in task.writes:
        pytest.skip("the kernel is to write its argument")
    with use_target(target_of(task)):
        verdict = judge(task, Changed(kernel_of(task), change), seed=1)
    assert verdict.error is None
    assert verdict.reason is not None
    assert verdict.reason.kind in kinds, verdict.reason
    assert verdict.reason.message


WRITTEN = wrong_answers()


@pytest.mark.parametrize(
    ("task", "kind", "kernel"),
    first(WRITTEN, len(WRITTEN) // 2),
    ids=[f"{t.id}-{k}" for t, k, _ in WRITTEN],
)
def test_an_answer_written_to_be_wrong_is_rejected_for_its_reason(
    task: Task | Places, kind: str, kernel
):
    # "limit-2" is another kernel for the reason "limit".
    kind = kind.partition("-")[0]
    with use_target(target_of(task)):
        verdict = (judge if isinstance(task, Task) else judge_places)(task, kernel, seed=1)
    if kind == "error":
        assert verdict.error is not None, verdict
    else:
        assert verdict.error is None, verdict.error
        assert verdict.reason is not None
        assert verdict.reason.kind == kind, verdict.reason


@pytest.mark.parametrize("task", [t for t in TASKS if t.mistakes], ids=by_id)
def test_mistakes_are_told_apart_from_the_solution(task: Task):
    told = [kind for t, kind, _ in WRITTEN if t is task and kind.startswith("mistake")]
    assert len(told) == len(task.mistakes), "every mistake has a kernel that makes it"


@pytest.mark.parametrize("task", [t for t in TASKS if t.tiers], ids=by_id)
def test_a_star_is_not_given_for_passing(task: Task):
    for tiers in task.tiers.values():
        assert 0 < tiers.star < tiers.passes


@pytest.mark.parametrize("task", [t for t in TASKS if t.cause], ids=by_id)
def test_a_wrong_cause_is_not_taken(task: Task):
    assert task.cause is not None
    assert task.cause.right in task.cause.choices
    for cause in (None, ..., "cosmic rays", *(set(task.cause.choices) - {task.cause.right})):
        with use_target(target_of(task)), pytest.raises(ExerciseFailed, match="cause"):
            check(task.id, kernel_of(task), cause=cause)


@pytest.mark.parametrize("problem", PLACES, ids=by_id)
def test_the_places_pass_and_others_do_not(problem, capsys):
    right = answer_of(problem)
    with use_target(target_of(problem)):
        check(problem.id, right)
    assert f"{problem.id} is solved" in capsys.readouterr().out
    shape = problem.shape(**problem.sizes[0])
    wrong = [np.s_[:], np.s_[0], np.s_[: shape[0], 1:], np.s_[1:], lambda **sizes: np.s_[0:1]]
    rejected = [w for w in wrong if judge_places(problem, w).reason is not None]
    assert len(rejected) >= len(wrong) - 1, "at most one of them can be right"
    for answer_ in rejected:
        with pytest.raises(ExerciseFailed):
            check(problem.id, answer_)


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.sizes], ids=by_id)
def test_a_formula_is_tried_with_every_size(question: Question, capsys):
    right, (first_, *others) = answer_of(question), question.sizes
    answer(question.id, right)
    assert capsys.readouterr().out.count(": ") == len(question.sizes)
    wrong = [
        lambda **sizes: 1.1 * right(**sizes),
        lambda **sizes: right(**first_),  # right for one size only
        lambda **sizes: right(**dict(zip(sizes, reversed(sizes.values()), strict=True))),
        *(
            lambda last=other, **sizes: right(**sizes) + (sizes == last)  # wrong for one size only
            for other in others
        ),
        lambda **sizes: None,
        right(**first_),
        ...,
    ]
    for other in wrong:
        with pytest.raises(ExerciseFailed):
            answer(question.id, other)


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q.run and not q.sizes], ids=by_id)
def test_a_question_takes_what_its_run_shows(question: Question, capsys):
    with use_target("trn2"):
        truth = question.truth(question.run())
        answer(question.id, truth)
        assert f"{question.id} is solved: " in capsys.readouterr().out
        wrong = set(question.choices) - {truth} or {truth * 1.3 + 1, truth * 0.7 - 1}
        for other in (*wrong, ..., "nonsense"):
            with pytest.raises(ExerciseFailed):
                answer(question.id, other)


@pytest.mark.parametrize("name", lesson_folders())
def test_every_answer_belongs_to_an_exercise_of_its_lesson(name: str):
    answers = getattr(part_of(name[:2], "solutions"), "ANSWERS", {})
    assert set(answers) <= {id for id in PROBLEMS if id.startswith(name[:2])}
