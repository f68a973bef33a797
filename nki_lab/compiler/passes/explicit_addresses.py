"""Checks the addresses that the author chose for tiles."""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import cache, partial
from heapq import heappop, heappush

from nki_lab.compiler.passes.in_place import heirs
from nki_lab.errors import AddressConflict, NkiError
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.source import Blame, Span
from nki_lab.targets.spaces import SBUF, MemoryRegion

Pair = tuple[int, int]


def explicit_addresses(kernel: Kernel) -> dict[int, Address]:
    """Return the address of every storage that is used and has one from its author, by id."""
    return {
        k: address for k in kernel.lifetimes if (address := kernel.storages[k].address) is not None
    }


def address_errors(kernel: Kernel, space: MemoryRegion, pairs: list[Pair]) -> list[NkiError]:
    """Return an error per address that leaves its memory, used or not, and per pair of tiles that share bytes."""
    return [
        *(
            _beyond(kernel, s)
            for s in kernel.storages
            if s.buffer is space and s.address is not None and _leaves(kernel, s)
        ),
        *(_conflict(kernel.storages[a], kernel.storages[b]) for a, b in pairs),
    ]


def overlapping(kernel: Kernel, fixed: dict[int, Address]) -> list[Pair]:
    """Return the pairs of storages at `fixed` addresses that share bytes while both are in use.

    A result that takes exactly the place of an operand in the last instruction that reads it shares nothing.
    """
    lives = kernel.lifetimes
    given = cache(partial(heirs, kernel))
    longest = max((kernel.storages[k].row_bytes for k in fixed), default=0)
    pairs: list[Pair] = []
    active: list[tuple[int, int]] = []  # (first byte, storage), in order
    ends: list[tuple[int, tuple[int, int]]] = []  # heap of (last use, entry of `active`)
    for k in sorted(fixed, key=lambda k: lives[k].first):
        while ends and ends[0][0] < lives[k].first:
            _, entry = heappop(ends)
            del active[bisect_left(active, entry)]
        byte = fixed[k].byte
        start = bisect_left(active, (byte - longest, 0))
        stop = bisect_left(active, (byte + kernel.storages[k].row_bytes, 0))
        near = sorted(key for _, key in active[start:stop])
        pairs += [
            (a, k)
            for a in near
            if share_bytes(kernel.storages[a], kernel.storages[k])
            and not (
                lives[a].last == lives[k].first
                and fixed[a] == fixed[k]
                and given(kernel.storages[k].buffer).get(k) == a
            )
        ]
        insort(active, (byte, k))
        heappush(ends, (lives[k].last, (byte, k)))
    return pairs


def groups(pairs: list[Pair]) -> tuple[frozenset[int], ...]:
    """Return the sets of storages that are linked by pairs."""
    groups: list[set[int]] = []
    for pair in pairs:
        joined = set(pair)
        rest = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                rest.append(group)
        groups = [*rest, joined]
    return tuple(frozenset(g) for g in groups)


def share_bytes(x: Storage, y: Storage) -> bool:
    """Tell whether the places that the author gave two tiles have a byte in common."""
    assert x.address is not None and y.address is not None
    return (
        x.buffer is y.buffer
        and x.address.byte < y.address.byte + y.row_bytes
        and y.address.byte < x.address.byte + x.row_bytes
        and x.address.partition < y.address.partition + y.partitions
        and y.address.partition < x.address.partition + x.partitions
    )


def _conflict(x: Storage, y: Storage) -> NkiError:
    return AddressConflict(
        f"{y.describe()} overlaps {x.describe()} while both are in use",
        stack=y.stack,
        notes=[_where(x), _where(y)],
        help="give one of them a different address, or finish with the first tile before you write the second",
        blame=Blame.of("address"),
    )


def _where(s: Storage) -> str:
    assert s.address is not None
    partition, byte = s.address
    place = f", made at {Span.of(s.stack[0])}" if s.stack else ""
    return (
        f"`{s.name}`: bytes {byte} to {byte + s.row_bytes} of partitions {partition} to"
        f" {partition + s.partitions}{place}"
    )


def _end_of_memory(kernel: Kernel, s: Storage) -> int:
    target = kernel.target
    # The top of SBUF is kept by the compiler (see the target's facts): a tile there would be overwritten.
    return (
        target.sbuf_usable_bytes_per_partition
        if s.buffer is SBUF
        else target.psum_bytes_per_partition
    )


def _leaves(kernel: Kernel, s: Storage) -> bool:
    assert s.address is not None
    return s.address.byte + s.row_bytes > _end_of_memory(kernel, s)


def _beyond(kernel: Kernel, s: Storage) -> NkiError:
    assert s.address is not None
    byte, end = s.address.byte, _end_of_memory(kernel, s)
    room = end - s.row_bytes
    return AddressConflict(
        f"{s.describe()} at byte {byte} ends at byte {byte + s.row_bytes};"
        f" {s.buffer.name} of {kernel.target.name} has {end} per partition for kernels",
        stack=s.stack,
        help=f"choose an address of at most {room}" if room >= 0 else "make the tile smaller",
        blame=Blame.of("address"),
    )
