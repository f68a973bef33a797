"""Which changes to a single tile would make a kernel fit?

Each is tried: the most bytes in use at one time are counted anew with the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from nki_lab.ir.lifetimes import Use, peak_of
from nki_lab.ir.nodes import Kernel
from nki_lab.ir.storage import Storage
from nki_lab.source import Span
from nki_lab.targets.spaces import SBUF


def changes_that_fit(
    kernel: Kernel, used: Sequence[Storage], live: Sequence[Storage], moment: int, capacity: int
) -> Iterator[str]:
    """Yield changes after which the tiles fit, those first that cost least.

    Args:
        used: every tile of the memory.
        live: those to change: some of the tiles in use at the worst moment, the largest first.
        moment: position of the instruction where most bytes are in use.
        capacity: bytes per partition.
    """
    uses = {s.id: [(s.row_bytes, *kernel.lifetimes[s.id])] for s in used}
    if not kernel.has_loops:  # there a tile is in use during all of a loop's body
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
            halved = {t.id: [(-(-t.row_bytes // 2), *kernel.lifetimes[t.id])] for t in twins}
            if _peak({**uses, **halved}) <= capacity:
                yield f"make {_tiles(s, twins)} bfloat16"
    for s in live:
        others = chain.from_iterable(found for key, found in uses.items() if key != s.id)
        room = capacity - sum(size for size, first, last in others if first <= moment <= last)
        elements = room // s.dtype.itemsize
        smaller = {s.id: [(elements * s.dtype.itemsize, *kernel.lifetimes[s.id])]}
        if elements > 0 and _peak({**uses, **smaller}) <= capacity:
            now = s.row_bytes // s.dtype.itemsize
            yield f"give `{s.name}` at most {elements:,} elements per partition instead of {now:,}"


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
            yield f"fill `{s.name}` anew before {there}: nobody uses it between {_line(kernel, first)} and there"


def _peak(uses: dict[int, list[Use]]) -> int:
    """Return the most bytes in use at one time."""
    return peak_of(chain.from_iterable(uses.values()))[0]


def _tiles(s: Storage, twins: Sequence[Storage]) -> str:
    return f"`{s.name}`" if len(twins) == 1 else f"the {len(twins)} tiles like `{s.name}`"


def _line(kernel: Kernel, n: int) -> str:
    i = kernel.instructions[n]
    return f"line {Span.of(i.stack[0]).line}" if i.stack else f"instruction {n}"
