"""The two cores of a logical core (LNC2): which instructions belong together, and how a race is reported.

A compiler pass finds races where addresses are fixed, the simulator where values of the device decide; both use this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Finding
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span, Stack
from nki_lab.targets.spaces import SHARED_HBM

#: How the message of a race begins; other hazards begin otherwise.
RACE = "race: "
#: How the message about an access that nothing decides on begins.
UNCHECKED = "not checked for races: "
_RUNS_SHOWN = 6

#: Where the two accesses of a race stand: in the program of core 0, and in that of core 1.
Places = tuple[Stack, Stack]


class Use(NamedTuple):
    """What an instruction of one core does with a tensor that both cores share."""

    i: Instruction
    view: NkiTensor
    written: bool

    def describe(self) -> str:
        """Return how messages call it."""
        way = "writes" if self.written else "reads"
        where = f" at {Span.of(self.i.stack[0])}" if self.i.stack else ""
        return f"{way} {self.view.describe()}{where}"


class Watched(NamedTuple):
    """A shared tensor of which only a run can tell whether the cores race on it.

    Attributes:
        storages: as core 0 and core 1 have it.
        told: races on it that the compiler has reported.
        reasons: uses that it could not decide on, with their core and why.
    """

    storages: tuple[Storage, Storage]
    told: frozenset[Places]
    reasons: tuple[tuple[int, Use, str], ...]

    def findings(self) -> Iterator[Finding]:
        """Yield what is said of it where the kernel is not run, once per place."""
        places = {(core, use.i.stack): (core, use, why) for core, use, why in self.reasons[::-1]}
        for reason in reversed(places.values()):
            yield unchecked(*reason)


def race(first: Use, second: Use, rows: str) -> Finding:
    """Return the finding on a use by core 0 and one by core 1; `rows` says which rows both touch."""
    both = f"; both touch {rows}" if rows else ""
    return Finding(
        "hazard",
        f"{RACE}core 0 {first.describe()} while core 1 {second.describe()}: nothing orders them{both}",
        first.i.stack,
        help="let each core write a different part, chosen by nl.program_id(0), or put"
        " nisa.core_barrier(data=tensor, cores=(0, 1)) between them on both cores, with this tensor as its data",
        code="",
    )


def unchecked(core: int, use: Use, reason: str) -> Finding:
    """Return what is said of a use that is decided only when the kernel runs, where it has not been run."""
    where = f"{Span.of(use.i.stack[0])}" if use.i.stack else use.i.definition.name
    way = "writes" if use.written else "reads"
    return Finding(
        "unchecked",
        f"{UNCHECKED}{where}, {reason}: core {core} {way} {use.view.describe()} there",
        use.i.stack,
        help="run the kernel: a run compares which bytes each core touches",
    )


def rows_text(storage: Storage, marks: np.ndarray) -> str:
    """Return which rows of a tensor have marks; `marks` are flat, the same number for each element."""
    rows = np.flatnonzero(marks.reshape(storage.shape[0] if storage.shape else 1, -1).any(axis=1))
    runs = _runs(rows.tolist())
    shown = [str(a) if a == b else f"{a} to {b}" for a, b in runs[:_RUNS_SHOWN]]
    rest = sum(b - a + 1 for a, b in runs[_RUNS_SHOWN:])
    more = f" and {rest:,} more" if rest else ""
    return f"row{'s' * (len(rows) > 1)} {', '.join(shown)}{more} of `{storage.name}`"


def _runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of numbers that follow each other."""
    starts = [b for a, b in pairwise([-2, *rows]) if b != a + 1]
    ends = [a for a, b in pairwise([*rows, -2]) if b != a + 1]
    return list(zip(starts, ends, strict=True))


def pipe_of(i: Instruction) -> Hashable:
    """Return what groups meetings that belong together, or None."""
    return i.pipe_id if "pipe_id" in i.definition.position else None


def may_pass(i: Instruction) -> bool:
    """Tell whether a core goes on to meetings of another pipe while it waits in this one."""
    return "send_to_rank" in i.definition.position


def meets_itself(i: Instruction, core: int) -> bool:
    """Tell whether a core sends to itself, so that it waits for nobody."""
    return may_pass(i) and i.send_to_rank == i.recv_from_rank == core


def joins_cores(i: Instruction) -> bool:
    """Tell whether both cores of a rank take part in a collective as one, since its memory is shared."""
    views = (view for _, _, view in i.definition.tensors(i))
    return i.definition.groups is not None and any(view.buffer is SHARED_HBM for view in views)


def ordered_by(i: Instruction) -> list[Storage]:
    """Return the tensors in HBM whose uses by the two cores an instruction orders.

    A core must have done with them what stands before it, on both cores, before either does what stands behind it. A
    barrier orders its `data` only, a collective of both cores its tensors; sendrecv moves tiles, so it orders none.
    """
    if not (i.definition.meets or joins_cores(i)):
        return []
    storages = {v.storage.id: v.storage for _, _, v in i.definition.tensors(i)}
    return [s for s in storages.values() if not s.on_chip]
