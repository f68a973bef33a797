"""Gives each tile its address in SBUF or PSUM.

A tile is in use from its first to its last access. Among free places the least recently used one is taken, so that
successive temporaries do not make a load wait for the computation before it. Explicit addresses are kept. When
that does not fit, results take the places of operands that their instructions read last; then each value of a tile
gets a place for itself; at last instructions are reordered within their dependences so that lifetimes end early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import MappingProxyType

from nki_lab.choices import BETA1, Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.capacity import over_capacity
from nki_lab.compiler.passes.explicit_addresses import (
    address_errors,
    explicit_addresses,
    groups,
    overlapping,
)
from nki_lab.compiler.passes.free_places import FreePlaces, lowest_places
from nki_lab.compiler.passes.in_place import heirs, with_heirs
from nki_lab.compiler.passes.separate_values import with_separate_values
from nki_lab.compiler.passes.shorten_lifetimes import shorter_lifetimes
from nki_lab.errors import KernelErrors, NkiError
from nki_lab.ir.program.lifetimes import Lifetime, peak_of
from nki_lab.ir.program.nodes import Finding, Kernel
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.targets.spaces import PSUM, SBUF, MemoryRegion
from nki_lab.targets.spec import Target

Rounding = Callable[[Storage, Target], tuple[int, int]]  # -> (bytes to take, alignment)
Places = dict[int, Address]  # by storage
Heirs = Callable[[], dict[int, int]]  # -> of storages that may take the place of another one, which


@compiler_pass()
def allocate_sbuf(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with an address for every SBUF tile that is used."""
    return _allocate(kernel, options, SBUF)


