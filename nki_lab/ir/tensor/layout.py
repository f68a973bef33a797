"""Layouts: shape and strides after axes are merged, split, renamed or rescaled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

from nki_lab.errors import ViewError


@lru_cache(maxsize=4096)  # kernels make thousands of tiles of few shapes
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


def rescale_axes(
    shape: Sequence[int], strides: Sequence[int], offset: int, old: int, new: int, what: str
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return shape, strides and offset of the same bytes in elements of `new` instead of `old` bytes."""
    if old == new:
        return tuple(shape), tuple(strides), offset
    if shape[-1] > 1 and strides[-1] != 1:
        raise ViewError(
            f"{what}: the last axis must be contiguous",
            help="copy it into a new tile first, with nisa.tensor_copy",
        )
    last = shape[-1] * old
    walked = [s * old for s, n in zip(strides[:-1], shape[:-1], strict=True) if n > 1]
    if any(step % new for step in (*walked, last, offset * old)):
        raise ViewError(
            f"{what}: strides, last axis and offset must be multiples of {new} bytes",
            help=f"slice so that each row starts at, and holds, a multiple of {max(1, new // old)} elements",
        )
    return (
        (*shape[:-1], last // new),
        (*(s * old // new for s in strides[:-1]), 1),
        offset * old // new,
    )


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
    before, after = _axis_names(source, what), _axis_names(target, what)
    if len(before) != len(shape):
        raise ViewError(
            f"rearrange of {what}: the source pattern names {len(before)} axes",
            help=f"name {len(shape)}, one for each axis; a tuple of names splits one",
        )
    if not (isinstance(sizes, dict) and all(hasattr(n, "__index__") for n in sizes.values())):
        raise ViewError(
            f"rearrange of {what}: fixed sizes are integers, found {sizes}",
            help="write for example {'a': 4}",
        )
    names: list[str] = []
    split: list[tuple[int, ...]] = []
    for group, size in zip(before, shape, strict=True):
        given = [sizes.get(n, -1) if len(group) > 1 else sizes.get(n, size) for n in group]
        if given.count(-1) > 1:
            raise ViewError(
                f"rearrange of {what}: give the sizes of all but one of {group}",
                help=f"pass them as the third argument, such as {{{group[0]!r}: 4}}",
            )
        if -1 in given:
            rest = -prod(given)
            given[given.index(-1)] = size // rest if rest else 0
        if prod(given) != size or min(given, default=1) < 1:
            raise ViewError(
                f"rearrange of {what}: {group} = {given} does not multiply to {size}",
                help="give sizes that divide it, and leave one out: it follows",
            )
        names += group
        split.append(tuple(given))
    flat = [name for group in after for name in group]
    if sorted(flat) != sorted(names) or len(set(names)) != len(names):
        raise ViewError(
            f"rearrange of {what}: both patterns must hold the same names once, found {names} and {flat}",
            help="name every axis once in each pattern",
        )
    return split, tuple(names.index(n) for n in flat), [len(group) for group in after]


def _axis_names(pattern: Any, what: str) -> list[list[str]]:
    """Return the names of each axis of a pattern: several where it is split or merged."""
    if isinstance(pattern, (tuple, list)):
        groups = [[entry] if isinstance(entry, str) else entry for entry in pattern]
        if all(isinstance(g, (tuple, list)) and all(isinstance(n, str) for n in g) for g in groups):
            return [list(group) for group in groups]
    raise ViewError(
        f"rearrange of {what}: a pattern is a tuple of names and tuples of names, found {pattern!r}",
        help="write for example ('p', ('a', 'b'))",
    )
