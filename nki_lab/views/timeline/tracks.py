"""The tracks of a timeline from top to bottom, engines and DMA queues, with their events.

The order is that of Neuron Explorer's trace viewer: DMA queues, then engines, of one core after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.analyses.drawing import ENGINE_TRACKS, SHARED_TRACKS
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS

#: Tracks of engines from top to bottom, below the DMA queues (device trace viewer of Neuron Explorer).
_ENGINE_ORDER = ("sync", "tensor", "vector", "scalar", "gpsimd")


@dataclass(frozen=True, eq=False)
class Track:
    """One engine or DMA queue.

    Attributes:
        label: its name.
        engine: its row in the table of colours.
        table: profile table its events are rows of.
        rows: their numbers, by start.
        start, end: their times in ns.
        core: the core it belongs to.
        run: number of its run, where several are compared.
    """

    label: str
    engine: str
    table: str
    rows: np.ndarray
    start: np.ndarray
    end: np.ndarray
    core: int = 0
    run: int = 0

    @cached_property
    def busy(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts and ends of the spans in which at least one event is under way."""
        return intervals.merge(self.start, self.end)

    @property
    def busy_ns(self) -> int:
        """Time in which at least one event is under way."""
        first, last = self.busy
        return int((last - first).sum())

    def coverage(self, edges: np.ndarray) -> np.ndarray:
        """Return the share of each span between two neighbouring edges in which the track is busy."""
        first, last = self.busy
        if not len(first):
            return np.zeros(len(edges) - 1)
        before = np.concatenate(([0], np.cumsum(last - first)))
        ended = np.searchsorted(last, edges, "right")
        current = np.minimum(ended, len(first) - 1)
        begun = np.where(ended < len(first), np.clip(edges - first[current], 0, None), 0)
        width = np.diff(edges)
        return np.diff(before[ended] + begun) / np.where(width > 0, width, 1)


def shared_tracks(tracks: Sequence[Track]) -> dict[str, str]:
    """Return, by engine, how the shares of its tracks relate to that of the engine, where several did something."""
    used = Counter((t.run, t.core, t.engine) for t in tracks if len(t.rows))
    several = {engine for (_, _, engine), count in used.items() if count > 1}
    return {engine: text for engine, text in SHARED_TRACKS.items() if engine in several}


def tracks_of(profile: Profile, run: int = 0, shift: int = 0) -> Iterator[Track]:
    """Yield DMA queues, then engines (also those that did nothing), per core.

    Args:
        profile: the run.
        run: its number among those that are shown.
        shift: what is added to its times, in ns.
    """
    cores = profile.cores
    for core in cores:
        prefix = f"nc{core} " if len(cores) > 1 else ""
        for label, engine, table, chosen in (*_queues(profile, core), *_engines(profile, core)):
            start = profile.numbers(table, "start_ts")
            rows = np.flatnonzero(chosen)
            rows = rows[np.argsort(start[rows], kind="stable")]
            end = profile.numbers(table, "end_ts")[rows] + shift
            yield Track(prefix + label, engine, table, rows, start[rows] + shift, end, core, run)


def _queues(profile: Profile, core: int) -> Iterator[tuple[str, str, str, np.ndarray]]:
    queue = profile.strings(TRANSFERS, "queue_name")
    here = profile.numbers(TRANSFERS, "pcore_idx") == core
    codes = np.unique(queue.codes[here]).tolist()
    for label, code in sorted((queue.values[c] if c >= 0 else "DMA", c) for c in codes):
        yield label, "dma", TRANSFERS, here & (queue.codes == code)


def _engines(profile: Profile, core: int) -> Iterator[tuple[str, str, str, np.ndarray]]:
    engine = profile.strings("Instruction", "engine")
    track = profile.strings("Instruction", "timeline_track")
    here = profile.numbers("Instruction", "pcore_idx") == core
    others = [name for name in engine.values if name not in _ENGINE_ORDER]
    for name in (*_ENGINE_ORDER, *others):
        own = here & engine.equal_to(name)
        labels = ENGINE_TRACKS.get(name, (name,))
        named = {label: own & track.equal_to(label) for label in (*labels[1:], *track.values)}
        rest = own & ~np.logical_or.reduce([*named.values(), np.zeros_like(own)])
        if labels[0] in named:
            rest = rest | named.pop(labels[0])
        yield labels[0], name, "Instruction", rest
        for label, rows in named.items():
            if label in labels or rows.any():
                yield label, name, "Instruction", rows
