"""Finds places that several trips of a parallel loop, or several programs of a grid, write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nki_lab.beta1.overlap import Place, overlaps
from nki_lab.errors.beta1 import OutputDependency, older
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span

Writes = dict[Place, Instruction]


class Trips:
    """What the trips of one loop write; loops around it get it from here, so each instruction is looked at once."""

    def __init__(self, program: Any, builder: Builder, parallel: bool) -> None:
        self._open: list[Trips] = program.open
        self._builder, self._parallel = builder, parallel
        self._older = len(builder.storages)
        self._earlier: Writes = {}
        self._now: Writes = {}
        #: Places that several trips have written: how many, and the latest instruction.
        self._again: dict[Place, tuple[int, Instruction]] = {}
        #: The places of all trips, each with the first trip that writes it.
        self._owned: dict[Place, int] = {}
        self._count = 0
        self._mark = 0

    def begin(self) -> None:
        """Begin a trip."""
        open_loops = self._open
        if not open_loops or open_loops[-1] is not self:
            if not (self._parallel or any(loop._parallel for loop in open_loops)):
                return
            if open_loops:
                open_loops[-1]._look()
            open_loops.append(self)
        self._mark = len(self._builder.body)

    def end(self) -> None:
        """End a trip, and note which places outside the loop an earlier trip has written, too."""
        if not self._open or self._open[-1] is not self:
            return
        self._look()
        self._count += 1
        if self._parallel:
            for place, i in self._now.items():
                self._owned.setdefault(place, self._count)
                if place in self._earlier:
                    self._again[place] = self._again.get(place, (1, i))[0] + 1, i
        self._earlier.update(self._now)
        self._now = {}

    def close(self, loop: str) -> None:
        """Tell what several trips have written, and give what the loop has written to the one around it.

        Where every trip writes a place, its index leaves out the loop variable: an error. Where some trips do, as with
        t[i % 2], program order decides its value, which the old compiler did not promise: a finding.
        """
        if self not in self._open:
            return
        every = [i for trips, i in self._again.values() if trips == self._count]
        if every:
            self._builder.errors.append(_error(loop, every[0]))
        elif self._again:
            trips, i = next(iter(self._again.values()))
            _tell(
                self._builder,
                i,
                f"{trips} of the {self._count} trips of {loop}",
                "the same elements",
            )
        else:
            for (place, trip), (_, other) in overlaps(self._owned.items()):
                pair = f"trips {other - 1} and {trip - 1} of {loop}"
                _tell(self._builder, self._earlier[place], pair, "parts", " that overlap")
        while self._open.pop() is not self:  # a loop inside that was left
            pass
        if self._open:
            outer = self._open[-1]
            outer._mark = len(self._builder.body)
            older = outer._older
            outer._now.update((p, i) for p, i in self._earlier.items() if p.storage < older)

    def _look(self) -> None:
        """Take what was emitted since the last look; what a tile of indices chooses is only known at run time."""
        older, body = self._older, self._builder.body
        for i in body[self._mark :]:
            if type(i) is not Instruction or i.form.broken:
                continue
            for k in i.form.writes:
                value = i.args[k]
                for view in value if type(value) is tuple else (value,):
                    if view.storage.id < older and view.dynamic is None and not _adds(i, view):
                        self._now[Place.of(view)] = i
        self._mark = len(body)


def _adds(i: Instruction, view: NkiTensor) -> bool:
    """Tell whether an instruction reads the place that it writes, as sums do."""
    storage, offset, shape, strides = view.storage, view.offset, view.shape, view.strides
    for read in i.read():
        if (
            read.storage is storage
            and read.offset == offset
            and read.shape == shape
            and read.strides == strides
        ):
            return True
    return False


def _error(loop: str, i: Instruction) -> OutputDependency:
    (view,) = i.written()[:1]
    return OutputDependency(
        f"trips of {loop} write the same elements of {view.describe()}, and do not depend on each other",
        stack=i.stack,
        notes=[older("err_unexpected_output_dependencies")],
        help="index the tensor with the loop variable, make it inside the loop, or use nl.sequential_range",
    )


def _tell(builder: Builder, i: Instruction, trips: str, what: str, overlap: str = "") -> None:
    """Tell that trips write into a tensor what program order decides."""
    (view,) = i.written()[:1]
    builder.find(
        "hazard",
        f"{trips} write {what} of {view.describe()}{overlap}: here one trip follows the other, but the old compiler"
        " could run them in any order",
        "use nl.sequential_range, or give each trip its own elements",
        stack=i.stack,
    )


_APART = "give each program its own part, or compute what several need in another kernel"


class Programs:
    """What the programs of a launch read and write of tensors in HBM that were there before them.

    The old compiler ran programs in any order, also at the same time. Here one follows the other, so what one reads
    and another writes depends on the order: that is told once for each pair of lines, and of parts that overlap without
    being the same once for each tensor. What a tile of indices chooses is only known at run time, and not compared.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._written: dict[Place, tuple[Instruction, tuple[int, ...]]] = {}
        self._read: dict[Place, tuple[Instruction, tuple[int, ...]]] = {}
        self._told: set[tuple[int, int, str, str]] = set()
        self._shared = {s.id for s in builder.storages}
        #: The programs so far; what each writes and reads, by place and number of the program.
        self._programs: list[tuple[int, ...]] = []
        self._writes: dict[tuple[Place, int], Instruction] = {}
        self._reads: dict[tuple[Place, int], Instruction] = {}

    def share(self, tensors: Iterable[Any]) -> None:
        """Take tensors that all programs have."""
        self._shared.update(tile.base.storage.id for tile in tensors)

    def end(self, program: tuple[int, ...], body: Iterable[Any]) -> None:
        """Compare what a program has emitted with the programs before it."""
        number = len(self._programs)
        self._programs.append(program)
        for i in body:
            if type(i) is not Instruction or i.form.broken:
                continue
            for view in i.read():
                if view.storage.id in self._shared and view.dynamic is None:
                    self._reads[Place.of(view), number] = i
                    self._compare(i, view, program, self._written, "writes", "reads")
                    self._read.setdefault(Place.of(view), (i, program))
            for view in i.written():
                if view.storage.id in self._shared and view.dynamic is None:
                    self._writes[Place.of(view), number] = i
                    self._compare(i, view, program, self._written, "writes", "writes")
                    self._compare(i, view, program, self._read, "reads", "writes")
                    self._written[Place.of(view)] = (i, program)

    def close(self) -> None:
        """Compare parts that overlap without being the same, when all programs have ended."""
        for later, earlier in overlaps(self._writes, self._reads):
            verb = "writes" if later in self._writes else "reads"
            i, other = (self._writes | self._reads)[later], self._writes[earlier]
            name = next(
                v.name for v in (*i.written(), *i.read()) if v.storage.id == later[0].storage
            )
            self._builder.find(
                "hazard",
                f"program {list(self._programs[later[1]])} {verb} a part of `{name}` that overlaps the one that program"
                f" {list(self._programs[earlier[1]])} writes at {Span.of(other.stack[0])}: the programs of a grid run"
                " in any order",
                _APART,
                stack=i.stack,
            )

    def _compare(
        self,
        i: Instruction,
        view: NkiTensor,
        program: tuple[int, ...],
        before: dict[Place, tuple[Instruction, tuple[int, ...]]],
        earlier: str,
        later: str,
    ) -> None:
        other, at = before.get(Place.of(view), (i, program))
        pair = id(i.stack), id(other.stack), later, earlier
        if at != program and pair not in self._told:
            self._told.add(pair)
            self._builder.find(
                "hazard",
                f"program {list(program)} {later} the part of `{view.name}` that program {list(at)} {earlier} at"
                f" {Span.of(other.stack[0])}: the programs of a grid run in any order",
                _APART,
                stack=i.stack,
            )
