"""Compares two runs: where they differ, and which one is faster there.

Two versions of a kernel, the same kernel on two chips, or a modelled and a measured run: everything both profiles say
is laid side by side by engine, by line and by opcode. Of a modelled and a measured run the error of the model is told,
too (`model_error`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from nki_lab.profiler.analyses.loops import loop_values
from nki_lab.profiler.analyses.model_error import ModelErrors, model_errors
from nki_lab.profiler.analyses.source_lines import by_line
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import ENGINES
from nki_lab.source import place_text, text_of

_SHOWN, _SHOWN_OF_MODEL = 8, 3


@dataclass(frozen=True)
class Difference:
    """One thing in both runs.

    Attributes:
        name: engine, line or opcode.
        first_ns, second_ns: its time in each run; 0 where it does not occur.
        first_count, second_count: instructions, or transfers.
    """

    name: str
    first_ns: int
    second_ns: int
    first_count: int
    second_count: int

    @property
    def delta_ns(self) -> int:
        """How much longer it takes in the second run."""
        return self.second_ns - self.first_ns


@dataclass(frozen=True)
class ProfileComparison:
    """Two runs side by side.

    Attributes:
        first, second: how each is named: kernel, chip, and whether it was modelled or measured.
        first_ns, second_ns: their times.
        engines: time in which each engine, and the DMA engines, were busy.
        lines: time that each line of the kernel asked for, on engines and in transfers.
        opcodes: time of all instructions of each opcode.
        figures: other figures of both: bytes moved, transfers, utilisation.
        model: the error of the model, where one run was modelled and the other one measured on the same chip.
    """

    first: str
    second: str
    first_ns: int
    second_ns: int
    engines: tuple[Difference, ...]
    lines: tuple[Difference, ...]
    opcodes: tuple[Difference, ...]
    figures: tuple[tuple[str, str, str], ...]
    model: ModelErrors | None = None

    @property
    def speedup(self) -> float:
        """How many times faster the second run is; below 1 when it is slower."""
        return self.first_ns / self.second_ns if self.second_ns else 0.0

    @property
    def faster(self) -> tuple[Difference, ...]:
        """Lines that take less time in the second run, the largest gain first."""
        return tuple(line for line in self.lines if line.delta_ns < 0)

    def __str__(self) -> str:
        lines = [
            f"first   {self.first_ns / 1000:>12,.3f} us  {self.first}",
            f"second  {self.second_ns / 1000:>12,.3f} us  {self.second}",
            _verdict(self.first_ns, self.second_ns),
        ]
        tables: tuple[tuple[str, tuple[Difference, ...]], ...]
        tables = (("engine", self.engines), ("line", self.lines), ("opcode", self.opcodes))
        if self.model is not None:
            lines += ["", *self.model.lines_of_text(_SHOWN_OF_MODEL)]
            tables = () if self.model.paired else tables  # these say the same with less
        for title, rows in tables:
            shown = [row for row in rows if row.first_ns or row.second_ns]
            if not shown:
                continue
            lines += ["", _ROW.format(title, "first us", "second us", "change", "count", "")]
            lines += [text for row in shown[:_SHOWN] for text in _difference(row)]
            if len(shown) > _SHOWN:
                lines.append(f"... {len(shown) - _SHOWN} more")
        lines += ["", *(f"{name:<24}{a:>14}{b:>14}" for name, a, b in self.figures)]
        return text_of(line.rstrip() for line in lines)

    __repr__ = __str__


_NAME = 24  # letters of the first column
_ROW = f"{{:<{_NAME}}}{{:>14}}{{:>14}}{{:>12}}{{:>10}} {{}}"


def _verdict(first: int, second: int) -> str:
    if first == second:
        return "both take the same time"
    if not first or not second:
        return "one of the two ran nothing"
    if second < first:
        return f"the second is {first / second:.2f} times as fast"
    return f"the second takes {second / first:.2f} times as long"


def _difference(row: Difference) -> list[str]:
    """Return the row of a table; a name that is too long for its column has its own line."""
    long = len(row.name) >= _NAME
    then = "" if row.first_count == row.second_count else f"-> {row.second_count:,}"
    numbers = _ROW.format(
        "" if long else row.name,
        f"{row.first_ns / 1000:,.3f}",
        f"{row.second_ns / 1000:,.3f}",
        f"{row.delta_ns / 1000:+,.3f}",
        f"{row.first_count:,}",
        then,
    )
    return [row.name, numbers] if long else [numbers]


def compare_profiles(
    first: ProfileData, second: ProfileData, text_of: Callable[[int, str], str] | None = None
) -> ProfileComparison:
    """Lay two profiles side by side.

    Args:
        first, second: the runs.
        text_of: gives the text of a line of the first (0) or second (1) run; lines of two versions are then matched
            by what they say. Without it, or where it gives "", they are matched by file and number. Lines that only one
            run has are matched by the loops they stand in and by what they have executed (`match_lines`).
    """
    runs = (first, second)

    def named(run: int, place: str) -> str:
        return (text_of(run, place) if text_of else "") or place_text(place)

    lines = [
        _summed((named(n, line.place), line.engine_ns + line.transfer_ns, line.instructions) for line in by_line(p))
        for n, p in enumerate(runs)
    ]  # fmt: skip
    unmatched = (lines[0].keys() - lines[1].keys(), lines[1].keys() - lines[0].keys())
    for theirs, mine in same_lines(runs, unmatched, named).items():
        name = f"{mine} -> {theirs}"
        lines[0][name], lines[1][name] = lines[0].pop(mine), lines[1].pop(theirs)
    opcodes = [
        _summed(
            zip(
                (opcode or "" for opcode in p.strings("OpcodeSummary", "opcode").to_list()),
                p.numbers("OpcodeSummary", "instruction_time_ns").tolist(),
                p.numbers("OpcodeSummary", "instruction_count").tolist(),
                strict=True,
            )
        )
        for p in runs
    ]
    return ProfileComparison(
        first=_name(first),
        second=_name(second),
        first_ns=first.total_ns,
        second_ns=second.total_ns,
        engines=tuple(_engines(first, second)),
        lines=_differences(*lines),
        opcodes=_differences(*opcodes),
        figures=tuple(_figures(first, second)),
        model=_errors(runs, named),
    )


def _errors(
    runs: tuple[ProfileData, ProfileData], named: Callable[[int, str], str]
) -> ModelErrors | None:
    """Return the error of the model, where only one of two runs on a chip was measured."""
    modelled = [n for n, p in enumerate(runs) if p.is_simulation]
    if len(modelled) != 1 or runs[0].target.chip != runs[1].target.chip:
        return None
    return model_errors(runs[modelled[0]], runs[1 - modelled[0]], partial(named, modelled[0]))


def _name(profile: ProfileData) -> str:
    where = f" on {profile.target.name}" if profile.is_simulation else ""
    return f"{profile.name or 'kernel'}{where}, {profile.origin}"


def _summed(rows: Iterable[tuple[str, int, int]]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for name, time, count in rows:
        before = sums.get(name, (0, 0))
        sums[name] = (before[0] + time, before[1] + count)
    return sums


def _differences(
    first: Mapping[str, tuple[int, int]], second: Mapping[str, tuple[int, int]]
) -> tuple[Difference, ...]:
    """Return what is in either, the largest difference first."""
    rows = []
    for name in dict.fromkeys((*first, *second)):
        (a, many), (b, now) = first.get(name, (0, 0)), second.get(name, (0, 0))
        rows.append(Difference(name, a, b, many, now))
    return tuple(sorted(rows, key=lambda row: (-abs(row.delta_ns), -row.first_ns, row.name)))


def _engines(first: ProfileData, second: ProfileData) -> Iterable[Difference]:
    for name in (*ENGINES, "dma"):
        prefix = "dma" if name == "dma" else f"{name}_engine"
        count = "dma_transfer_count" if name == "dma" else f"{prefix}_instruction_count"
        times = [round(p.summary.get(f"{prefix}_active_time", 0.0) * 1e9) for p in (first, second)]
        counts = [int(p.summary.get(count, 0)) for p in (first, second)]
        yield Difference(name, *times, *counts)


def _figures(first: ProfileData, second: ProfileData) -> Iterable[tuple[str, str, str]]:
    for title, field, write in _FIGURES:
        values = [p.summary.get(field) for p in (first, second)]
        if any(values):
            a, b = ("-" if v is None else write(v) for v in values)
            yield title, a, b


_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("HBM bytes read", "hbm_read_bytes", "{:,}".format),
    ("HBM bytes written", "hbm_write_bytes", "{:,}".format),
    ("bytes per transfer", "dma_transfer_average_bytes", "{:,.0f}".format),
    ("MFU", "mfu_estimated_percent", "{:.1%}".format),
    ("HFU", "hfu_estimated_percent", "{:.1%}".format),
    ("MBU", "mbu_estimated_percent", "{:.1%}".format),
)


_Likeness = tuple[tuple[str, ...], tuple[str, ...]]


def same_lines(
    profiles: tuple[ProfileData, ProfileData],
    unmatched: tuple[Collection[str], Collection[str]],
    named: Callable[[int, str], str],
) -> dict[str, str]:
    """Return for lines of the second run the line of the first that they are.

    Args:
        profiles: the runs.
        unmatched: names of the lines of each run that the other one does not have.
        named: the name of a line of the first (0) or second (1) run, by its place in the profile.
    """
    if not all(unmatched):
        return {}
    alike: list[dict[_Likeness, list[str]]] = [{}, {}]
    for run, profile in enumerate(profiles):
        for name, likeness in _likenesses(profile, partial(named, run)).items():
            if name in unmatched[run]:
                alike[run].setdefault(likeness, []).append(name)
    return {
        theirs: mine
        for likeness, names in alike[1].items()
        for mine, theirs in zip(alike[0].get(likeness, ()), names, strict=False)
    }


def _likenesses(profile: ProfileData, named: Callable[[str], str]) -> dict[str, _Likeness]:
    """Return the variables of the loops around every line, and its opcodes, in the order of the program."""
    line = profile.strings("Instruction", "nki_source_location")
    opcode, loops = profile.strings("Instruction", "opcode"), loop_values(profile)
    variables = [tuple(re.findall(r"(\w+)=", text)) for text in loops.values]
    codes = np.stack([line.codes, opcode.codes, loops.codes], axis=1)
    kinds, first = np.unique(codes, axis=0, return_index=True)
    likenesses: dict[str, tuple[set[tuple[str, ...]], set[str]]] = {}
    for place, what, around in kinds[np.argsort(first, kind="stable")].tolist():
        if place < 0:
            continue
        entry = likenesses.setdefault(named(line.values[place]), (set(), set()))
        entry[0].add(variables[around] if around >= 0 else ())
        entry[1].add(opcode.values[what] if what >= 0 else "")
    # A pass may move work out of its loop; the deepest place says where the line stands.
    return {
        name: (max(where, key=len), tuple(sorted(what)))
        for name, (where, what) in likenesses.items()
    }
