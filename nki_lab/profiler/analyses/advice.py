"""Advice: what to change in a kernel, and how much time that saves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from nki_lab.percent import percent
from nki_lab.profiler.text_table import ANSWER_LINES, cut
from nki_lab.source import place_text, text_of

#: Category of advice in the table Warning.
CATEGORY = "advice"
#: What stands between what was found and what to write instead.
HELP = ". Help: "
#: Advice that saves less of the run is not worth a line.
LEAST_GAIN = 0.01
_PLACES_SHOWN = 3
_SHOWN = 6


@dataclass(frozen=True)
class Advice:
    """A change of the kernel that would make it faster, with what it rests on.

    Attributes:
        rule: name of the rule that gives it.
        message: what was found, with its numbers.
        help: what to write instead.
        places: lines it is about, as in `nki_source_location`, the one that takes the longest first.
        gain_ns: time it would save.
        total_ns: time of the run.
        bound: why `gain_ns` is only an upper bound; "" where the program was timed again with the change in full.
    """

    rule: str
    message: str
    help: str
    places: tuple[str, ...]
    gain_ns: int
    total_ns: int
    bound: str = ""

    @property
    def gain_share(self) -> float:
        """Part of the run that it would save."""
        return self.gain_ns / self.total_ns if self.total_ns else 0.0

    @property
    def gain(self) -> str:
        """The gain in words."""
        most = "up to " if self.bound else ""
        why = f"; {self.bound}" if self.bound else ", timed again"
        return f"saves {most}{self.gain_ns / 1000:,.3f} us, {percent(self.gain_share)}{why}"

    def __str__(self) -> str:
        shown = "; ".join(map(place_text, self.places[:_PLACES_SHOWN]))
        more = "; ..." if len(self.places) > _PLACES_SHOWN else ""
        place = f"{shown}{more}: " if shown else ""
        return f"{self.rule} ({self.gain}): {place}{self.message}{HELP}{self.help}."


class Advices(tuple[Advice, ...]):
    """Advice on a run, the largest gain first."""

    def of(self, rule: str) -> Advices:
        """Return the advice of one rule."""
        return Advices(advice for advice in self if advice.rule == rule)

    def __str__(self) -> str:
        if not self:
            return "no advice: no rule finds a change that saves 1 % of the run"
        lines = ["advice, the largest gain first", *listed(map(str, self[:_SHOWN]))]
        if len(self) > _SHOWN:
            lines.append(f"  ... {len(self) - _SHOWN} more")
        return text_of(cut(lines, ANSWER_LINES))

    __repr__ = __str__


def listed(texts: Iterable[str], width: int = 92) -> list[str]:
    """Return numbered paragraphs as lines of at most `width` columns."""
    return [
        line
        for n, text in enumerate(texts, 1)
        for line in textwrap.wrap(
            text,
            width,
            initial_indent=f"  {n}. ",
            subsequent_indent="     ",
            break_long_words=False,
        )
    ]
