"""Source lines: adds up the time that each line of the kernel takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nki_lab.profiler.columns import Strings
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import FLOW_ENDS, TRANSFERS
from nki_lab.source import place_text, text_of

#: Heading of the time of a line on all engines: where they work at the same time, each counts.
ENGINE_SUM = "engine sum us"


@dataclass(frozen=True)
class LineTime:
    """What one source line asked for.

    Attributes:
        place: the line, as in `nki_source_location`.
        instructions: how many instructions it executed.
        engine_ns: their summed time on the engines.
        transfer_ns: summed time of the DMA transfers they issued.
        wait_ns: summed time their engines stood still before them.
        moved_bytes: bytes of those transfers.
    """

    place: str
    instructions: int
    engine_ns: int
    transfer_ns: int
    wait_ns: int = 0
    moved_bytes: int = 0


class LineTimes(list[LineTime]):
    """What every source line asked for, the most expensive first."""

    def __str__(self) -> str:
        if not self:
            return "no line is known"
        row = "{:<30}{:>14}{:>12}{:>12}{:>15}{:>9}"
        lines = [row.format("line", ENGINE_SUM, "DMA us", "waiting us", "bytes moved", "count")]
        for line in self[:_SHOWN]:
            times = (line.engine_ns, line.transfer_ns, line.wait_ns)
            shown = [f"{ns / 1000:,.3f}" for ns in times]
            counts = f"{line.moved_bytes:,}", f"{line.instructions:,}"
            lines.append(row.format(place_text(line.place), *shown, *counts))
        if len(self) > _SHOWN:
            lines.append(f"... {len(self) - _SHOWN} more")
        return text_of(lines)

    __repr__ = __str__


_SHOWN = 30


def by_line(profile: ProfileData, line: Strings | None = None) -> LineTimes:
    """Return the time of every source line, the most expensive first.

    Work of several engines at once is added up, so the sum may exceed the run's time. Instructions
    without a source line are left out.

    Args:
        profile: the run.
        line: the line of every row of Instruction; by default its `nki_source_location`.
    """
    if line is None:
        line = profile.strings("Instruction", "nki_source_location")
        told = () if profile.transfer_lines is None else profile.transfer_lines.values
        line = Strings(line.codes, dict.fromkeys((*line.values, *told)))
    rows = line.codes >= 0
    lines = len(line.values)
    duration = profile.numbers("Instruction", "duration_ns")
    counts = np.bincount(line.codes[rows], minlength=lines)
    engine = np.bincount(line.codes[rows], weights=duration[rows], minlength=lines)
    code = lines_of_transfers(profile, line.codes, line.values)
    issued = code >= 0
    moved = profile.numbers(TRANSFERS, "duration_ns")
    transfer = np.bincount(code[issued], weights=moved[issued], minlength=lines)
    waited = profile.numbers("Instruction", "evt_wait_time_ns")
    wait = np.bincount(line.codes[rows], weights=waited[rows], minlength=lines)
    size = profile.numbers(TRANSFERS, "transfer_bytes")
    sizes = np.bincount(code[issued], weights=size[issued], minlength=lines)
    columns = (counts, engine, transfer, wait, sizes)
    times = [
        LineTime(place, *map(int, values))
        for place, *values in zip(line.values, *columns, strict=True)
        if any(values)
    ]
    times.sort(key=lambda entry: (-entry.engine_ns - entry.transfer_ns, entry.place))
    return LineTimes(times)


def lines_of_transfers(profile: ProfileData, rows: np.ndarray, lines: Sequence[str]) -> np.ndarray:
    """Return the line that issued each transfer, as a number into `lines`, -1 where unknown.

    Args:
        profile: the run, or a span of it.
        rows: the line of each row of Instruction.
        lines: what `nki_source_location` or a view calls them.
    """
    issuer = issuers(profile)
    code = np.where(issuer >= 0, rows[issuer], -1) if len(rows) else np.full(len(issuer), -1)
    told = profile.transfer_lines
    if told is None:
        return code
    number = {place_text(text): n for n, text in enumerate(lines)}
    of_text = np.array([number.get(place_text(text), -1) for text in told.values] + [-1])
    return np.where(code < 0, of_text[told.codes], code)


def transfer_lines(profile: ProfileData) -> Strings:
    """Return the line of the instruction that issued each transfer."""
    line = profile.strings("Instruction", "nki_source_location")
    told = () if profile.transfer_lines is None else profile.transfer_lines.values
    lines = tuple(dict.fromkeys((*line.values, *told)))
    return Strings(lines_of_transfers(profile, line.codes, lines), lines)


def issuers(profile: ProfileData) -> np.ndarray:
    """Return per transfer the row of the instruction that issued it, -1 where unknown."""
    result = np.full(profile.count(TRANSFERS), -1)
    count = profile.count("Instruction")
    giver, taker = dependences(profile)
    issues = (giver >= 0) & (giver < count) & (taker >= count)
    result[taker[issues] - count] = giver[issues]
    return result


def dependences(profile: ProfileData) -> tuple[np.ndarray, np.ndarray]:
    """Return per row of Flow the events it leads from and to, -1 where unknown.

    Events are numbered: rows of Instruction, then those of DmaPacketAggregated.
    """
    giver, taker = (np.full(profile.count("Flow"), -1) for _ in range(2))
    for event, way in ((giver, "in"), (taker, "out")):
        if len(event):
            tables, ids = (
                profile.strings("Flow", f"{way}_table"),
                profile.numbers("Flow", f"{way}_id"),
            )
            for text, table in FLOW_ENDS.items():
                of = tables.equal_to(text)
                row = rows_of(profile, table, ids[of])
                first = 0 if table == "Instruction" else profile.count("Instruction")
                event[of] = np.where(row >= 0, row + first, -1)
    return giver, taker


def rows_of(profile: ProfileData, table: str, ids: np.ndarray) -> np.ndarray:
    """Return the rows of a table that have these ids, -1 where there is none."""
    table_ids = profile.numbers(table, "id")
    order = np.argsort(table_ids, kind="stable")
    place = np.minimum(np.searchsorted(table_ids[order], ids), len(table_ids) - 1)
    rows = order[place] if len(table_ids) else np.full(len(ids), -1)
    return np.where(table_ids[rows] == ids, rows, -1) if len(table_ids) else rows


def positions(profile: ProfileData, core: int = 0) -> np.ndarray | None:
    """Return per row of Instruction the position of its instruction in the program of a core.

    -1 stands for none, such as an instruction of another core; None for a profile that does not know.
    """
    name = profile.strings("Instruction", "kernel_instruction_name")
    matches = [re.match(r"inst\.(\d{1,9}):", text) for text in name.values]
    numbers = np.array([int(m[1]) if m else -1 for m in matches] + [-1], dtype=np.int64)
    position = numbers[name.codes]
    position[profile.numbers("Instruction", "pcore_idx") != core] = -1
    return position if (position >= 0).any() else None
