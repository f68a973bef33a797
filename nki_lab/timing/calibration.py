"""Finds the constants of a chip with which the model says what was measured.

Every pair of a modelled and a measured event gives samples: how long the event took, and how long after the event that
it waits for it began. The model is timed again with each constant changed a little, which tells the samples that
follow from it. Then as few constants as explain the differences are moved, the one that explains most first; the rest
keep their values. What no sample follows from is not seen, and constants that the samples cannot tell from each other
are named together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nki_lab.errors import UsageError
from nki_lab.ir.definition.form_times import Record, record_with
from nki_lab.profiler.analyses.pairing import paired_instructions, paired_transfers
from nki_lab.profiler.analyses.waits import waits
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.profile import Profile
from nki_lab.progress import phase
from nki_lab.targets.constants import TIMING
from nki_lab.targets.overlay import is_whole, target_with
from nki_lab.targets.spec import Target
from nki_lab.timing.model import ModelledTimeline
from nki_lab.timing.rows import instruction_rows
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.what_if import replaced, retimed

#: A measured time is taken to be this certain: a part of itself, and of a nanosecond for how it was rounded.
_NOISE, _ROUNDING_NS = 0.01, 0.6
#: A constant is changed by this part of itself to see what follows from it.
_STEP = 0.05
#: A constant is moved where that makes the differences smaller by so many times what chance does.
_WORTH = 12.0
#: Rounds of timing the model again; it is nearly a straight line in every constant.
_ROUNDS = 4
#: Samples further off than so many times their noise count less.
_OUTLIER = 3.0
#: Constants whose effects are this alike (1 is the same) cannot be told from each other.
_ALIKE = 0.93


@dataclass(frozen=True)
class Calibrated:
    """A constant, as the measured profiles have it.

    Attributes:
        name: of the constant.
        unit: its unit.
        governs: what follows from it.
        before: its value in the target.
        value: the value that explains what was measured; `before` where there is no reason for another one.
        error: how far off the value may be: one standard deviation.
        samples: how many measured times follow from it; 0 where it is not seen.
        alike: other constants that these samples cannot tell from it.
    """

    name: str
    unit: str
    governs: str
    before: float
    value: float
    error: float = 0.0
    samples: int = 0
    alike: tuple[str, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether it has another value than before."""
        return self.value != self.before

    @property
    def remark(self) -> str:
        """How well it is determined."""
        if not self.samples:
            return "not seen"
        notes = [] if self.samples >= 4 else [f"few samples ({self.samples})"]
        if self.error > 0.1 * abs(self.value):
            notes.append("uncertain")
        if self.alike:
            notes.append(f"mixed with {', '.join(self.alike)}")
        return "; ".join(notes) or "well determined"


@dataclass(frozen=True)
class Fit:
    """The constants that some measured profiles speak for.

    Attributes:
        target: the chip as the model had it.
        constants: every timing constant the chip has, in the order of `TIMING`.
        samples: measured times that were used.
        before, after: how far the model is off, as the median of |measured / modelled - 1|, before and with the
            new values.
    """

    target: Target
    constants: tuple[Calibrated, ...]
    samples: int
    before: float
    after: float

    @property
    def values(self) -> dict[str, float]:
        """The constants that have another value than before."""
        return {c.name: c.value for c in self.constants if c.moved}

    def named(self, name: str) -> Calibrated:
        """Return a constant."""
        return next(c for c in self.constants if c.name == name)


def fit_constants(runs: Sequence[tuple[Profile, ProfileData]]) -> Fit:
    """Find the constants of a chip with which the model says what was measured.

    Args:
        runs: a modelled profile of each kernel, and the measured one.

    Raises UsageError for a modelled profile that does not hold its program, one of two cores, and runs of several
    chips, or that have no event in common.
    """
    cases = [_Case(_timeline_of(modelled), modelled, measured) for modelled, measured in runs]
    targets = {case.timeline.execution.kernel.target for case in cases}
    if len(targets) != 1:
        raise UsageError(
            f"a calibration is of one chip; the kernels are for {', '.join(sorted(t.name for t in targets))}",
            help="give --target, or calibrate each chip by itself",
        )
    if not sum(case.count for case in cases):
        raise UsageError(
            "the measured profiles have no event in common with the modelled ones",
            help="name the kernel that was measured, with the same shapes",
        )
    return _Fitting(targets.pop(), cases).fit()


