"""Remembers in a file what has been solved.

In one small JSON file of the user's data folder, or where NKI_LAB_PROGRESS says. Whatever is wrong with the file, no
exercise fails because of it: it is kept aside under another name, and a new one is begun.
"""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import platformdirs

from nki_lab.choices import PROGRESS, Choices
from nki_lab.exercises.catalog import all_problems
from nki_lab.exercises.problem import Problem
from nki_lab.profiler.text_table import text_table

_VERSION = 1
_FILE = "progress.json"
# Without a file, and until one can be written: what this process knows.
_kept: dict[str, ExerciseState] = {}


@dataclass(frozen=True)
class ExerciseState:
    """What is known about one exercise.

    Attributes:
        tries: how often an answer was handed in.
        hints: how many of its hints were read.
        solved: an answer was accepted.
        stars: 1 where it was as fast as the solution.
    """

    tries: int = 0
    hints: int = 0
    solved: bool = False
    stars: int = 0

    @property
    def word(self) -> str:
        """The state in a few words."""
        if not self.solved:
            return "tried" if self.tries else "not tried"
        return "solved, with a star" if self.stars else "solved"


class Progress:
    """The state of every exercise: a line for each notebook as text, every exercise as HTML without a script."""

    def __init__(self, states: dict[str, ExerciseState], where: str, note: str = "") -> None:
        self.states = states
        self.where = where
        self.note = note

    def of(self, id: str) -> ExerciseState:
        """Return the state of an exercise."""
        return self.states.get(id, ExerciseState())

    def __repr__(self) -> str:
        rows = [
            (notebook, self._count(problems), " ".join(p.id for p in self._open(problems)))
            for notebook, problems in _by_notebook()
        ]
        table = text_table(("notebook", "solved", "open"), rows, None)
        parts = [self._count(all_problems().values()), "", *table, "", self.where]
        return "\n".join([*parts, *([self.note] if self.note else [])])

    def _repr_html_(self) -> str:
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        parts = "".join(self._notebook(*group) for group in _by_notebook())
        return (
            f"<div><p><b>{self._count(all_problems().values())}</b></p>{parts}"
            f"<p>{html.escape(self.where)}</p>{note}</div>"
        )

    def _notebook(self, notebook: str, problems: list[Problem]) -> str:
        begun = any(self.of(p.id) != ExerciseState() for p in problems)
        opened = " open" if begun and self._open(problems) else ""
        return (
            f"<details{opened}><summary>notebook {notebook}: {self._count(problems)}</summary>"
            f"<table><tbody>{''.join(map(self._row, problems))}</tbody></table></details>"
        )

    def _row(self, problem: Problem) -> str:
        state = self.of(problem.id)
        hints = f"{state.hints} of {len(problem.hints)} hints read" if state.hints else ""
        cells = (problem.id, problem.title, state.word, hints)
        left = 'style="text-align:left"'
        return f"<tr>{''.join(f'<td {left}>{html.escape(text)}</td>' for text in cells)}</tr>"

    def _open(self, problems: Iterable[Problem]) -> list[Problem]:
        return [p for p in problems if not self.of(p.id).solved]

    def _count(self, problems: Iterable[Problem]) -> str:
        states = [self.of(p.id) for p in problems]
        stars = sum(state.stars for state in states)
        solved = f"{sum(state.solved for state in states)} of {len(states)} solved"
        return f"{solved}, {stars} with a star" if stars else solved


def _by_notebook() -> list[tuple[str, list[Problem]]]:
    groups = groupby(all_problems().values(), key=lambda p: p.id.partition(".")[0])
    return [(notebook, list(problems)) for notebook, problems in groups]


def progress() -> Progress:
    """Return what has been solved, as a page."""
    path = path_of_progress()
    states, note, _ = _read(path)
    where = f"kept in {path}" if path else f"kept until this kernel ends ({PROGRESS.env}=none)"
    return Progress(states, where, note)


def path_of_progress() -> Path | None:
    """Return the file progress is kept in; None where it is kept in no file."""
    choice = Choices.current().progress
    if choice == "none":
        return None
    if choice == "user":
        return Path(platformdirs.user_data_dir("nki_lab", appauthor=False)) / _FILE
    return Path(choice).expanduser()


def remember(
    id: str, tried: bool = False, hints: int = 0, solved: bool = False, stars: int = 0
) -> str:
    """Add what has happened to an exercise, and return what to tell about the file; "" where there is nothing.

    The file is read again first: another notebook may have written it meanwhile.
    """
    path = path_of_progress()
    states, note, may_write = _read(path)
    before = states.get(id, ExerciseState())
    states[id] = _kept[id] = ExerciseState(
        before.tries + tried,
        max(before.hints, hints),
        before.solved or solved,
        max(before.stars, stars),
    )
    return "; ".join(filter(None, (note, _write(path, states) if path and may_write else "")))


def _read(path: Path | None) -> tuple[dict[str, ExerciseState], str, bool]:
    """Return the states, what to tell about the file, and whether it may be written."""
    if path is None:
        return dict(_kept), "", False
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}, "", True
    except (OSError, UnicodeDecodeError) as error:
        return _damaged(path, error)
    try:
        document = json.loads(text)
        if document["version"] > _VERSION:
            raise ValueError("a newer version")
        states = {id: _state(facts) for id, facts in document["exercises"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return _damaged(path, error)
    return states, "", True


def _state(facts: Any) -> ExerciseState:
    state = ExerciseState(
        **{name: facts[name] for name in ExerciseState.__dataclass_fields__ if name in facts}
    )
    if type(state.solved) is not bool or not all(
        type(n) is int and n >= 0 for n in (state.tries, state.hints, state.stars)
    ):
        raise ValueError("a number of an exercise is none")
    return state


def _damaged(path: Path, error: Exception) -> tuple[dict[str, ExerciseState], str, bool]:
    """Put a file that cannot be read aside; what this process knows is not lost."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
        number += 1
    try:
        path.rename(aside)
    except OSError:
        note = f"progress is not kept: {path} cannot be read ({type(error).__name__})"
        return dict(_kept), note, False
    note = f"{path.name} could not be read; it is kept as {aside.name}, and a new one is begun"
    return dict(_kept), note, True


def _write(path: Path, states: dict[str, ExerciseState]) -> str:
    document = {
        "version": _VERSION,
        "exercises": {id: asdict(s) for id, s in sorted(states.items())},
    }
    partial = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=1) + "\n")
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(partial)
        return f"progress is not kept: {path} cannot be written ({type(error).__name__})"
    return ""
