"""What does not fit, and where?"""

from __future__ import annotations

from nki_lab.errors import OverCapacity
from nki_lab.ir.nodes import Kernel
from nki_lab.source import Span
from nki_lab.targets.spaces import MemoryRegion

_SHOWN = 10


def over_capacity(kernel: Kernel, space: MemoryRegion, capacity: int) -> OverCapacity:
    """Return the error for the moment that needs the most bytes: its largest tiles, with bytes and lines."""
    lives = kernel.lifetimes
    used = [kernel.storages[k] for k in lives if kernel.storages[k].buffer is space]
    changes: dict[int, list[tuple[int, int]]] = {}
    for s in used:
        changes.setdefault(2 * lives[s.id].first, []).append((s.id, s.row_bytes))
        changes.setdefault(2 * lives[s.id].last + 1, []).append((s.id, -s.row_bytes))
    now = peak = peak_at = 0
    for at in sorted(changes):
        now += sum(change for _, change in changes[at])
        if now > peak:
            peak, peak_at = now, at
    moment = peak_at // 2
    live = [s for s in used if lives[s.id].first <= moment <= lives[s.id].last]
    live.sort(key=lambda s: (-s.row_bytes, s.id))
    notes = [
        f"`{s.name}` {list(s.shape)} {s.dtype}: {s.row_bytes:,} bytes per partition"
        + (f", {Span.of(s.stack[0])}" if s.stack else "")
        for s in live[:_SHOWN]
    ]
    if len(live) > _SHOWN:
        rest = sum(s.row_bytes for s in live[_SHOWN:])
        notes.append(f"and {len(live) - _SHOWN} smaller tiles: {rest:,} bytes per partition")
    excess = peak - capacity
    how = f"{excess:,} too many" if excess > 0 else "they fit in sum, but not side by side"
    return OverCapacity(
        f"{space.name} of {kernel.target.name} holds {capacity:,} bytes per partition; the {len(live)} tiles in use"
        f" at one time need {peak:,}: {how}",
        stack=kernel.instructions[moment].stack,
        notes=notes,
        help="make tiles smaller, use a narrower dtype, or finish with a tile (store it) before the next one is loaded",
    )
