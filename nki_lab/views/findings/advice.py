"""The advice on a run, with the lines of the author's text that it is about."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.profiler.analyses.advice import CATEGORY, HELP, Advice
from nki_lab.source import place_text
from nki_lab.views.run import Place, ViewData

#: Findings, pieces of advice and rows about the numbers that are sent to the browser.
REMARKS_SENT = 1_000


@dataclass(frozen=True)
class Advised:
    """One piece of advice.

    Attributes:
        rule: name of the rule that gives it.
        gain: what it would save, in words; "" where only the whole text is known.
        message, help: what was found, and what to write instead.
        places: lines it is about.
    """

    rule: str
    gain: str
    message: str
    help: str
    places: tuple[Place, ...] = ()


def known_advice(data: ViewData) -> list[Advised]:
    """Return the advice on a run, the largest gain first; of a profile from a file, what its warnings say."""
    profile = data.profile
    if profile.model is not None:
        lines = _lines(data)
        return [_advised(advice, lines) for advice in profile.advice(None)]
    found = []
    for row in profile.records("Warning"):
        if row["category"] == CATEGORY:
            message, _, help = (row["message"] or "").partition(HELP)
            found.append(Advised(CATEGORY, "", message, help))
    return found


def about_the_numbers(data: ViewData) -> list[tuple[str, str]]:
    """Return (category, message) of what the numbers of a profile rest on."""
    return [
        (row["category"] or "", row["message"] or "")
        for row in data.profile.records("Warning")
        if row["category"] != CATEGORY
    ]


def _lines(data: ViewData) -> dict[str, Place]:
    """Return the author's lines by their label; the first of several cells' lines of one number."""
    lines: dict[str, Place] = {}
    for place in data.lines[1] if data.lines is not None else ():
        lines.setdefault(place.label, place)
    return lines


def _advised(advice: Advice, lines: dict[str, Place]) -> Advised:
    places = tuple(
        lines.get(place_text(text), Place(place_text(text), place_text(text), ""))
        for text in advice.places
    )
    return Advised(advice.rule, advice.gain, advice.message, advice.help, places)
