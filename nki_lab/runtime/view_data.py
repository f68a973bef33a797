"""Turns a run into the plain data that views show.

Views know neither the compiler nor the IR (see `nki_lab.views.run`); this is where a
compiled program is put into their words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from nki_lab.compiler.program import CompiledKernel
from nki_lab.ir.program.nodes import Finding, Kernel
from nki_lab.ir.tensor.footprint import footprint
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import view_text
from nki_lab.ir.text.printer import print_instruction, print_lines
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.view_listings import listings
from nki_lab.runtime.view_operands import accesses, products
from nki_lab.runtime.view_values import RunValues
from nki_lab.source import Span, Stack
from nki_lab.views.run import (
    CodeLine,
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
) -> ViewData:
    """Describe a compiled kernel, its timeline, what was found and what it computed for the views."""
    program = _Described(compiled.kernel)
    kernel = compiled.kernel
    values = RunValues(kernel, inputs, outputs, make_steps)
    return ViewData(
        name=kernel.name,
        profile=profile,
        operations=Made(len(kernel.instructions), program.operation),
        stages=tuple(program.stages(compiled.stages)),
        tensors=Made(len(kernel.storages), program.tensor),
        slices=program.slices,
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
