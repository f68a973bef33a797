"""Critical path: finds the chain of instructions and transfers that took the whole time of a run.

From the event that ended last the chain goes back to what that event waited for, and on to the start. Each step has
a gap, in which it had to wait for what the step before had already done (a signal on its way, descriptors being made,
data on its way), and a span, in which nothing but this step held up the next one. Gaps and spans add up to the time
of the run exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from nki_lab.percent import percent
from nki_lab.profiler.analyses.waits import REASONS, Waits, waits
from nki_lab.profiler.data import ProfileData
from nki_lab.source import place_text, text_of

_PARTS_SHOWN = 12
_STEPS_SHOWN = 14


@dataclass(frozen=True)
class PathStep:
    """One event on the path.

    Attributes:
        lane: engine, or DMA queue.
        what: opcode, or the tensor a transfer moves.
        place: line it comes from, empty where unknown.
        reason: what it waited for, one of `waits.REASONS`: the step before it is an example of that.
        start_ns: when it began.
        gap_ns: from the end of the step before (or the start of the run) to its own start.
        span_ns: from its start to its end, or to the start of the next step where that comes first.
        event: its row in Instruction; past those, in DmaPacketAggregated.
    """

    lane: str
    what: str
    place: str
    reason: str
    start_ns: int
    gap_ns: int
    span_ns: int
    event: int = field(default=-1, compare=False, repr=False)


@dataclass(frozen=True)
class Part:
    """What all steps of one lane, line and kind have on the path together."""

    lane: str
    what: str
    place: str
    count: int
    span_ns: int
    gap_ns: int


@dataclass(frozen=True)
class CriticalPath:
    """The chain that ends last.

    Attributes:
        steps: in the order of time.
        total_ns: time of the run; the gaps and spans of the steps add up to it.
    """

    steps: tuple[PathStep, ...]
    total_ns: int

    @property
    def parts(self) -> list[Part]:
        """Steps put together by lane, line and kind; the largest share of the path first."""
        sums_by_kind: dict[tuple[str, str, str], list[int]] = {}
        for step in self.steps:
            sums = sums_by_kind.setdefault((step.lane, step.what, step.place), [0, 0, 0])
            sums[0] += 1
            sums[1] += step.span_ns
            sums[2] += step.gap_ns
        parts = [Part(*key, *sums) for key, sums in sums_by_kind.items()]
        return sorted(parts, key=lambda p: (-p.span_ns - p.gap_ns, p.lane, p.what, p.place))

    @property
    def reasons(self) -> dict[str, int]:
        """Gaps by what the later step waited for, in ns; the largest first."""
        sums: dict[str, int] = {}
        for step in self.steps:
            if step.gap_ns:
                sums[step.reason] = sums.get(step.reason, 0) + step.gap_ns
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def __str__(self) -> str:
        if not self.steps:
            return "critical path: nothing ran"
        spans = sum(step.span_ns for step in self.steps)
        gaps = self.total_ns - spans
        lines = [
            f"critical path: {len(self.steps):,} steps, {_us(self.total_ns)} us"
            f" = {_us(spans)} us in steps + {_us(gaps)} us between them",
            *self._table(),
        ]
        if self.reasons:
            between = ", ".join(f"{name} {_us(ns)}" for name, ns in self.reasons.items())
            lines.append(f"between steps, us by reason: {between}")
        return text_of([*lines, *self._chain()])

    __repr__ = __str__

    def _table(self) -> Iterator[str]:
        yield _ROW.format("on the path", "what", "line", "steps", "span us", "gap us", "share")
        parts = self.parts
        for p in parts[:_PARTS_SHOWN]:
            share = (p.span_ns + p.gap_ns) / self.total_ns if self.total_ns else 0.0
            yield _ROW.format(
                p.lane, p.what[:22], place_text(p.place), f"{p.count:,}", _us(p.span_ns), _us(p.gap_ns),
                percent(share),
            )  # fmt: skip
        if len(parts) > _PARTS_SHOWN:
            yield f"... {len(parts) - _PARTS_SHOWN} more"

    def _chain(self) -> Iterator[str]:
        yield "the chain, latest step first, with what each step waited for"
        shown = 0
        runs = [
            (key, list(steps))
            for key, steps in groupby(
                reversed(self.steps), key=lambda s: (s.lane, s.what, s.place, s.reason)
            )
        ]
        for (lane, what, place, reason), steps in runs[:_STEPS_SHOWN]:
            shown += len(steps)
            times = f" x{len(steps):,}" if len(steps) > 1 else ""
            yield (
                f"  at {_us(steps[-1].start_ns)} us {lane} {what}{times}"
                f"{f' ({place_text(place)})' if place else ''}, {SENTENCES[reason]}"
            )
        if shown < len(self.steps):
            yield f"  ... {len(self.steps) - shown:,} steps before"


_ROW = "{:<18}{:<23}{:<16}{:>8}{:>11}{:>10}{:>9}"

#: How a reason reads after a step.
SENTENCES = {
    "start": "with nothing to wait for",
    "order": "queued behind",
    "semaphore": "after the result of",
    "dma": "after the arrival of",
    "issue": "which was triggered by",
    "ring": "when the DMA engines had finished",
    "port": "when its memory port was released by",
    "issuer": "when its issuing engine had written descriptors for",
    "loop": "in the next iteration of a loop, after",
    "core": "when the other core had also arrived, after",
    "unknown": "after",
}
assert tuple(SENTENCES) == REASONS


def critical_path(profile: ProfileData) -> CriticalPath:
    """Return the chain of instructions and transfers that took the whole time."""
    events = waits(profile)
    begin, _ = profile.span_ns
    if not len(events.end):
        return CriticalPath((), profile.total_ns)
    event = int(events.end.argmax())
    finish = int(events.end[event])
    steps = []
    while event >= 0:
        start, end = int(events.start[event]), int(events.end[event])
        before = int(events.before[event])
        reached = int(events.end[before]) if before >= 0 else begin
        steps.append(_step(events, event, max(0, start - reached), min(end, finish) - start))
        finish, event = start, before
    return CriticalPath(tuple(reversed(steps)), profile.total_ns)


def _step(events: Waits, event: int, gap: int, span: int) -> PathStep:
    return PathStep(
        lane=events.lane(event),
        what=events.what(event),
        place=events.place(event),
        reason=REASONS[int(events.reason[event])],
        start_ns=int(events.start[event]),
        gap_ns=gap,
        span_ns=span,
        event=event,
    )


def _us(ns: int) -> str:
    return f"{ns / 1000:,.3f}"
