"""Reports the tiles that do not fit, where, and what would make them fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nki_lab.compiler.passes.fitting import Fits, changes_of_lines, changes_that_fit
from nki_lab.errors import OverCapacity
from nki_lab.ir.program.lifetimes import Lifetime, peak_of
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Storage
from nki_lab.source import Span
from nki_lab.targets.spaces import PSUM, MemoryRegion

_SHOWN = 10
_ADVICE = 3


def over_capacity(
    kernel: Kernel,
    space: MemoryRegion,
    capacity: int,
    lives: Mapping[int, Lifetime],
    fits: Fits,
) -> OverCapacity:
    """Return the error for the moment that needs the most bytes.

    Its notes list the largest tiles in use there with bytes, lines and lifetimes; its help names changes to one tile
    each after which the kernel fits, or else to all tiles of a line, if there are any.

    Args:
        kernel: the program.
        space: the memory.
        capacity: bytes per partition.
        lives: the lifetimes to count, by id.
        fits: places changed tiles.
    """
    used = [kernel.storages[k] for k in lives if kernel.storages[k].buffer is space]
    peak, moment = peak_of((s.row_bytes, *lives[s.id]) for s in used)
    live = [s for s in used if lives[s.id].first <= moment <= lives[s.id].last]
    live.sort(key=lambda s: (-s.row_bytes, s.id))
    alike: dict[object, list[Storage]] = {}
    for s in live:
        alike.setdefault((s.stack, s.shape, s.dtype) if s.stack else s.id, []).append(s)
    groups = list(alike.values())
    notes = [_described_group(kernel, group) for group in groups[:_SHOWN]]
    rest = [s for group in groups[_SHOWN:] for s in group]
    if rest:
        size = sum(s.row_bytes for s in rest)
        notes.append(f"and {len(rest)} more tiles: {size:,} bytes per partition")
    excess = peak - capacity
    how = f"{excess:,} too many" if excess > 0 else "they fit in sum, but not side by side"
    advice = (
        [*changes_that_fit(kernel, lives, used, live[:_SHOWN], moment, capacity)]
        if excess > 0
        else []
    )
    if not advice:
        advice = [*changes_of_lines(kernel, used, live, capacity - peak, fits)]
    if space is PSUM:
        bank, banks = kernel.target.psum_bank_bytes, kernel.target.psum_banks
        notes.append(
            f"psum has {banks} banks of {bank:,} bytes: a tile takes whole ones, or shares one if it has at most"
            f" {bank // 2:,} bytes"
        )
    general = (
        "make tiles smaller, use a narrower dtype, or store a tile before you load the next one"
    )
    together = f"the {len(live)} tiles in use at the same time need"
    need = together if len(live) > 1 else "one tile needs"
    return OverCapacity(
        f"{space.name} of {kernel.target.name} holds {capacity:,} bytes per partition; {need} {peak:,}:"
        f" {how}",
        stack=kernel.instructions[moment].stack,
        notes=notes,
        help=f"it fits with one of these: {'; '.join(advice[:_ADVICE])}" if advice else general,
    )


def _described_group(kernel: Kernel, tiles: Sequence[Storage]) -> str:
    """Return a tile, and how many others of the same line are like it."""
    text = _described(kernel, tiles[0])
    if len(tiles) == 1:
        return text
    size = sum(s.row_bytes for s in tiles)
    return f"{text}, and {len(tiles) - 1} more like it: {size:,} bytes per partition in all"


def _described(kernel: Kernel, s: Storage) -> str:
    """Return a tile with its bytes, the line that makes it, and the lines of its first and last use."""
    text = f"`{s.name}` {list(s.shape)} {s.dtype}: {s.row_bytes:,} bytes per partition"
    if not s.stack:
        return text
    created = Span.of(s.stack[0])
    places = [kernel.instructions[n].stack for n in kernel.lifetimes[s.id]]
    if not all(places):
        return f"{text}, {created}"
    first, last = (Span.of(stack[0]) for stack in places)
    lines = [
        f"line {span.line}" if span.filename == created.filename else str(span)
        for span in (first, last)
    ]
    lived = (
        f"in use at {lines[0]}" if lines[0] == lines[1] else f"in use from {lines[0]} to {lines[1]}"
    )
    return f"{text}, {created}, {lived}"
