"""Holds the outcome of a timing run, before anybody asks for tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from nki_lab.ir.definition.form_times import Record
from nki_lab.ir.program.execution import Execution
from nki_lab.timing.board import Board
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.program import LOOP_TRIP, QueuedProgram


@dataclass(frozen=True, eq=False)
class Timeline:
    """Times of every entry of a program, in picoseconds from the start of the run.

    Attributes:
        execution: what ran.
        options: how it was timed.
        board: the times, one per entry.
        came: when the core came to each of its meetings with the other core of a logical core, by entry.
    """

    execution: Execution
    options: TimingOptions
    board: Board
    came: Mapping[int, int] = field(default_factory=dict)

    @property
    def program(self) -> QueuedProgram:
        """The executed stream."""
        return self.board.program

    @cached_property
    def offset(self) -> int:
        """Time before the first entry, in picoseconds."""
        if not self.options.program_overhead:
            return 0
        target = self.execution.kernel.target
        return (target.program_overhead_min_ns + target.program_overhead_max_ns) * 1000 // 2

    @property
    def total_ns(self) -> int:
        """Time from the start of the run to the end of its last event."""
        return (max(self.board.end, default=0) + self.offset + 500) // 1000

    # -- the same as arrays, with the offset; made when tables are ----------------------------------------------

    @cached_property
    def start(self) -> np.ndarray:
        """When each entry begins; of a transfer, its first byte."""
        return np.array(self.board.start, dtype=np.int64) + self.offset

    @cached_property
    def end(self) -> np.ndarray:
        """When each entry's results are visible; of a transfer, when its last byte has arrived."""
        return np.array(self.board.end, dtype=np.int64) + self.offset

    @cached_property
    def trigger(self) -> np.ndarray:
        """When the issue of each transfer begins."""
        return np.array(self.board.trigger, dtype=np.int64) + self.offset

    @cached_property
    def positions(self) -> np.ndarray:
        """Position in the kernel of each entry, LOOP_TRIP for entries that are not instructions."""
        return np.asarray(self.program.positions, dtype=np.int64)

    @cached_property
    def entries_by_record(self) -> dict[Record, np.ndarray]:
        """Entries of each distinct cost, in order; without loop trips."""
        number: dict[Record, int] = {}
        codes = np.fromiter(
            (number.setdefault(r, len(number)) for r in self.program.records),
            dtype=np.int64,
            count=len(self.program.records),
        )
        order = np.argsort(codes, kind="stable")
        cuts = np.searchsorted(codes[order], np.arange(len(number) + 1))
        entries = {
            record: order[low:high]
            for record, low, high in zip(number, cuts[:-1], cuts[1:], strict=True)
        }
        return {r: e for r, e in entries.items() if self.positions[e[0]] != LOOP_TRIP}

    @cached_property
    def transfers(self) -> np.ndarray:
        """Entries that are transfers, in order."""
        return np.flatnonzero(self.trigger >= self.offset)