@compiler_pass()
def allocate_psum(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with an address for every PSUM tile that is used.

    First each tile takes whole banks; where the banks do not last, small tiles share one and never cross its end.
    """
    return _allocate(kernel, options, PSUM)


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


_ROUNDINGS: dict[MemoryRegion, tuple[Rounding, ...]] = {
    SBUF: (_to_elements,),
    PSUM: (_to_banks, _to_bank_parts),
}


def _capacity(space: MemoryRegion, target: Target) -> int:
    if space is SBUF:
        return target.sbuf_usable_bytes_per_partition
    return target.psum_bytes_per_partition


def _allocate(kernel: Kernel, options: Choices, space: MemoryRegion) -> Kernel:
    before = kernel.addresses or {}
    if not any(s.buffer is space for s in kernel.storages):
        return kernel.with_(addresses=before)
    findings = list(kernel.findings)
    inherited = cache(partial(heirs, kernel, space))
    placed = _place(kernel, space, inherited)
    if placed is None:
        separate = with_separate_values(kernel, space)
        if separate is not kernel:
            placed = _place(separate, space, partial(heirs, separate, space))
        if placed is not None:
            kernel = separate
    if placed is None:
        anew = _in_a_new_order(kernel, (*{kernel.storages[k].buffer for k in before}, space))
        if anew is not None:
            kernel, placed = anew
            findings.append(_moved(space, kernel.target))
        else:
            error = over_capacity(
                kernel,
                space,
                _capacity(space, kernel.target),
                with_heirs(kernel.lifetimes, inherited()),
                lambda changed: _place(kernel, space, inherited, changed) is not None,
            )
            if options.capacity == "error":
                raise error
            findings.append(_capacity_finding(error))
            placed = _place_beyond(kernel, space)
    fixed = {
        k: a for k, a in explicit_addresses(kernel).items() if kernel.storages[k].buffer is space
    }
    pairs = overlapping(kernel, fixed)
    errors = address_errors(kernel, space, pairs)
    # Kernels of the older dialect run where they do not fit, but not where they put two tensors into one place.
    if errors and (options.capacity == "error" or options.nki == BETA1):
        raise errors[0] if len(errors) == 1 else KernelErrors(errors)
    findings += [_capacity_finding(e) for e in errors]
    return kernel.with_(
        addresses={**before, **placed},
        overlaps=(*kernel.overlaps, *groups(pairs)),
        findings=tuple(findings),
    )


def _moved(space: MemoryRegion, target: Target) -> Finding:
    return Finding(
        "advice",
        f"the tiles in {space.name} fit {target.name} only with the instructions in another order than the kernel's"
        " lines, which was chosen; another compiler may refuse the kernel",
        help="store a tile before you load the next one",
    )


def _capacity_finding(error: NkiError) -> Finding:
    message = "; ".join((error.message, *error.notes))
    return Finding("capacity", message, error.stack, error.help, error.code)


def _in_a_new_order(kernel: Kernel, spaces: Iterable[MemoryRegion]) -> tuple[Kernel, Places] | None:
    """Return the kernel reordered, and places in all `spaces`; None where they do not fit either.

    Tiles placed before the order changed are placed again, since others are in use at the same time now.
    """
    fixed = explicit_addresses(kernel)
    apart = {*overlapping(kernel, fixed)}
    for reordered in shorter_lifetimes(kernel):
        if not {*overlapping(reordered, fixed)} <= apart:
            continue
        placed: Places = {}
        for space in spaces:
            places = _place(reordered, space, partial(heirs, reordered, space))
            if places is None:
                break
            placed.update(places)
        else:
            return reordered, placed
    return None


def _place(
    kernel: Kernel,
    space: MemoryRegion,
    inherited: Heirs,
    changed: Mapping[int, Storage] | None = None,
) -> Places | None:
    """Return an address per used storage, or None where they do not fit in this order of instructions.

    Args:
        kernel: the program.
        space: the memory.
        inherited: returns which tiles may take whose place; asked where they do not fit side by side.
        changed: storages to take for others, by id, to try what would fit.
    """
    capacity = _capacity(space, kernel.target)
    fixed, free = _used(kernel, space, changed or {})
    taken = _taken(kernel, fixed, free)
    for heirs_of in (dict, inherited):
        for rounding in _ROUNDINGS[space]:
            sizes = {s.id: rounding(s, kernel.target) for s in free}
            given = {
                k: of
                for k, of in heirs_of().items()
                if k in sizes and of in sizes and _has_room(sizes[of], sizes[k])
            }
            if _peak(free, sizes, with_heirs(kernel.lifetimes, given)) > capacity:
                continue
            places = _least_recently_used(free, sizes, kernel.lifetimes, capacity, taken, given)
            if places is None:
                places = _lowest(kernel, fixed, free, sizes, capacity, given)
            if places is not None:
                return {**fixed, **{k: Address(0, byte) for k, byte in places.items()}}
    return None


def _has_room(place: tuple[int, int], wanted: tuple[int, int]) -> bool:
    """Tell whether a place of some bytes and alignment can be handed over to a tile that wants others."""
    return wanted[0] <= place[0] and place[1] % wanted[1] == 0


def _place_beyond(kernel: Kernel, space: MemoryRegion) -> Places:
    """Return an address per used storage as if the memory went on past its end."""
    fixed, free = _used(kernel, space, {})
    taken = _taken(kernel, fixed, free)
    sizes = {s.id: _ROUNDINGS[space][-1](s, kernel.target) for s in free}
    capacity = _peak(free, sizes, kernel.lifetimes) + sum(high - low for low, high in taken)
    places = _least_recently_used(free, sizes, kernel.lifetimes, capacity, taken)
    if places is None:  # it takes more where the holes between tiles do not suit the next ones
        capacity += sum(size for size, _ in sizes.values()) + (1 << 30)
        places = _lowest(kernel, fixed, free, sizes, capacity)
    assert places is not None
    return {**fixed, **{k: Address(0, byte) for k, byte in places.items()}}


def _used(
    kernel: Kernel, space: MemoryRegion, changed: Mapping[int, Storage]
) -> tuple[Places, list[Storage]]:
    """Return explicit addresses, and the storages without one, in order of first use."""
    used = [
        changed.get(k, kernel.storages[k])
        for k in kernel.lifetimes
        if kernel.storages[k].buffer is space
    ]
    fixed = {s.id: s.address for s in used if s.address is not None}
    return fixed, [s for s in used if s.address is None]


def _lowest(
    kernel: Kernel,
    fixed: Places,
    free: list[Storage],
    sizes: dict[int, tuple[int, int]],
    capacity: int,
    given: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, int] | None:
    lives = kernel.lifetimes
    reserved = [(a.byte, a.byte + kernel.storages[k].row_bytes, lives[k]) for k, a in fixed.items()]
    wanted = [(s.id, *sizes[s.id], lives[s.id]) for s in free]
    return lowest_places(wanted, reserved, capacity, given)


def _peak(
    storages: list[Storage], sizes: dict[int, tuple[int, int]], lives: Mapping[int, Lifetime]
) -> int:
    return peak_of((sizes[s.id][0], *lives[s.id]) for s in storages)[0]


def _least_recently_used(
    storages: list[Storage],
    sizes: dict[int, tuple[int, int]],
    lives: dict[int, Lifetime],
    capacity: int,
    taken: list[tuple[int, int]],
    given: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, int] | None:
    """Walk the program; give each tile its legacy, or the free place that has been free the longest."""
    places = FreePlaces(capacity, taken)
    handed_on = {of: sizes[k][0] for k, of in given.items()}
    result: dict[int, int] = {}
    ending: dict[int, list[int]] = {}
    ends: list[int] = sorted({lives[s.id].last for s in storages})
    done = 0
    for s in storages:  # in order of first use
        first, last = lives[s.id]
        while done < len(ends) and ends[done] < first:
            for key in ending.pop(ends[done], ()):
                kept = handed_on.get(key, 0)
                if kept < sizes[key][0]:
                    places.give_back(result[key] + kept, sizes[key][0] - kept, ends[done])
            done += 1
        byte = result[given[s.id]] if s.id in given else places.take(*sizes[s.id])
        if byte is None:
            return None
        result[s.id] = byte
        ending.setdefault(last, []).append(s.id)
    return result


def _taken(kernel: Kernel, fixed: Places, free: list[Storage]) -> list[tuple[int, int]]:
    """Return the bytes that tiles with explicit addresses have while there are `free` ones, as ranges in order."""
    lives = kernel.lifetimes
    start = min((lives[s.id].first for s in free), default=0)
    stop = max((lives[s.id].last for s in free), default=-1)
    result: list[tuple[int, int]] = []
    for low, high in sorted(
        (a.byte, a.byte + kernel.storages[k].row_bytes)
        for k, a in fixed.items()
        if lives[k].first <= stop and start <= lives[k].last
    ):
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result
