"""Loops: adds up the time that each iteration takes.

Loops are those of the author's text: what Python unrolls, and what the device runs. An instruction belongs to the
iterations of all loops around it. Which these are stands in the tables KernelInstructions and
KernelIterationVariables; of a loop that the device runs, the passes are distinguished by counting how often each
instruction was executed (of nested ones, those of the innermost).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nki_lab.profiler.analyses.source_lines import ENGINE_SUM, issuers
from nki_lab.profiler.columns import Strings, known
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.profiler.text_table import ANSWER_LINES, cut
from nki_lab.source import text_of

_SHOWN = 24
#: What the variables are called that number the programs of a launch grid, which one core runs one after the other.
PROGRAM = "program_id("
_HEAD = "{:<27}{:>8}{:>14}{:>14}{:>13}{:>13}"


@dataclass(frozen=True)
class IterationTimes:
    """One iteration of one loop; of an inner loop, each time it is run.

    Attributes:
        variable: name of the loop variable.
        place: line of the loop.
        value: of the variable, or the number of the pass of a loop that the device runs.
        outer: (variable, value) of the loops around it, the outermost first.
        instructions: executed in it.
        engine_ns, transfer_ns: their summed time on the engines, and that of the transfers they issued.
        start_ns, end_ns: when its first one began and its last one, or its last transfer, ended.
    """

    variable: str
    place: str
    value: int
    outer: tuple[tuple[str, int], ...]
    instructions: int
    engine_ns: int
    transfer_ns: int
    start_ns: int
    end_ns: int

    @property
    def elapsed_ns(self) -> int:
        """Time from its first to its last event; iterations overlap."""
        return self.end_ns - self.start_ns


class LoopIterations(tuple[IterationTimes, ...]):
    """Iterations of loops, in the order of the program."""

    def of(self, variable: str) -> LoopIterations:
        """Return the iterations of the loop, or loops, over a variable."""
        return LoopIterations(i for i in self if i.variable == variable)

    def __str__(self) -> str:
        if not self:
            return "no loop is known"
        loops: dict[tuple[str, str], list[IterationTimes]] = {}
        for iteration in self:
            loops.setdefault((iteration.place, iteration.variable), []).append(iteration)
        if len(loops) == 1:
            return text_of(self._each())
        lines = [_HEAD.format("loop, mean of an iteration", "times", *_COLUMNS)]
        for (place, variable), iterations in loops.items():
            means = [
                sum(values) / len(iterations)
                for values in zip(*((i.instructions, *_times(i)) for i in iterations), strict=True)
            ]
            lines.append(_row(f"{variable} ({place})", len(iterations), means))
        return text_of(cut(lines, ANSWER_LINES))

    __repr__ = __str__

    def _each(self) -> list[str]:
        lines = [_HEAD.format(f"{self[0].variable} ({self[0].place})", "begins", *_COLUMNS)]
        for i in self[:_SHOWN]:
            names = ", ".join(f"{n} = {v}" for n, v in (*i.outer, (i.variable, i.value)))
            lines.append(_row(names, i.start_ns / 1000, (i.instructions, *_times(i))))
        if len(self) > _SHOWN:
            lines.append(f"... {len(self) - _SHOWN:,} more")
        return lines


_COLUMNS = ("instructions", ENGINE_SUM, "DMA us", "elapsed us")


def _times(i: IterationTimes) -> tuple[int, int, int]:
    return i.engine_ns, i.transfer_ns, i.elapsed_ns


def _row(name: str, first: float, values: Sequence[float]) -> str:
    count, *times = values
    shown = f"{first:,}" if isinstance(first, int) else f"{first:,.3f}"
    return _HEAD.format(name, shown, f"{count:,.1f}", *(f"{ns / 1000:,.3f}" for ns in times))


def loop_times(profile: ProfileData) -> LoopIterations:
    """Return the time of every iteration of the author's loops; nothing where the profile does not know the loops."""
    variables = profile.table("KernelIterationVariables")
    if not variables or not profile.count("Instruction"):
        return LoopIterations()
    return _IterationSums(profile).found()


