"""Finds loads of data that SBUF still holds.

A load is reported where an equal one was made before and its tile is still there: nobody has written the tile, the
source, or the place of the tile since. Keeping that tile then takes no more memory than the kernel has in use anyway.
Loads that memory makes necessary, since another tile has taken the place, are not reported.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.occupants import Occupants
from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.program.nodes import Finding, Kernel
from nki_lab.ir.tensor.footprint import footprint, overlap
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span, Stack
from nki_lab.targets.engines import DMA
from nki_lab.targets.spaces import PSUM, SBUF


class _Copy(NamedTuple):
    """A load whose tile still holds what it brought."""

    i: Instruction
    loop: int
    source: NkiTensor
    tile: NkiTensor
    key: Hashable


@dataclass
class _LoadsAgain:
    """The loads of one line that were not needed."""

    first: _Copy
    stack: Stack
    times: int = 0
    bytes: int = 0


@compiler_pass(skippable=True)
def find_reloads(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with a finding per line that loads what is there already: how often, how many bytes."""
    touches = kernel.touches
    again: dict[
        int, _LoadsAgain
    ] = {}  # by identity of the stack, which a trace has once: its hash is that of code
    copies: dict[Hashable, _Copy] = {}
    by_storage: dict[int, list[_Copy]] = {}  # those that a write to the storage may end
    places = Occupants()
    changing = set(touches.storage[touches.writes].tolist())

    def end(storage: int, view: NkiTensor | None = None) -> None:
        """Forget the copies that are not there, or not true, any more."""
        kept = []
        for copy in by_storage.pop(storage):
            of = copy.tile if copy.tile.storage.id == storage else copy.source
            if view is not None and not overlap(footprint(of), footprint(view)):
                kept.append(copy)
            elif copies.get(copy.key) is copy:
                del copies[copy.key]
        if kept:
            by_storage[storage] = kept

    addresses = kernel.addresses or {}
    loops = kernel.loop_numbers
    alone = kernel.program[1] == 1
    loads = {form: _is_load(form) for form in touches.forms}
    for n in np.flatnonzero(touches.per_form(_matters)).tolist():
        i = kernel.instructions[n]
        form = i.form
        written = i.written()
        for view in written:
            storage = view.storage
            if storage.id in addresses:
                for other in places.replace(storage, addresses[storage.id]):
                    if other is not storage and other.id in by_storage:
                        end(other.id)
        is_load = loads[form]
        if is_load:
            (source,) = i.read()
            # The other core of a logical core may write what both share.
            is_load = alone or source.storage.origin != "temporary"
        if is_load:
            what = (form, source.storage.id, source.offset)
            held = copies.get(what)
            if held is not None and held.loop == loops[n]:
                seen = again.get(id(i.stack)) or again.setdefault(
                    id(i.stack), _LoadsAgain(held, i.stack)
                )
                seen.times += 1
                seen.bytes += source.size * source.dtype.itemsize
        for view in written:
            if view.storage.id in by_storage:
                end(view.storage.id, view)
        if is_load:
            (tile,) = written
            copy = copies[what] = _Copy(i, loops[n], source, tile, what)
            by_storage.setdefault(tile.storage.id, []).append(copy)
            if source.storage.id in changing:
                by_storage.setdefault(source.storage.id, []).append(copy)
    if not again:
        return kernel
    return kernel.with_(findings=(*kernel.findings, *(_finding(seen) for seen in again.values())))


def _matters(form: Form) -> bool:
    """Tell whether instructions of a form write more than PSUM."""
    return not all(view.buffer is PSUM for view in form.example.written())


def _is_load(form: Form) -> bool:
    """Tell whether instructions of a form only fill a tile from HBM, both at places that are known."""
    if form.dynamic or form.registers or form.state or form.definition.waits_for_others:
        return False
    read, written = form.example.read(), form.example.written()
    if form.engine is not DMA or len(read) != 1 or len(written) != 1:
        return False
    return not read[0].storage.on_chip and written[0].buffer is SBUF


def _finding(seen: _LoadsAgain) -> Finding:
    first, times, stack = seen.first, seen.times, seen.stack
    source = f"`{first.source.name}` {list(first.source.shape)}"
    how = "again" if times == 1 else f"{times:,} times more"
    if first.i.stack == stack:
        where = "an earlier pass of this line"
        help = f"load it before the loop whose passes need the same part of `{first.source.name}`, and keep the tile"
    else:
        where = str(Span.of(first.i.stack[0])) if first.i.stack else "an earlier load"
        help = f"use `{first.tile.name}`, or load once into a tile that both places use"
    return Finding(
        "advice",
        f"{first.i.definition.name} loads {source} {how} although the tile of {where} still holds it:"
        f" {seen.bytes:,} bytes are moved for nothing",
        stack,
        help=help,
    )
