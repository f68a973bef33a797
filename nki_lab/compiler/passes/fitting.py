"""Finds changes to one tile, or to the tiles of one line, that make a kernel fit.

Each is tried: the most bytes in use at one time are counted anew with the change, or the tiles are placed with it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from nki_lab.ir.program.lifetimes import Lifetime, Use, peak_of
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Storage
from nki_lab.source import Span
from nki_lab.targets.spaces import SBUF

# Tells whether everything has a place when these storages are taken for those of the same number.
Fits = Callable[[Mapping[int, Storage]], bool]
_BANKS_TRIED = 8
_LINES = 4  # looked at: those with the most bytes


def changes_that_fit(
    kernel: Kernel,
    lives: Mapping[int, Lifetime],
    used: Sequence[Storage],
    live: Sequence[Storage],
    moment: int,
    capacity: int,
) -> Iterator[str]:
    """Yield changes after which the tiles fit, those first that cost least.

    Args:
        kernel: the program.
        lives: the lifetimes to count, by id.
        used: every tile of the memory.
        live: those to change: some of the tiles in use at the worst moment, the largest first.
        moment: position of the instruction where most bytes are in use.
        capacity: bytes per partition.
    """
    uses = {s.id: [(s.row_bytes, *lives[s.id])] for s in used}
    if not kernel.has_loops:  # there a tile may be in use during all of a loop's body
        yield from _later_loads(kernel, uses, live, moment, capacity)
    if any(s.buffer is not SBUF for s in used):
        return  # PSUM tiles take whole banks, and sums in them are float32
    told: set[object] = set()
    for s in live:
        twins = [t for t in used if t.stack == s.stack and t.shape == s.shape]
        if s.stack and s.stack in told:
            continue
        told.add(s.stack)
        if s.dtype.is_float and s.dtype.itemsize == 4:
            halved = {t.id: [(-(-t.row_bytes // 2), *lives[t.id])] for t in twins}
            if _peak({**uses, **halved}) <= capacity:
                yield f"make {_tiles(s, twins)} bfloat16"
    for s in live:
        others = chain.from_iterable(
            uses_of_other for key, uses_of_other in uses.items() if key != s.id
        )
        room = capacity - sum(size for size, first, last in others if first <= moment <= last)
        elements = room // s.dtype.itemsize
        smaller = {s.id: [(elements * s.dtype.itemsize, *lives[s.id])]}
        if elements > 0 and _peak({**uses, **smaller}) <= capacity:
            now = s.row_bytes // s.dtype.itemsize
            yield f"give `{s.name}` at most {elements:,} elements per partition instead of {now:,}"


def changes_of_lines(
    kernel: Kernel, used: Sequence[Storage], live: Sequence[Storage], spare: int, fits: Fits
) -> Iterator[str]:
    """Yield changes to all tiles that a line makes, and to explicit addresses, after which everything has a place.

    Args:
        used: every tile of the memory.
        live: those in use at the worst moment.
        spare: bytes per partition that are left then; negative where some are missing.
    """
    placed = [s for s in live if s.address is not None]
    for chosen in (*([s] for s in placed[:_LINES]), placed):
        if chosen and fits({s.id: _with(s, address=None) for s in chosen}):
            names = ", ".join(f"`{s.name}`" for s in chosen)
            yield f"leave `address` of {names} out"
            break
    lines: dict[object, list[Storage]] = {}
    for s in live:
        lines.setdefault((s.stack, s.shape, s.dtype), []).append(s)
    for group in sorted(lines.values(), key=lambda g: -sum(s.row_bytes for s in g))[:_LINES]:
        first = group[0]
        if first.address is not None:
            continue
        twins = [
            t
            for t in used
            if (t.stack, t.shape, t.dtype) == (first.stack, first.shape, first.dtype)
        ]
        for size in _smaller(first, len(group), spare, kernel.target.psum_bank_bytes):
            if fits({t.id: _with(t, row_bytes=size) for t in twins}):
                width = first.dtype.itemsize
                yield (
                    f"give {_tiles(first, twins)} at most {size // width:,} elements per partition"
                    f" instead of {first.row_bytes // width:,}"
                )
                break


def _smaller(tile: Storage, count: int, spare: int, bank: int) -> Iterator[int]:
    """Yield sizes to try for `count` tiles like this one, the largest first."""
    width = tile.dtype.itemsize
    whole = range(min(tile.row_bytes // bank, _BANKS_TRIED), 0, -1)
    sizes = (*(n * bank for n in whole), bank // 2, bank // 4, bank // 8)
    if tile.buffer is SBUF:
        most = (tile.row_bytes + spare // count) // width * width
        sizes = (most, most * 7 // 8 // width * width)
    yield from (size for size in sizes if 0 < size < tile.row_bytes)


def _with(storage: Storage, **changes: object) -> Storage:
    changed = copy.copy(storage)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _later_loads(
    kernel: Kernel,
    uses: dict[int, list[Use]],
    live: Sequence[Storage],
    moment: int,
    capacity: int,
) -> Iterator[str]:
    """Yield tiles that nobody looks at for a while around the worst moment."""
    touched: dict[int, list[tuple[int, bool]]] = {s.id: [] for s in live}
    for n, i in enumerate(kernel.instructions):
        read = {v.storage.id for v in i.read()}
        for key in read | {v.storage.id for v in i.written()}:
            if key in touched:
                touched[key].append((n, key in read))
    for s in live:
        before = [use for use in touched[s.id] if use[0] <= moment]
        after = [use for use in touched[s.id] if use[0] > moment]
        if not before or not after or before[-1][0] == moment or not after[0][1]:
            continue
        first, last = before[-1][0], after[0][0]
        unread = not any(read for _, read in before)
        kept: list[Use] = [] if unread else [(s.row_bytes, before[0][0], first)]
        # Filling it again takes one more instruction just before the next use.
        kept.append((s.row_bytes, last, after[-1][0]))
        if _peak({**uses, s.id: kept}) > capacity:
            continue
        there = _line(kernel, last)
        if unread:
            yield f"fill `{s.name}` just before {there}, the first to read it"
        else:
            yield f"fill `{s.name}` anew before {there}: it is not used between {_line(kernel, first)} and there"


def _peak(uses: dict[int, list[Use]]) -> int:
    """Return the most bytes in use at one time."""
    return peak_of(chain.from_iterable(uses.values()))[0]


def _tiles(s: Storage, twins: Sequence[Storage]) -> str:
    return f"`{s.name}`" if len(twins) == 1 else f"the {len(twins)} tiles like `{s.name}`"


def _line(kernel: Kernel, n: int) -> str:
    i = kernel.instructions[n]
    return f"line {Span.of(i.stack[0]).line}" if i.stack else f"instruction {n}"
