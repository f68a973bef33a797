"""How do shape and strides change when axes are merged, split or renamed?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from nki_lab.errors import ViewError


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of `shape`, in elements."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def merge_axes(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Return size and stride of all axes as one, or None where no single stride walks them."""
    steps = [(n, s) for n, s in zip(shape, strides, strict=True) if n > 1]
    if not steps:
        return 1, strides[-1]
    for (_, outer), (size, inner) in pairwise(steps):
        if outer != size * inner:
            return None
    return prod(shape), steps[-1][1]


def reshape_strides(
    shape: Sequence[int], strides: Sequence[int], wanted: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the strides of the same elements in shape `wanted`, or None where a copy would be needed."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n > 1]
    result = [0] * len(wanted)
    axis = 0
    at = 0
    while at < len(wanted):
        if wanted[at] == 1:
            at += 1
            continue
        group = [at]
        have, need = old[axis][0], wanted[at]
        first = axis
        while have != need:
            if need < have:
                at += 1
                if wanted[at] == 1:
                    continue
                need *= wanted[at]
                group.append(at)
            else:
                axis += 1
                have *= old[axis][0]
        merged = merge_axes(
            [n for n, _ in old[first : axis + 1]], [s for _, s in old[first : axis + 1]]
        )
        if merged is None:
            return None
        step = merged[1]
        for position in reversed(group):
            result[position] = step
            step *= wanted[position]
        axis += 1
        at += 1
    # A stride of an axis of size 1 is never walked; give it the row-major value, as NumPy does.
    step = 1
    for position in reversed(range(len(wanted))):
        if wanted[position] == 1:
            result[position] = step
        step = result[position] * wanted[position]
    return tuple(result)


def rearrange_axes(
    shape: Sequence[int],
    source: Sequence[Any],
    target: Sequence[Any],
    sizes: dict[str, int],
    what: str,
) -> tuple[list[tuple[int, ...]], tuple[int, ...], list[int]]:
    """Resolve a named rearrangement.

    Returns:
        For each axis the sizes it splits into; the order of the split axes; how many of them each new axis merges.
    """
    if len(source) != len(shape):
        raise ViewError(f"rearrange of {what}: source pattern names {len(source)} axes")
    names: list[str] = []
    split: list[tuple[int, ...]] = []
    for entry, size in zip(source, shape, strict=True):
        group = [entry] if isinstance(entry, str) else list(entry)
        known = [sizes.get(n, -1) if len(group) > 1 else sizes.get(n, size) for n in group]
        if known.count(-1) > 1:
            raise ViewError(f"rearrange of {what}: give the sizes of all but one of {group}")
        if -1 in known:
            rest = -prod(known)
            known[known.index(-1)] = size // rest if rest else 0
        if prod(known) != size or min(known, default=1) < 1:
            raise ViewError(f"rearrange of {what}: {group} = {known} does not multiply to {size}")
        names += group
        split.append(tuple(known))
    flat: list[str] = []
    groups: list[int] = []
    for entry in target:
        group = [entry] if isinstance(entry, str) else list(entry)
        flat += group
        groups.append(len(group))
    if sorted(flat) != sorted(names) or len(set(names)) != len(names):
        raise ViewError(
            f"rearrange of {what}: both patterns must hold the same names once, found {names} and {flat}"
        )
    return split, tuple(names.index(n) for n in flat), groups
