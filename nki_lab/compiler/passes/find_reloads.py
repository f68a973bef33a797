"""Which loads bring in what SBUF still holds?

A load is reported where an equal one was made before and its tile is still there: nobody has written the tile, the
source, or the place of the tile since. Keeping that tile then takes no more memory than the kernel has in use anyway.
Loads that memory makes necessary, since another tile has taken the place, are not reported.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.passes.occupants import Occupants
from nki_lab.ir.footprint import footprint, overlap
from nki_lab.ir.instruction import Form, Instruction
from nki_lab.ir.nodes import Finding, Kernel
from nki_lab.ir.tensor import NkiTensor
from nki_lab.source import Span, Stack
from nki_lab.targets.engines import DMA
from nki_lab.targets.spaces import PSUM, SBUF

_Roles = tuple[bool, bool]


class _Copy(NamedTuple):
    """A load whose tile still holds what it brought."""

    i: Instruction
    loop: int
    source: NkiTensor
    tile: NkiTensor
    key: Hashable


class _Again(NamedTuple):
    """The loads of one line that were not needed."""

    first: _Copy
    times: int
    bytes: int


def find_reloads(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with a finding per line that loads what is there already: how often, how many bytes."""
    again: dict[Stack, _Again] = {}
    copies: dict[Hashable, _Copy] = {}
    by_storage: dict[int, list[_Copy]] = {}  # those that a write to the storage may end
    places = Occupants()
    placed: set[int] = set()
    changing = {v.storage.id for i in kernel.instructions for v in i.written()}

    def end(storage: int, view: NkiTensor | None = None) -> None:
        """Forget the copies that are not there, or not true, any more."""
        kept = []
        for copy in by_storage[storage]:
            of = copy.tile if copy.tile.storage.id == storage else copy.source
            if view is not None and not overlap(footprint(of), footprint(view)):
                kept.append(copy)
            elif copies.get(copy.key) is copy:
                del copies[copy.key]
        if kept:
            by_storage[storage] = kept
        else:
            del by_storage[storage]

    addresses = kernel.addresses or {}
    loops = kernel.loop_numbers
    alone = kernel.program[1] == 1
    roles: dict[Form, _Roles] = {}
    for n, i in enumerate(kernel.instructions):
        form = i.form
        is_load, matters = roles.get(form) or roles.setdefault(form, _roles(i))
        written = i.written() if matters else []
        for view in written:
            storage = view.storage
            if storage.id not in placed and storage.id in addresses:  # before that nobody reads it
                placed.add(storage.id)
                for other in places.replace(storage, addresses[storage.id]):
                    if other.id in by_storage:
                        end(other.id)
        known = None
        if is_load:
            (source,) = i.read()
            # The other core of a logical core may write what both share.
            is_load = alone or source.storage.origin != "temporary"
        if is_load:
            what = (form, source.storage.id, source.offset)
            known = copies.get(what)
            if known is not None and known.loop == loops[n]:
                size = source.size * source.dtype.itemsize
                seen = again.get(i.stack) or _Again(known, 0, 0)
                again[i.stack] = seen._replace(times=seen.times + 1, bytes=seen.bytes + size)
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
    found = [_finding(seen, stack) for stack, seen in again.items()]
    return kernel.with_(findings=(*kernel.findings, *found))


def _roles(i: Instruction) -> _Roles:
    """Return whether instructions like this one only fill a tile from HBM, and whether they write more than PSUM."""
    form = i.form
    read, written = i.read(), i.written()
    if all(view.buffer is PSUM for view in written):
        return False, False
    known_place = not (
        form.dynamic or form.registers or form.state or i.definition.waits_for_others
    )
    if form.engine is not DMA or not known_place or len(read) != 1 or len(written) != 1:
        return False, True
    return not read[0].storage.on_chip and written[0].buffer is SBUF, True


def _finding(seen: _Again, stack: Stack) -> Finding:
    first, times = seen.first, seen.times
    source = f"`{first.source.name}` {list(first.source.shape)}"
    how = "once more" if times == 1 else f"{times:,} times more"
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
