"""Where in SBUF and PSUM does each tile live?

A tile is in use from its first to its last access. Among free places the least recently used one is taken, so that
successive temporaries do not make a load wait for the computation before it. Explicit addresses are kept. When
program order does not fit, instructions are reordered within their dependences so that lifetimes end early.
"""

from __future__ import annotations

from collections.abc import Callable

from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.passes.capacity import over_capacity
from nki_lab.compiler.passes.free_places import FreePlaces, lowest_places
from nki_lab.compiler.passes.shorten_lifetimes import shorten_lifetimes
from nki_lab.errors import AddressConflict, KernelErrors, NkiError
from nki_lab.ir.lifetimes import Lifetime
from nki_lab.ir.nodes import Finding, Kernel
from nki_lab.ir.storage import Address, Storage
from nki_lab.source import Span
from nki_lab.targets.spaces import PSUM, SBUF, MemoryRegion
from nki_lab.targets.spec import Target

Rounding = Callable[[Storage, Target], tuple[int, int]]  # -> (bytes to take, alignment)


def allocate_sbuf(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with an address for every SBUF tile that is used."""
    return _allocate(kernel, options, SBUF, (_to_elements,))


def allocate_psum(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with an address for every PSUM tile that is used.

    First each tile takes whole banks; where the banks do not last, small tiles share one and never cross its end.
    """
    return _allocate(kernel, options, PSUM, (_to_banks, _to_bank_parts))


def _to_elements(storage: Storage, target: Target) -> tuple[int, int]:
    align = max(storage.dtype.itemsize, target.sbuf_min_align_bytes)
    return -(-storage.row_bytes // align) * align, align


def _to_banks(storage: Storage, target: Target) -> tuple[int, int]:
    bank = target.psum_bank_bytes
    return -(-storage.row_bytes // bank) * bank, bank


def _to_bank_parts(storage: Storage, target: Target) -> tuple[int, int]:
    if storage.row_bytes >= target.psum_bank_bytes:
        return _to_banks(storage, target)
    # Powers of two, aligned to themselves, divide a bank: no tile crosses its end.
    size = max(target.psum_min_align_bytes, 1 << (storage.row_bytes - 1).bit_length())
    return size, size


def _capacity(space: MemoryRegion, target: Target) -> int:
    if space is SBUF:
        return target.sbuf_usable_bytes_per_partition
    return target.psum_bytes_per_partition


def _allocate(
    kernel: Kernel, options: CompileOptions, space: MemoryRegion, roundings: tuple[Rounding, ...]
) -> Kernel:
    capacity = _capacity(space, kernel.target)
    if not any(s.buffer is space for s in kernel.storages):
        return kernel.with_(addresses=kernel.addresses or {})
    placed = _place(kernel, space, capacity, roundings)
    if placed is None:
        reordered = shorten_lifetimes(kernel)
        placed = _place(reordered, space, capacity, roundings)
        if placed is not None:
            kernel = reordered
    findings = list(kernel.findings)
    if placed is None:
        error = over_capacity(kernel, space, capacity)
        if options.capacity == "error":
            raise error
        findings.append(_capacity_finding(error))
        placed = _place(kernel, space, 1 << 40, roundings[-1:])
        assert placed is not None
    overlaps = _explicit_overlaps(kernel, space, placed)
    errors = [
        *_beyond_memory(kernel, space, placed),
        *(_conflict(kernel, a, b) for a, b in overlaps),
    ]
    if errors and options.capacity == "error":
        raise errors[0] if len(errors) == 1 else KernelErrors(errors)
    findings += [_capacity_finding(e) for e in errors]
    return kernel.with_(
        addresses={**(kernel.addresses or {}), **placed},
        overlaps=(*kernel.overlaps, *_groups(overlaps)),
        findings=tuple(findings),
    )


def _capacity_finding(error: NkiError) -> Finding:
    message = "; ".join((error.message, *error.notes))
    return Finding("capacity", message, error.stack, error.help, error.code)


def _place(
    kernel: Kernel, space: MemoryRegion, capacity: int, roundings: tuple[Rounding, ...]
) -> dict[int, Address] | None:
    """Return an address per used storage, or None where they do not fit in this order of instructions."""
    lives = kernel.lifetimes
    used = [kernel.storages[k] for k in lives if kernel.storages[k].buffer is space]
    fixed = {s.id: s.address for s in used if s.address is not None}
    free = [s for s in used if s.address is None]
    taken = _merged((a.byte, a.byte + kernel.storages[k].row_bytes) for k, a in fixed.items())
    for rounding in roundings:
        sizes = {s.id: rounding(s, kernel.target) for s in free}
        if _peak(free, sizes, lives) > capacity:
            continue
        places = _least_recently_used(free, sizes, lives, capacity, taken)
        if places is None:
            reserved = [
                (a.byte, a.byte + kernel.storages[k].row_bytes, lives[k]) for k, a in fixed.items()
            ]
            places = lowest_places(
                [(s.id, *sizes[s.id], lives[s.id]) for s in free], reserved, capacity
            )
        if places is not None:
            return {**fixed, **{k: Address(0, byte) for k, byte in places.items()}}
    return None


def _peak(
    storages: list[Storage], sizes: dict[int, tuple[int, int]], lives: dict[int, Lifetime]
) -> int:
    changes: dict[int, int] = {}
    for s in storages:
        first, last = lives[s.id]
        size = sizes[s.id][0]
        changes[2 * first] = changes.get(2 * first, 0) + size
        changes[2 * last + 1] = changes.get(2 * last + 1, 0) - size
    peak = now = 0
    for at in sorted(changes):
        now += changes[at]
        peak = max(peak, now)
    return peak


def _least_recently_used(
    storages: list[Storage],
    sizes: dict[int, tuple[int, int]],
    lives: dict[int, Lifetime],
    capacity: int,
    taken: list[tuple[int, int]],
) -> dict[int, int] | None:
    """Walk the program; give each tile the free place that has been free the longest."""
    places = FreePlaces(capacity, taken)
    result: dict[int, int] = {}
    ending: dict[int, list[int]] = {}
    ends: list[int] = sorted({lives[s.id].last for s in storages})
    done = 0
    for s in storages:  # in order of first use
        first, last = lives[s.id]
        while done < len(ends) and ends[done] < first:
            for key in ending.pop(ends[done], ()):
                places.give_back(result[key], sizes[key][0], ends[done])
            done += 1
        size, align = sizes[s.id]
        byte = places.take(size, align)
        if byte is None:
            return None
        result[s.id] = byte
        ending.setdefault(last, []).append(s.id)
    return result


def _merged(ranges) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def _explicit_overlaps(
    kernel: Kernel, space: MemoryRegion, placed: dict[int, Address]
) -> list[tuple[int, int]]:
    """Return pairs of explicitly placed storages that share bytes while both are in use."""
    fixed = sorted(
        (k for k in placed if kernel.storages[k].address is not None),
        key=lambda k: kernel.lifetimes[k].first,
    )
    pairs = []
    active: list[int] = []
    for k in fixed:
        start = kernel.lifetimes[k].first
        active = [a for a in active if kernel.lifetimes[a].last >= start]
        pairs += [(a, k) for a in active if _share_bytes(kernel, a, k)]
        active.append(k)
    return pairs


def _share_bytes(kernel: Kernel, a: int, b: int) -> bool:
    x, y = kernel.storages[a], kernel.storages[b]
    assert x.address is not None and y.address is not None
    return (
        x.address.byte < y.address.byte + y.row_bytes
        and y.address.byte < x.address.byte + x.row_bytes
        and x.address.partition < y.address.partition + y.partitions
        and y.address.partition < x.address.partition + x.partitions
    )


def _conflict(kernel: Kernel, a: int, b: int) -> NkiError:
    x, y = kernel.storages[a], kernel.storages[b]
    return AddressConflict(
        f"{y.describe()} overlaps {x.describe()} while both are in use",
        stack=y.stack,
        notes=[_where(x), _where(y)],
        help="give one another address, or finish with the first tile before the second is written",
    )


def _where(s: Storage) -> str:
    assert s.address is not None
    partition, byte = s.address
    made = f", made at {Span.of(s.stack[0])}" if s.stack else ""
    return (
        f"`{s.name}`: bytes {byte} to {byte + s.row_bytes} of partitions {partition} to"
        f" {partition + s.partitions}{made}"
    )


def _groups(pairs: list[tuple[int, int]]) -> list[frozenset[int]]:
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
    return [frozenset(g) for g in groups]


def _beyond_memory(
    kernel: Kernel, space: MemoryRegion, placed: dict[int, Address]
) -> list[NkiError]:
    target = kernel.target
    end = target.sbuf_bytes_per_partition if space is SBUF else target.psum_bytes_per_partition
    return [
        AddressConflict(
            f"{s.describe()} at byte {a.byte} ends at byte {a.byte + s.row_bytes};"
            f" {space.name} of {target.name} has {end} per partition",
            stack=s.stack,
            help=f"choose an address of at most {end - s.row_bytes}",
        )
        for k, a in placed.items()
        if (s := kernel.storages[k]).address is not None and a.byte + s.row_bytes > end
    ]
