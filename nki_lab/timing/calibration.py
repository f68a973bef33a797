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
from nki_lab.profiler.analyses.model_error import instruction_class
from nki_lab.profiler.analyses.pairing import paired_instructions, paired_transfers
from nki_lab.profiler.analyses.waits import waits
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.profile import Profile
from nki_lab.progress import phase
from nki_lab.targets.constants import TIMING
from nki_lab.targets.facts import Status
from nki_lab.targets.overlay import is_whole, target_with
from nki_lab.targets.spec import Target
from nki_lab.timing.model import ModelledTimeline
from nki_lab.timing.rows import instruction_rows
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.what_if import replaced, retimed

#: A measured time is taken to be this certain: a part of itself, and of a nanosecond for how it was rounded.
_NOISE, _ROUNDING_NS = 0.015, 0.6
#: When an event begins is less certain.
_GAP_NS = 3.0
_FIRST_ROUND = 0.3  # weight of when events begin, in the first round
#: A constant is changed by this part of itself to see what follows from it.
_STEP = 0.05
#: A constant is moved where that makes the differences smaller by so many times what chance does.
_WORTH = 12.0
#: How far a constant may be off before anything is measured, as a part of itself: one that is documented, and others.
_DOCUMENTED, _OTHER = 0.15, 0.5
_NOTHING = 20.0  # cycles or ns, of a constant that is 0
#: Rounds of timing the model again; it is nearly a straight line in every constant.
_ROUNDS = 6
#: Samples further off than so many times their noise count less.
_OUTLIER = 3.0
#: What `Fit.follows` calls transfers.
TRANSFERS_CLASS = "transfers"
_FOLLOWS = 3  # constants named for a class
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
        follows: class of instructions, or "transfers" -> the constants its times follow from, the weightiest first.
        samples: measured times that were used.
        before, after: how far the model is off, as the median of |measured / modelled - 1|, before and with the
            new values.
    """

    target: Target
    constants: tuple[Calibrated, ...]
    follows: dict[str, tuple[str, ...]]
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
        # A sample is the difference of two times. A time is numbered: all starts by place, then all ends.
        self._later, self._earlier, self.measured = self._samples(
            modelled, place, event, start, end
        )
        kind = rows.kind[np.lexsort((rows.kind, rows.entry))]
        self._grouped(kind)
        names = [instruction_class(k.engine.name, k.opcode) or "" for k in rows.kinds]
        of_place = [*(names[k] for k in kind.tolist()), *[TRANSFERS_CLASS] * self._shape[1]]
        #: Per group of samples the class of its events; "" where a sample is not how long an event took.
        self.classes = [""] * self.count
        lengths = np.flatnonzero(self._later >= len(of_place))
        for sample in lengths.tolist():
            self.classes[self._group[sample]] = of_place[self._earlier[sample]]

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
        self._is_length = np.array([bool(name) for case in cases for name in case.classes])
        noise = np.hypot(_NOISE * self._measured, np.where(self._is_length, _ROUNDING_NS, _GAP_NS))
        self._noise = noise / np.sqrt(np.minimum(self._sizes, 16))
        self._names = [name for name in TIMING if getattr(target, name) is not None]
        self._base = {name: getattr(target, name) for name in self._names}
        #: The cases in which samples follow from a constant; all of them, until that is known.
        self._seeing = {name: list(range(len(cases))) for name in self._names}
        self._looked = False

    def fit(self) -> Fit:
        values = dict(self._base)
        first = said = self._said(values)
        best = self._cost(values, said), values, said, self._effects(values, said)
        effects = best[3]
        # How long events take follows from constants in a straight line; when they begin does so only while they wait
        # for the same. So the first round listens to the former.
        weight = np.where(self._is_length, 1.0, _FIRST_ROUND) / self._noise
        with phase("fitting constants", total=_ROUNDS) as fitting:
            for fitting.at in range(_ROUNDS):
                moved = self._moved(values, said, effects, weight)
                done = fitting.at > 0 and all(_near(moved[n], values[n]) for n in self._names)
                values = moved
                said = self._said(values)
                effects = self._effects(values, said, up=fitting.at % 2 == 1)
                best = min(
                    best, (self._cost(values, said), values, said, effects), key=lambda b: b[0]
                )
                off = np.abs(self._measured - said) / self._noise
                weight = 1 / (self._noise * np.sqrt(np.maximum(off / _OUTLIER, 1)))
                if done:
                    break
        _, values, said, effects = best
        return Fit(
            self._target,
            tuple(self._calibrated(name, values, said, effects, weight) for name in self._names),
            self._follows(values, effects),
            int(self._sizes.sum()),
            self._off(first),
            self._off(said),
        )

    def _follows(
        self, values: dict[str, float], effects: dict[str, np.ndarray]
    ) -> dict[str, tuple[str, ...]]:
        """Return the constants that the times of each class follow from."""
        classes = np.array([name for case in self._cases for name in case.classes])
        follows = {}
        for one in sorted({*classes.tolist()} - {""}):
            of = classes == one
            parts = {
                n: float(np.abs(effect[of] * _linear(self._target, n, values[n])).sum())
                for n, effect in effects.items()
            }
            weighty = sorted((n for n in parts if parts[n] > _ROUNDING_NS), key=lambda n: -parts[n])
            follows[one] = tuple(weighty[:_FOLLOWS])
        return follows

    def _cost(self, values: dict[str, float], said: np.ndarray) -> float:
        """Return how badly constants explain what was measured; of samples far off only the distance counts."""
        off = np.abs(self._measured - said) / self._noise
        moved = sum(
            (
                (_linear(self._target, n, values[n]) - _linear(self._target, n, base))
                / self._doubt(n)
            )
            ** 2
            + (values[n] != base) * _WORTH
            for n, base in self._base.items()
        )
        return _squares(off) + float(moved)

    def _off(self, said: np.ndarray) -> float:
        some = said > 0
        if not some.any():
            return 0.0
        off = np.abs(self._measured[some] / said[some] - 1)
        order = np.argsort(off)
        share = np.cumsum(self._sizes[some][order])
        return float(off[order][np.searchsorted(share, share[-1] / 2)])

    def _said(
        self, values: dict[str, float], last: np.ndarray | None = None, seeing: Sequence[int] = ()
    ) -> np.ndarray:
        """Return what the model says of every sample; of cases that do not see a change, what it said last."""
        changed = {n: v for n, v in values.items() if v != self._base[n]}
        name = f"{self._target.chip}+calibration"
        target = target_with(self._target, name, changed, keep=False)
        ends = np.cumsum([case.count for case in self._cases])
        return np.concatenate(
            [
                case.said(target) if last is None or n in seeing else last[end - case.count : end]
                for n, (case, end) in enumerate(zip(self._cases, ends.tolist(), strict=True))
            ]
        )

    def _effects(
        self, values: dict[str, float], said: np.ndarray, up: bool = True
    ) -> dict[str, np.ndarray]:
        """Return what a change of 1 in (the inverse of, for rates) each constant that is seen adds to the samples.

        Args:
            values: the constants.
            said: what the model says with them.
            up: make constants larger to see it. What waits for the later of two may follow only one way.
        """
        effects = {}
        seeing_now: dict[str, list[int]] = {}
        cases = np.repeat(np.arange(len(self._cases)), [case.count for case in self._cases])
        for name, seeing in self._seeing.items():
            step = self._stepped(name, values[name], up)
            change = _linear(self._target, name, step) - _linear(self._target, name, values[name])
            effect = (self._said(values | {name: step}, said, seeing) - said) / change
            seen = np.abs(effect * change) > _ROUNDING_NS
            if seen.any():
                effects[name] = effect
            seeing_now[name] = np.unique(cases[seen]).tolist()
        self._seeing = self._seeing if self._looked else {n: s for n, s in seeing_now.items() if s}
        self._looked = True
        return effects

    def _stepped(self, name: str, value: float, up: bool) -> float:
        """Return the value next to a constant's, above or below it where its range allows that."""
        least, most = TIMING[name].between(self._target.sources[name].unit)
        step = value * _STEP if value else (1.0 if is_whole(name) else 0.1)
        step = max(round(step), 1) if is_whole(name) else step
        ways = (value + step, value - step) if up else (value - step, value + step)
        return next(way for way in ways if least <= way <= most)

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
        # How far a constant may be off is one more sample: of what explains the same, the smaller change is taken.
        matrix = np.concatenate((matrix, np.diag([1 / self._doubt(n) for n in names])))
        wanted = np.concatenate((wanted * weight, np.zeros(len(names))))
        problem = _Problem(matrix, wanted, *self._bounds(names), np.flatnonzero(self._is_length))
        chosen = problem.few()
        result = dict(self._base)
        for column, change in zip(chosen, problem.solved(chosen).tolist(), strict=True):
            name = names[column]
            result[name] = self._within(
                name, _linear(self._target, name, self._base[name]) + change
            )
        return result

    def _bounds(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return how far constants, or the inverse of rates, can be moved down and up."""
        bounds = []
        for name in names:
            ends = TIMING[name].between(self._target.sources[name].unit)
            now = _linear(self._target, name, self._base[name])
            bounds.append(sorted(_linear(self._target, name, end) - now for end in ends))
        low, high = np.array(bounds).T
        return low, high

    def _doubt(self, name: str) -> float:
        """Return how far a constant, or the inverse of a rate, may be off."""
        documented = self._target.sources[name].status is Status.DOCUMENTED
        share = _DOCUMENTED if documented else _OTHER
        return share * abs(_linear(self._target, name, self._base[name])) or _NOTHING

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


def _squares(off: np.ndarray) -> float:
    """Return the sum of squares; of what is far off only the distance counts."""
    return float(np.sum(np.where(off < _OUTLIER, off**2, (2 * off - _OUTLIER) * _OUTLIER)))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-3 * max(abs(one), abs(other))


def _is_rate(target: Target, name: str) -> bool:
    """Tell whether times follow from the inverse of a constant."""
    unit = target.sources[name].unit
    return unit in ("GHz", "B/ns", "columns") or name.endswith("efficiency")


def _linear(target: Target, name: str, value: float) -> float:
    """Return a constant, or its inverse where times follow from that."""
    return 1 / value if _is_rate(target, name) else value


@dataclass(frozen=True)
class _Problem:
    """Columns that explain a vector when they are moved, each within bounds."""

    matrix: np.ndarray
    wanted: np.ndarray
    low: np.ndarray
    high: np.ndarray
    certain: np.ndarray  # the places of the vector that show how much of it is chance

    def solved(self, columns: Sequence[int]) -> np.ndarray:
        """Return how far to move some columns: least squares, and those that would leave their bounds stay there."""
        of = np.array(columns, dtype=np.int64)
        moves = np.zeros(len(of))
        free = np.ones(len(of), dtype=bool)
        while free.any():
            left = self.wanted - self.matrix[:, of[~free]] @ moves[~free]
            moves[free] = np.linalg.lstsq(self.matrix[:, of[free]], left, rcond=1e-9)[0]
            bounded = np.clip(moves, self.low[of], self.high[of])
            outside = free & (bounded != moves)
            moves = bounded
            if not outside.any():
                break
            free &= ~outside
        return moves

    def unexplained(self, columns: Sequence[int]) -> float:
        """Return the squares that are left when these columns are moved."""
        left = self._left(columns)
        return float(left @ left)

    def _left(self, columns: Sequence[int]) -> np.ndarray:
        return self.wanted - self.matrix[:, list(columns)] @ self.solved(columns)

    def few(self) -> list[int]:
        """Return the columns to move: the best first, while one is worth it; those made needless are left out again."""
        count = self.matrix.shape[1]
        chosen: list[int] = []
        # What no column explains is chance; half of it is less than 0.67 of its standard deviation.
        chance = float(np.median(np.abs(self._left(range(count))[self.certain]))) / 0.67
        worth = _WORTH * max(1.0, chance**2)
        left = self.unexplained(chosen)
        while len(chosen) < count:
            others = [c for c in range(count) if c not in chosen]
            after = [self.unexplained([*chosen, c]) for c in others]
            if left - min(after) < worth:
                break
            chosen.append(others[after.index(min(after))])
            left = min(after)
        while chosen:
            without = [self.unexplained([c for c in chosen if c != one]) for one in chosen]
            if min(without) - left >= worth:
                break
            chosen.pop(without.index(min(without)))
            left = min(without)
        return sorted(chosen)