def retimed_on(timeline: Timeline, target: Target) -> Timeline:
    """Return the timeline of the same program on a chip with other timing constants."""
    costs = partial(_on, target, timeline.options.hbm_share)
    return retimed(timeline, replaced(timeline.program.records, costs), target)


def _on(target: Target, hbm_share: float, record: Record) -> Record:
    if not record.costs:  # it stands between two trips of a device loop
        return record.with_(interval=target.loop_trip_ns * 1000)
    form = record.form
    again = record_with(form, form.definition.cost_of(form.example, target), target, hbm_share)
    return again.with_(queue=record.queue)


def _timeline_of(profile: Profile) -> Timeline:
    model = profile.model
    if not isinstance(model, ModelledTimeline) or len(profile.cores) > 1:
        raise UsageError(
            f"{profile.name or 'the modelled run'} cannot be timed again: a calibration needs the program of one core",
            help="run the kernel on the simulator, without --lnc 2",
        )
    return model.timeline


class _Case:
    """A kernel with what was measured of it: its samples, and what the model says of them."""

    def __init__(self, timeline: Timeline, modelled: ProfileData, measured: ProfileData) -> None:
        self.timeline = timeline
        rows = instruction_rows(timeline)
        self._shape = len(rows.kind), len(timeline.transfers)
        # A row of the profile -> its place among all rows, however they are sorted.
        place = np.empty(len(rows.kind), dtype=np.int64)
        place[np.lexsort((rows.kind, rows.entry))] = np.arange(len(rows.kind))
        instructions = paired_instructions(modelled, measured)
        transfers = paired_transfers(modelled, measured)
        count = modelled.count("Instruction")
        place = np.concatenate((place, count + np.arange(len(timeline.transfers))))
        event = np.concatenate((instructions.first, count + transfers.first))
        start, end = (
            np.concatenate(
                (
                    measured.numbers("Instruction", f"{side}_ts")[instructions.second],
                    measured.numbers("DmaPacketAggregated", f"{side}_ts")[transfers.second],
                )
            ).astype(float)
            for side in ("start", "end")
        )
        #: Rows of start and end times that samples are the difference of: (later, its end?, earlier, its end?).
        self._later, self._earlier, self.measured = self._samples(
            modelled, place, event, start, end
        )
        self._grouped(rows.kind[np.lexsort((rows.kind, rows.entry))])

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(self.value)

    def _samples(
        self,
        modelled: ProfileData,
        place: np.ndarray,
        event: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        total = len(place)
        known = np.full(total, -1)
        known[event] = np.arange(len(event))
        why = waits(modelled)
        before = why.before[event]
        pairs = np.where(before >= 0, known[before], -1)
        has = pairs >= 0
        # Behind an instruction whose results are not waited for, the next one begins an interval after it began.
        ended = why.end[np.maximum(before, 0)] <= why.start[event]
        other = pairs[has]
        from_end = ended[has]
        gap = start[has] - np.where(from_end, end[other], start[other])
        later = np.concatenate((place[event] + total, place[event[has]]))
        earlier = np.concatenate((place[event], place[event[other]] + np.where(from_end, total, 0)))
        return later, earlier, np.concatenate((end - start, gap))

    def _grouped(self, kind: np.ndarray) -> None:
        """Put samples together of which the model says the same and for the same reason."""
        said = self._differences(self.timeline)
        kinds = np.concatenate((kind, np.full(self._shape[1], -1)))
        total = len(kinds)
        keys = np.stack(
            (np.rint(said * 1000), kinds[self._later % total], kinds[self._earlier % total],
             self._later // total, self._earlier // total), axis=1,
        )  # fmt: skip
        number = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        self._group = number
        self.sizes = np.bincount(number)
        self.value = self._medians(self.measured)

    def _medians(self, values: np.ndarray) -> np.ndarray:
        """Return the median of each group of samples."""
        ordered = values[np.lexsort((values, self._group))]
        first = np.cumsum(self.sizes) - self.sizes
        low, high = first + (self.sizes - 1) // 2, first + self.sizes // 2
        return (ordered[low] + ordered[high]) / 2

    def _differences(self, timeline: Timeline) -> np.ndarray:
        rows = instruction_rows(timeline)
        order = np.lexsort((rows.kind, rows.entry))
        moved = timeline.transfers
        times = (
            *(rows.start[order], timeline.start[moved]),
            *(rows.end[order], timeline.end[moved]),
        )
        flat = np.concatenate(times) / 1000
        return flat[self._later] - flat[self._earlier]

    def said(self, target: Target) -> np.ndarray:
        """Return what the model says of every sample on a chip, in ns."""
        timeline = retimed_on(self.timeline, target)
        return self._medians(self._differences(timeline))


class _Fitting:
    """Moves the constants of a chip until the model says what was measured."""

    def __init__(self, target: Target, cases: Sequence[_Case]) -> None:
        self._target = target
        self._cases = cases
        self._measured = np.concatenate([case.value for case in cases])
        self._sizes = np.concatenate([case.sizes for case in cases])
        # The median of several measured times is more certain than one.
        noise = np.hypot(_NOISE * self._measured, _ROUNDING_NS)
        self._noise = noise / np.sqrt(np.minimum(self._sizes, 16))
        self._names = [name for name in TIMING if getattr(target, name) is not None]
        self._base = {name: getattr(target, name) for name in self._names}

    def fit(self) -> Fit:
        values = dict(self._base)
        first = said = self._said(values)
        weight = 1 / self._noise
        with phase("fitting constants", total=_ROUNDS) as fitting:
            for fitting.at in range(_ROUNDS):
                effects = self._effects(values, said)
                moved = self._moved(values, said, effects, weight)
                done = all(_near(moved[n], values[n]) for n in self._names)
                values = moved
                said = self._said(values)
                off = np.abs(self._measured - said) / self._noise
                weight = 1 / (self._noise * np.sqrt(np.maximum(off / _OUTLIER, 1)))
                if done:
                    break
        effects = self._effects(values, said)
        return Fit(
            self._target,
            tuple(self._calibrated(name, values, said, effects, weight) for name in self._names),
            int(self._sizes.sum()),
            self._off(first),
            self._off(said),
        )

    def _off(self, said: np.ndarray) -> float:
        some = said > 0
        if not some.any():
            return 0.0
        off = np.abs(self._measured[some] / said[some] - 1)
        order = np.argsort(off)
        share = np.cumsum(self._sizes[some][order])
        return float(off[order][np.searchsorted(share, share[-1] / 2)])

    def _said(self, values: dict[str, float]) -> np.ndarray:
        changed = {n: v for n, v in values.items() if v != self._base[n]}
        target = target_with(self._target, f"{self._target.chip}+calibration", changed, keep=False)
        return np.concatenate([case.said(target) for case in self._cases])

    def _effects(self, values: dict[str, float], said: np.ndarray) -> dict[str, np.ndarray]:
        """Return what a change of 1 in (the inverse of, for rates) each constant that is seen adds to the samples."""
        effects = {}
        for name in self._names:
            step = self._stepped(name, values[name])
            change = _linear(self._target, name, step) - _linear(self._target, name, values[name])
            effect = (self._said(values | {name: step}) - said) / change
            if np.abs(effect * change).max(initial=0.0) > _ROUNDING_NS:
                effects[name] = effect
        return effects

    def _stepped(self, name: str, value: float) -> float:
        least, most = TIMING[name].between(self._target.sources[name].unit)
        step = value * (1 + _STEP) if value else (1.0 if is_whole(name) else 0.1)
        if is_whole(name):
            step = max(round(step), value + 1)
        return step if step <= most else max(least, value * (1 - _STEP))

    def _moved(
        self,
        values: dict[str, float],
        said: np.ndarray,
        effects: dict[str, np.ndarray],
        weight: np.ndarray,
    ) -> dict[str, float]:
        """Return the constants with as few as explain the differences moved away from what the target has."""
        names = list(effects)
        if not names:
            return values
        away = {
            n: _linear(self._target, n, values[n]) - _linear(self._target, n, self._base[n])
            for n in names
        }
        wanted = self._measured - said + sum(effects[n] * away[n] for n in names)
        matrix = np.stack([effects[n] for n in names], axis=1) * weight[:, None]
        wanted = wanted * weight
        chosen = _few(matrix, wanted)
        found = np.linalg.lstsq(matrix[:, chosen], wanted, rcond=None)[0] if chosen else []
        result = dict(self._base)
        for column, change in zip(chosen, found, strict=True):
            name = names[column]
            result[name] = self._within(
                name, _linear(self._target, name, self._base[name]) + float(change)
            )
        return result

    def _within(self, name: str, linear: float) -> float:
        """Return the value of a constant with this effect, within the constant's range."""
        least, most = TIMING[name].between(self._target.sources[name].unit)
        if _is_rate(self._target, name):
            value = 1 / linear if linear > 1 / most else most
        else:
            value = linear
        value = min(max(value, least), most)
        return round(value) if is_whole(name) else value

    def _calibrated(
        self,
        name: str,
        values: dict[str, float],
        said: np.ndarray,
        effects: dict[str, np.ndarray],
        weight: np.ndarray,
    ) -> Calibrated:
        fact = self._target.sources[name]
        about = (name, fact.unit, TIMING[name].governs, self._base[name])
        if name not in effects:
            return Calibrated(*about, self._base[name])
        columns = {n: effect * weight for n, effect in effects.items()}
        mine = columns[name]
        length = np.linalg.norm(mine)
        alike = [
            n
            for n, other in columns.items()
            if n != name and abs(mine @ other) > _ALIKE * length * np.linalg.norm(other)
        ]
        # With those that were moved and those alike: what they may explain says nothing about this one.
        rivals = [n for n in columns if n != name and (values[n] != self._base[n] or n in alike)]
        if rivals:
            others = np.stack([columns[n] for n in rivals], axis=1)
            mine = mine - others @ np.linalg.lstsq(others, mine, rcond=None)[0]
        left = (self._measured - said) * weight
        spread = max(1.0, float(np.sqrt(np.mean(left**2))))
        own = float(np.linalg.norm(mine))
        linear = spread / own if own > 1e-9 * length else float("inf")
        value = values[name]
        error = linear * value**2 if _is_rate(self._target, name) else linear
        seen = np.abs(effects[name]) > 1e-3 * np.abs(effects[name]).max()
        return Calibrated(*about, value, error, int(self._sizes[seen].sum()), tuple(sorted(alike)))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-3 * max(abs(one), abs(other))


def _is_rate(target: Target, name: str) -> bool:
    """Tell whether times follow from the inverse of a constant."""
    unit = target.sources[name].unit
    return unit in ("GHz", "B/ns", "columns") or name.endswith("efficiency")


def _linear(target: Target, name: str, value: float) -> float:
    """Return a constant, or its inverse where times follow from that."""
    return 1 / value if _is_rate(target, name) else value


def _few(matrix: np.ndarray, wanted: np.ndarray) -> list[int]:
    """Return the columns with which `wanted` is explained: the best first, while one is worth it; then those are left
    out again that the later ones made needless."""
    chosen: list[int] = []

    def unexplained(columns: list[int]) -> float:
        if not columns:
            return float(wanted @ wanted)
        part = matrix[:, columns]
        left = wanted - part @ np.linalg.lstsq(part, wanted, rcond=1e-9)[0]
        return float(left @ left)

    best = unexplained(list(range(matrix.shape[1])))
    chance = max(1.0, best / max(1, len(wanted) - matrix.shape[1]))
    left = unexplained(chosen)
    while len(chosen) < min(matrix.shape):
        others = [c for c in range(matrix.shape[1]) if c not in chosen]
        gains = [left - unexplained([*chosen, c]) for c in others]
        gain = max(gains)
        if gain < _WORTH * chance:
            break
        chosen.append(others[gains.index(gain)])
        left -= gain
    while chosen:
        losses = [unexplained([c for c in chosen if c != one]) - left for one in chosen]
        if min(losses) >= _WORTH * chance:
            break
        chosen.pop(losses.index(min(losses)))
        left = unexplained(chosen)
    return sorted(chosen)