class _IterationSums:
    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        table = "KernelIterationVariables"
        ids = profile.numbers(table, "iteration_variable_id")
        number = {key: n for n, key in enumerate(ids.tolist())}
        parents = profile.numbers(table, "parent_iteration_variable_id").tolist()
        self.parent = [number.get(key, -1) for key in parents]
        self.name = profile.strings(table, "variable_name").to_list()
        self.file = profile.strings(table, "file_path").to_list()
        self.line = profile.numbers(table, "line_number").tolist()
        self.value: list[int | None] = [row["variable_value"] for row in profile.records(table)]
        self.entry = self._entries(number)

    def _entries(self, number: dict[int, int]) -> np.ndarray:
        """Return the innermost variable of every row of Instruction, -1 outside all loops."""
        profile = self.profile
        names = profile.strings("KernelInstructions", "kernel_instruction_name").to_list()
        innermost = profile.numbers("KernelInstructions", "iteration_variables_id").tolist()
        of_name = {
            name: number.get(key, -1) for name, key in zip(names, innermost, strict=True) if key
        }
        name = profile.strings("Instruction", "kernel_instruction_name")
        coded = np.array([of_name.get(text, -1) for text in name.values] + [-1])
        return coded[name.codes]

    def found(self) -> LoopIterations:
        profile = self.profile
        rows = np.flatnonzero(self.entry >= 0)
        passes = self._passes()
        duration = profile.numbers("Instruction", "duration_ns")
        start = profile.numbers("Instruction", "start_ts")
        end = profile.numbers("Instruction", "end_ts").copy()
        moved = np.zeros(len(start), dtype=np.int64)
        issuer = issuers(profile)
        has = issuer >= 0
        np.add.at(moved, issuer[has], profile.numbers(TRANSFERS, "duration_ns")[has])
        np.maximum.at(end, issuer[has], profile.numbers(TRANSFERS, "end_ts")[has])
        sums: dict[tuple[int, int], list[int]] = {}
        columns = [c[rows].tolist() for c in (self.entry, passes, duration, moved, start, end)]
        for entry, trip, engine, transfer, begin, finish in zip(*columns, strict=True):
            for _ in range(len(self.parent)):  # a file may say that a loop is around itself
                if entry < 0:
                    break
                key = (entry, trip if self.value[entry] is None else 0)
                entry_sums = sums.get(key)
                if entry_sums is None:
                    sums[key] = [1, engine, transfer, begin, finish]
                else:
                    entry_sums[0] += 1
                    entry_sums[1] += engine
                    entry_sums[2] += transfer
                    entry_sums[3] = min(entry_sums[3], begin)
                    entry_sums[4] = max(entry_sums[4], finish)
                entry = self.parent[entry]
                if entry >= 0 and self.value[entry] is None:
                    trip = 0  # which pass of the outer loop it was is not known
        return LoopIterations(
            self._iteration(entry, trip, sums[entry, trip]) for entry, trip in sorted(sums)
        )

    def _passes(self) -> np.ndarray:
        """Return how often the instruction of every row was executed before."""
        pc = self.profile.column("Instruction", "compiler_pc")
        result = np.zeros(len(self.entry), dtype=np.int64)
        if pc is None or None not in self.value:
            return result
        assert isinstance(pc, np.ndarray)
        engine = self.profile.strings("Instruction", "engine").codes
        start = self.profile.numbers("Instruction", "start_ts")
        place = known(pc)
        order = np.lexsort((np.arange(len(start)), start, engine, place))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(place[order]) != 0) | (np.diff(engine[order]) != 0)
        number = np.arange(len(order))
        result[order] = number - np.maximum.accumulate(np.where(new, number, 0))
        return result

    def _iteration(self, entry: int, trip: int, sums: list[int]) -> IterationTimes:
        outer: list[tuple[str, int]] = []
        parent = self.parent[entry]
        while parent >= 0 and len(outer) < len(self.parent):
            outer.append((self.name[parent] or "", self.value[parent] or 0))
            parent = self.parent[parent]
        value = self.value[entry]
        return IterationTimes(
            self.name[entry] or "",
            f"{self.file[entry]}:{self.line[entry]}",
            trip if value is None else value,
            tuple(reversed(outer)),
            *sums,
        )


def program_in(values: str | None) -> str | None:
    """Return the part of `loop_values` that numbers a program of a launch grid; None where there is none."""
    parts = (values or "").split(", ")
    return ", ".join(part for part in parts if part.startswith(PROGRAM)) or None


def loop_values(profile: ProfileData, depth: int | None = None) -> Strings:
    """Return per row of Instruction the values of the loop variables around it, such as `i=3, j=0`.

    Unknown where no loop is around it, or the profile knows no loop variables. A value that only the device knows, or
    that is not a whole number, is shown as `?`.

    Args:
        profile: the run; a modelled one reads the variables now, by tracing the kernel again.
        depth: how many of the outer loops to show; by default all.
    """
    paths = _paths(profile)
    texts: list[str | None] = [None]
    codes: dict[int, int] = {-1: 0}
    for entry, path in paths.items():
        codes[entry] = len(texts)
        shown = path[:depth]
        texts.append(", ".join(shown) if shown else None)
    name = profile.strings("Instruction", "kernel_instruction_name")
    static = profile.strings("KernelInstructions", "kernel_instruction_name")
    entries = profile.column("KernelInstructions", "iteration_variables_id")
    column = Strings.of(texts)
    if entries is None or not len(name):
        return Strings(np.full(len(name), -1), ())
    assert isinstance(entries, np.ndarray)
    core = profile.numbers("KernelInstructions", "pcore_idx")
    place = {
        (number, instruction): codes.get(entry, 0)
        for number, instruction, entry in zip(
            core.tolist(), static.to_list(), np.ma.filled(entries, -1).tolist(), strict=True
        )
    }
    rows = zip(profile.numbers("Instruction", "pcore_idx").tolist(), name.to_list(), strict=True)
    code = np.array([place.get(row, 0) for row in rows], dtype=np.int64)
    return Strings(column.codes[code], column.values)


def _paths(profile: ProfileData) -> Mapping[int, tuple[str, ...]]:
    """Return the text of every variable with those around it, outermost first, by id."""
    paths: dict[int, tuple[str, ...]] = {}
    rows = {
        row["iteration_variable_id"]: row for row in profile.records("KernelIterationVariables")
    }
    for number in rows:
        chain = []
        entry = number
        while entry is not None and entry in rows and entry not in paths:
            chain.append(entry)
            if len(chain) > len(rows):
                break  # a file may say that a loop is around itself
            entry = rows[entry]["parent_iteration_variable_id"]
        path = paths.get(entry, ())
        for entry in reversed(chain):
            value = rows[entry]["variable_value"]
            path += (f"{rows[entry]['variable_name']}={'?' if value is None else value}",)
            paths[entry] = path
    return paths
