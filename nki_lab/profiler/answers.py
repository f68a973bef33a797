"""Writes the answers about a run as text and as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from nki_lab.profiler.profile import QUESTIONS, Profile
from nki_lab.profiler.text_table import ANSWER_LINES, cut

#: Rows of an answer that its plain form holds, the first ones; it tells how many there are.
MOST_ROWS = 100


def _core(profile: Profile, name: str) -> int | None:
    """Return the core that an answer is about, where there are several."""
    of_slowest = QUESTIONS[name][1] and len(profile.cores) > 1
    return profile.slowest.cores[0] if of_slowest else None


def _text(name: str, profile: Profile) -> str:
    core = _core(profile, name)
    heading = [] if core is None else [f"core {core}, the last to end"]
    return "\n".join(cut([*heading, *str(QUESTIONS[name][0](profile)).split("\n")], ANSWER_LINES))


#: Name -> answer as text, the same on every run and machine, at most ANSWER_LINES.
ANALYSES: dict[str, Callable[[Profile], str]] = {name: partial(_text, name) for name in QUESTIONS}


def analysis_data(name: str, profile: Profile) -> dict[str, Any]:
    """Return an answer as plain data, which JSON can hold.

    Rows are given as `count`, how many there are, and `rows`, the first MOST_ROWS of them. `core` says which core the
    answer is about, where there are several.
    """
    core = _core(profile, name)
    answer = QUESTIONS[name][0](profile)
    data = plain(answer) if is_dataclass(answer) else {"count": len(answer), "rows": plain(answer)}
    return data if core is None else {"core": core, **data}


def plain(value: Any) -> Any:
    """Return an answer's dataclasses as dicts, its sequences as lists and its numbers as Python's.

    What has no place in the text of a dataclass is left out, such as a profile that was timed for it. Of a sequence
    the first MOST_ROWS are taken; a field that is cut has a `..._count` beside it.
    """
    if is_dataclass(value):
        told: dict[str, Any] = {}
        for field in fields(value):
            if field.repr:
                held = getattr(value, field.name)
                told[field.name] = plain(held)
                if isinstance(held, tuple) and len(held) > MOST_ROWS:
                    told[f"{field.name}_count"] = len(held)
        return told
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value[:MOST_ROWS]]
    return value.item() if isinstance(value, np.generic) else value
