"""Stalls: adds up what each engine waited for, and how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nki_lab.profiler.analyses.waits import REASONS, Waits, waits
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import ENGINES
from nki_lab.profiler.text_table import ANSWER_LINES, cut
from nki_lab.source import place_text, text_of

_SHOWN_PER_LANE = 5
#: Everything that tells stalls apart.
_Key = tuple[str, str, str, str, str, str]


@dataclass(frozen=True)
class Stall:
    """Waiting of one engine at one line for one thing.

    Attributes:
        lane: the engine that waited, or "dma" for transfers that waited for the DMA engines.
        place: line whose instructions waited.
        reason: one of `waits.REASONS`.
        on: engine, or DMA queue, of what was waited for.
        on_what, on_place: its opcode or tensor, and its line.
        count: instructions that waited.
        wait_ns: how long, together.
    """

    lane: str
    place: str
    reason: str
    on: str
    on_what: str
    on_place: str
    count: int
    wait_ns: int

    @property
    def sentence(self) -> str:
        """What was waited for, in words: "semaphore of vector, TENSOR_COPY at add.py:12"."""
        at = f" at {place_text(self.on_place)}" if self.on_place else ""
        if self.reason == "semaphore" and self.on == self.lane:
            return f"the result of its own {self.on_what}{at}"
        source = " ".join(part for part in (self.on, self.on_what) if part)
        return f"{_WORDS[self.reason].format(source)}{at}"


_WORDS = {
    "start": "the start of the run",
    "order": "the previous instruction, {}",
    "semaphore": "semaphore of {}",
    "dma": "DMA queue {}",
    "issue": "its trigger, {}",
    "ring": "DMA engines serving {}",
    "port": "memory port held by {}",
    "issuer": "its issuer, busy with {}",
    "loop": "the previous iteration of the loop, which ended with {}",
    "core": "the other core, after {}",
    "unknown": "something unknown, after {}",
}
assert tuple(_WORDS) == REASONS


class Stalls(tuple[Stall, ...]):
    """All stalls of a run: by engine in the order of a timeline, each engine's longest first."""

    def of(self, lane: str) -> Stalls:
        """Return the stalls of one engine, or of "dma"."""
        return Stalls(stall for stall in self if stall.lane == lane)

    @property
    def wait_ns(self) -> int:
        """Sum of the waiting times; engines wait side by side."""
        return sum(stall.wait_ns for stall in self)

    def __str__(self) -> str:
        if not self:
            return "nothing waited"
        lines = ["stalls: us spent waiting at the head of a queue"]
        for lane in dict.fromkeys(stall.lane for stall in self):
            of_lane = self.of(lane)
            lines.append(f"{lane:<10}{of_lane.wait_ns / 1000:>12,.3f}")
            for stall in of_lane[:_SHOWN_PER_LANE]:
                at = f"{place_text(stall.place)}: " if stall.place else ""
                times = f" ({stall.count:,} times)" if stall.count > 1 else ""
                lines.append(f"{stall.wait_ns / 1000:>22,.3f}  {at}{stall.sentence}{times}")
            if len(of_lane) > _SHOWN_PER_LANE:
                rest = of_lane[_SHOWN_PER_LANE:]
                waited = sum(stall.wait_ns for stall in rest)
                lines.append(f"{waited / 1000:>22,.3f}  for {len(rest)} other reasons")
        return text_of(cut(lines, ANSWER_LINES))

    __repr__ = __str__


def stalls(profile: ProfileData) -> Stalls:
    """Return what every engine waited for and how long, by line and by what was waited for."""
    events = waits(profile)
    sums: dict[_Key, list[int]] = {}
    for event in np.flatnonzero(events.waited > 0).tolist():
        entry = sums.setdefault(_key(events, event), [0, 0])
        entry[0] += 1
        entry[1] += int(events.waited[event])
    order = {name: n for n, name in enumerate((*ENGINES, "dma"))}
    rows = [Stall(*key, count, wait) for key, (count, wait) in sums.items()]
    # Other programs may name engines that we do not know: they come last, each by itself.
    rows.sort(
        key=lambda s: (order.get(s.lane, len(order)), s.lane, -s.wait_ns, s.place, s.sentence)
    )
    return Stalls(rows)


def _key(events: Waits, event: int) -> _Key:
    before = int(events.before[event])
    lane = events.lane(event) if event < events.instructions else "dma"
    of_before = (
        (events.lane(before), events.what(before), events.place(before))
        if before >= 0
        else ("", "", "")
    )
    return (lane, events.place(event), REASONS[int(events.reason[event])], *of_before)
