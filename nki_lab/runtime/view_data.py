"""Turns a run into the plain data that views show.

Views know neither the compiler nor the IR (see `nki_lab.views.run`); this is where a
compiled program is put into their words.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from math import prod

import numpy as np

from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.stored_source import StoredSource
from nki_lab.errors import NkiError
from nki_lab.ir.program.nodes import Finding, Kernel
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.footprint import footprint
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import view_text
from nki_lab.ir.text.printer import print_instruction, print_lines
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.view_operands import accesses, operand_views, products
from nki_lab.simulator.places import places_of
from nki_lab.source import Span, Stack
from nki_lab.views.run import (
    CodeLine,
    Held,
    Listing,
    Made,
    NoSteps,
    Operation,
    Place,
    ProgramStage,
    Remark,
    Slice,
    Steps,
    Tensor,
    ViewData,
)


def make_view_data(
    compiled: CompiledKernel,
    profile: Profile,
    findings: Sequence[Finding],
    make_steps: Callable[[], Steps] = NoSteps,
    inputs: Sequence[np.ndarray] = (),
    outputs: Sequence[np.ndarray] = (),
    grid: Sequence[int] = (),
) -> ViewData:
    """Describe a compiled kernel, its timeline, what was found and what it computed for the views."""
    program = _Described(compiled.kernel)
    kernel = compiled.kernel
    values = RunValues(kernel, inputs, outputs, make_steps)
    return ViewData(
        name=kernel.name,
        profile=profile,
        # Where several cores share a launch, each runs one program.
        grid=tuple(grid) if prod(grid) > 1 == kernel.program[1] else (),
        operations=Made(len(kernel.instructions), program.operation),
        stages=tuple(program.stages(compiled.stages)),
        tensors=Made(len(kernel.storages), program.tensor),
        slices=program.slices,
        make_names=lambda: [i.definition.name for i in kernel.instructions],
        make_lines=program.line_numbers,
        findings=tuple(map(program.remark, findings)),
        make_steps=make_steps,
        accesses=lambda position: accesses(kernel.instructions[position]),
        held=values.held,
        places=values.places,
        make_listings=lambda: listings(kernel, compiled.source),
        find_products=lambda: products(kernel),
    )


#: What of a program its text shows and a pass may change.
_SHOWN = (
    "storages",
    "body",
    "outputs",
    "addresses",
    "overlaps",
    "poisoned",
    "tracked",
    "placed",
    "waits",
    "findings",
)


def place_finder(kernel: Kernel) -> Callable[[Stack], Place | None]:
    """Return what gives the line of the author's text that a stack of a kernel's program begins with."""
    return _Described(kernel).place


def remarks_on(kernel: Kernel, findings: Sequence[Finding]) -> tuple[Remark, ...]:
    """Return findings about a kernel's program as they are shown."""
    return tuple(map(_Described(kernel).remark, findings))


