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
from nki_lab.ir.instruction import Instruction
from nki_lab.ir.nodes import Finding, Kernel
from nki_lab.ir.tensor import NkiTensor
from nki_lab.source import Span, Stack
from nki_lab.targets.engines import DMA
from nki_lab.targets.spaces import SBUF


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

    def end(storage: int, view: NkiTensor | None = None) -> None:
        """Forget the copies that are not there, or not true, any more."""
        kept = []
        for copy in by_storage.get(storage, ()):
            of = copy.tile if copy.tile.storage.id == storage else copy.source
            if view is not None and not overlap(footprint(of), footprint(view)):
                kept.append(copy)
            elif copies.get(copy.key) is copy:
                del copies[copy.key]
        by_storage[storage] = kept

    addresses = kernel.addresses or {}
    loops = kernel.loop_numbers
    for n, i in enumerate(kernel.instructions):
        for view in (*i.read(), *i.written()):
            storage = view.storage
            if storage.buffer is SBUF and storage.id not in placed and storage.id in addresses:
                placed.add(storage.id)
                for other in places.replace(storage, addresses[storage.id]):
                    end(other.id)
        load = _load(kernel, i)
        if load is not None:
            source, tile = load
            key = (i.form, source.storage.id, source.offset)
            known = copies.get(key)
            if known is not None and known.loop == loops[n]:
                size = tile.size * source.dtype.itemsize
                seen = again.get(i.stack) or _Again(known, 0, 0)
                again[i.stack] = seen._replace(times=seen.times + 1, bytes=seen.bytes + size)
        for view in i.written():
            end(view.storage.id, view)
        if load is not None:
            copy = _Copy(i, loops[n], source, tile, key)
            copies[key] = copy
            for view in load:
                by_storage.setdefault(view.storage.id, []).append(copy)
    if not again:
        return kernel
    found = [_finding(seen, stack) for stack, seen in again.items()]
    return kernel.with_(findings=(*kernel.findings, *found))


def _load(kernel: Kernel, i: Instruction) -> tuple[NkiTensor, NkiTensor] | None:
    """Return source and tile of an instruction that only fills a tile from HBM, at addresses that are known."""
    form = i.form
    if form.engine is not DMA or form.dynamic or form.registers or form.state:
        return None
    read, written = i.read(), i.written()
    if len(read) != 1 or len(written) != 1 or i.definition.waits_for_others:
        return None
    (source,), (tile,) = read, written
    # The other core of a logical core may write what both share.
    shared = kernel.program[1] > 1 and source.storage.origin == "temporary"
    if source.storage.on_chip or tile.buffer is not SBUF or shared:
        return None
    return source, tile


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