class _Described:
    """Turns the parts of one program into plain data; a line of the author is looked up once."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._places: dict[object, Place] = {}
        self._outputs = {t.storage.id for t in kernel.outputs}

    def place(self, stack: Stack) -> Place | None:
        if not stack:
            return None
        place = self._places.get(stack[0])
        if place is None:
            span = Span.of(stack[0])
            place = self._places[stack[0]] = Place(str(span), span.heading(), span.text, span.line)
        return place

    def operation(self, position: int) -> Operation:
        i = self._kernel.instructions[position]
        text = print_instruction(i, comments=False)
        return Operation(i.definition.name, i.form.engine.name, text, self.place(i.stack))

    def line_numbers(self) -> tuple[np.ndarray, list[Place]]:
        number: dict[int, int] = {}
        places: dict[Place, int] = {}
        codes = []
        for i in self._kernel.instructions:
            # One object stands for equal stacks, so that identity is enough (and much cheaper).
            code = number.get(id(i.stack))
            if code is None:
                place = self.place(i.stack)
                code = -1 if place is None else places.setdefault(place, len(places))
                number[id(i.stack)] = code
            codes.append(code)
        return np.array(codes, dtype=np.int64), list(places)

    def stages(self, recorded: Sequence[tuple[str, Kernel]]) -> Iterator[ProgramStage]:
        before: Kernel | None = None
        for name, kernel in recorded:
            changed = before is None or any(
                getattr(before, part) != getattr(kernel, part) for part in _SHOWN
            )
            yield ProgramStage(name, partial(self.lines, kernel), changed)
            before = kernel

    def lines(self, kernel: Kernel) -> list[CodeLine]:
        instructions = kernel.instructions
        return [
            CodeLine(
                line.text,
                self.place(line.stack),
                line.position,
                "" if line.position is None else instructions[line.position].form.engine.name,
            )
            for line in print_lines(kernel)
        ]

    def remark(self, finding: Finding) -> Remark:
        excerpt: list[str] = []
        if finding.stack:
            span = Span.of(finding.stack[0])
            excerpt = (span.narrowed(finding.blame) if finding.blame else span).excerpt()
        return Remark(
            finding.kind,
            finding.message,
            finding.help,
            self.place(finding.stack),
            finding.is_serious,
            tuple(excerpt),
        )

    def tensor(self, number: int) -> Tensor:
        kernel = self._kernel
        storage = kernel.storages[number]
        address = (kernel.addresses or {}).get(storage.id)
        life = kernel.lifetimes.get(storage.id)
        given = storage.id in kernel.handed_over
        origin = storage.origin
        if storage.id in self._outputs and origin == "temporary":
            origin = "output"
        return Tensor(
            name=storage.name,
            memory=storage.buffer.name,
            shape=storage.shape,
            dtype=str(storage.dtype),
            itemsize=storage.dtype.itemsize,
            origin=origin,
            on_chip=storage.on_chip,
            address=None if address is None else (address.partition, address.byte),
            lifetime=None if life is None else (life.first, life.last - given),
            place=self.place(storage.stack),
        )

    def slices(self, number: int) -> Sequence[Slice]:
        slices = self._touched.get(self._kernel.storages[number].id, {})
        return [_slice(view, *touched) for view, touched in slices.values()]

    @cached_property
    def _touched(self) -> dict[int, dict[object, tuple[NkiTensor, tuple[list[int], list[int]]]]]:
        """Per storage, every different view of it, with the positions that read and write it."""
        touched: dict[int, dict[object, tuple[NkiTensor, tuple[list[int], list[int]]]]] = {}
        for position, i in enumerate(self._kernel.instructions):
            for way, views in enumerate((i.read(), i.written())):
                for view in views:
                    key = (view.shape, view.strides, view.offset, view.dtype, view.dynamic)
                    entry = touched.setdefault(view.storage.id, {}).get(key)
                    if entry is None:
                        entry = touched[view.storage.id][key] = (view, ([], []))
                    positions = entry[1][way]
                    if not positions or positions[-1] != position:
                        positions.append(position)
        return touched


def _slice(view: NkiTensor, readers: list[int], writers: list[int]) -> Slice:
    shape, strides, offset = view.shape, view.strides, view.offset
    if view.dynamic is not None:
        reach = footprint(view)
        row = reach.pitch // view.dtype.itemsize
        shape, strides = (reach.end_row - reach.first_row, row), (row, 1)
        offset = reach.first_row * row
    return Slice(
        text=view_text(view),
        shape=shape,
        strides=strides,
        offset=offset,
        itemsize=view.dtype.itemsize,
        readers=readers,
        writers=writers,
        dynamic=view.dynamic is not None,
    )


# -- lines of the author's text ---------------------------------------------------------------------------------------

#: Functions of one file stand in one listing when so few lines lie between them.
_GAP = 6


def listings(kernel: Kernel, source: SourceKernel | StoredSource) -> list[Listing]:
    """Return the text of the kernel and of every function it called, the kernel's first; what is lost is left out."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    length = max(1, len(source.text.splitlines()))
    whole = (source.first_line, source.first_line + length - 1)
    ranges[source.filename] = [whole]
    for filename, first, last in _functions(kernel):
        ranges.setdefault(filename, []).append((first, last))
    listed = []
    for filename, parts in ranges.items():
        for first, last in _joined(parts):
            lines = [linecache.getline(filename, n).rstrip("\n") for n in range(first, last + 1)]
            if filename == source.filename and first == whole[0] and not any(lines):
                lines = source.text.splitlines()
            span = Span(filename, first)
            if any(line.strip() for line in lines):
                heading = span.heading().rpartition(", line ")[0]
                listed.append(Listing(span.file_label, heading, first, tuple(lines)))
    return listed


def _functions(kernel: Kernel) -> Iterator[tuple[str, int, int]]:
    """Yield file, first and last line of everything that stands in the stack of an instruction or tensor."""
    seen: set[object] = set()
    stacks: list[Stack] = [i.stack for i in kernel.instructions] + [
        s.stack for s in kernel.storages
    ]
    for stack in {id(s): s for s in stacks}.values():
        for place in stack:
            if isinstance(place, Span):
                key: object = (place.filename, place.line)
                entry = (place.filename, place.line, place.end_line or place.line)
            else:
                key = id(place[0])
                lines = [line for _, _, line in place[0].co_lines() if line]
                first = place[0].co_firstlineno
                entry = (place[0].co_filename, first, max(lines, default=first))
            if key not in seen:
                seen.add(key)
                yield entry


def _joined(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    head = parts[0]
    for first, last in sorted(parts):
        if joined and first <= joined[-1][1] + _GAP:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return sorted(joined, key=lambda part: (not part[0] <= head[0] <= part[1], part))


# -- values of tensors ------------------------------------------------------------------------------------------------
# A run keeps what it was given and what came out. Everything in between is computed again, by the run's steps.

#: Programs up to this size are computed again to look into their tiles.
REPLAYED_INSTRUCTIONS = 20_000


class RunValues:
    """The values of one run.

    Args:
        kernel: the program.
        inputs, outputs: its arrays; what the caller changes in them is seen.
        steps: gives the run instruction by instruction.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        steps: Callable[[], Steps],
    ) -> None:
        self._kernel = kernel
        self._steps = steps
        self._ends: dict[int, np.ndarray] = {}
        if len(kernel.inputs) == len(inputs):
            self._ends = {s.id: a for s, a in zip(kernel.inputs, inputs, strict=True)}
        for view, array in zip(kernel.outputs, outputs, strict=False):
            storage = view.storage
            if view.shape == storage.shape and view.dtype is storage.dtype and not view.offset:
                self._ends[storage.id] = array

    def held(self, number: int, position: int | None, after: bool) -> Held:
        """Return what a tensor holds at the end of the run, or before or after an instruction."""
        storage = self._kernel.storages[number]
        if position is None:
            return self._at_the_end(storage)
        return self._around(storage, position, after, last=False)

    def places(self, position: int, k: int) -> np.ndarray | None:
        """Return the elements behind operand `k` of an instruction whose address the device computes.

        An index that is out of range gives -1. In a loop they are those of the first pass.
        """
        i = self._kernel.instructions[position]
        views = operand_views(i)
        steps, runs = self._runs(position)
        if not 0 <= k < len(views) or steps is None or not len(runs):
            return None
        view = views[k][3]
        dynamic = view.dynamic
        if dynamic is None:
            return None
        step = steps.at(int(runs[0]))
        if isinstance(dynamic.index, NkiTensor):
            array = steps.values(step.number, dynamic.index.storage.id)
            if array is None:
                return None
            held = array.reshape(-1)[pattern(dynamic.index, dynamic.index.offset)]
        elif dynamic.index.name in step.registers:
            held = np.array([step.registers[dynamic.index.name]])
        else:
            return None
        if dynamic.kind is Addressing.SCALAR:
            return pattern(view, view.offset + int(held.reshape(-1)[0]) * dynamic.step)
        try:
            places = places_of(i, view, held)
        except NkiError:
            return None
        elements = pattern(places.window, places.window.offset)[places.at]
        valid = places.valid.reshape(
            *places.valid.shape, *(1,) * (elements.ndim - places.valid.ndim)
        )
        return np.where(valid, elements, -1)

    def _around(self, storage: Storage, position: int, after: bool, last: bool) -> Held:
        steps, runs = self._runs(position)
        if steps is None or steps.problem:
            return Held(None, steps.problem if steps is not None else self._too_long())
        when = f"{'after' if after else 'before'} instruction {position}"
        if not len(runs):
            return Held(None, f"instruction {position} did not run")
        if len(runs) > 1:
            when += f", in the {'last' if last else 'first'} of its {len(runs):,} passes"
        values = steps.values(int(runs[-1 if last else 0]) + after, storage.id)
        if values is None:
            return Held(None, f"{storage.name} holds nothing {when}")
        return Held(values, f"{when}, computed again")

    def _runs(self, position: int) -> tuple[Steps | None, np.ndarray]:
        """Return the steps of the run, and which of them execute an instruction; None where there are too many."""
        if len(self._kernel.instructions) > REPLAYED_INSTRUCTIONS:
            return None, np.zeros(0, dtype=np.int64)
        steps = self._steps()
        return steps, np.flatnonzero(steps.order == position)

    def _too_long(self) -> str:
        return f"the program has more than {REPLAYED_INSTRUCTIONS:,} instructions, which are not computed again"

    def _at_the_end(self, storage: Storage) -> Held:
        array = self._ends.get(storage.id)
        if array is not None:
            what = "the argument" if storage.origin == "input" else "the result"
            return Held(array, f"{what}, as it is now")
        if storage.data is not None:
            return Held(storage.data, "the constant")
        life = self._kernel.lifetimes.get(storage.id)
        if life is None:
            return Held(None, "no instruction touches it")
        return self._around(storage, life.last, after=True, last=True)


def pattern(view: NkiTensor, start: int) -> np.ndarray:
    """Return the number of every element of a view within its storage, as if it began at element `start`."""
    numbers = np.full(view.shape, start, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        shape = [1] * view.ndim
        shape[axis] = size
        numbers += (np.arange(size, dtype=np.int64) * stride).reshape(shape)
    return numbers
