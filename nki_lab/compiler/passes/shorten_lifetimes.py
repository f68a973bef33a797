"""Reorders instructions so that live ranges end earlier.

Program order keeps many accumulators open when loops are nested the other way round, or when they are drained in a loop
of their own. These orders, within the dependences, finish and drain an accumulator before the next one is begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from nki_lab.compiler.passes.dependences import dependences
from nki_lab.compiler.passes.explicit_addresses import explicit_addresses, groups, overlapping
from nki_lab.compiler.passes.straight_parts import in_new_order, straight_parts
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.targets.spaces import PSUM


def shorter_lifetimes(kernel: Kernel) -> Iterator[Kernel]:
    """Return the kernel in other orders, the one that moves least first.

    Instructions move within the straight parts of the program, never into, out of or past a loop that the device runs,
    nor past a meeting of cores or ranks.
    """
    # Places that are still to be given do not bind the order; those the author gave do.
    fixed = explicit_addresses(kernel)
    overlaps = groups(overlapping(kernel, fixed))
    before = dependences(kernel.with_(addresses=fixed, overlaps=overlaps))
    drains = [_drains(i) for i in kernel.instructions]
    parts = [*straight_parts(kernel)]
    yield in_new_order(kernel, [(p, _drained_early(p, before, drains)) for p in parts])
    yield in_new_order(kernel, [(p, _depth_first(p, before)) for p in parts])


def _drains(instruction: Instruction) -> bool:
    """Tell whether an instruction takes something out of PSUM."""
    read, written = instruction.read(), instruction.written()
    return any(t.buffer is PSUM for t in read) and not any(t.buffer is PSUM for t in written)


def _drained_early(
    part: range, before: Sequence[Collection[int]], drains: Sequence[bool]
) -> list[int]:
    """Return instructions that follow each other, in their order, except that PSUM is drained as early as possible."""
    waiting = {n: sum(p in part for p in before[n]) for n in part if drains[n]}
    followers: dict[int, list[int]] = defaultdict(list)
    for n in waiting:
        for p in before[n]:
            followers[p].append(n)
    order: list[int] = []
    done: set[int] = set()
    for first in part:
        ready = [] if first in done else [first]
        while ready:
            n = ready.pop()
            order.append(n)
            done.add(n)
            for follower in followers[n]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    ready.append(follower)
    return order


def _depth_first(part: range, before: Sequence[Collection[int]]) -> list[int]:
    """Return instructions that follow each other, with all that leads to one result before what leads to the next.

    That is a walk over the dependences from each instruction nobody waits for, in program order.
    """
    needed = {n for i in part for n in before[i] if n in part}
    order: list[int] = []
    done: set[int] = set()
    for root in part:
        if root in needed or root in done:
            continue
        done.add(root)
        stack = [(root, iter(before[root]))]
        while stack:
            n, pending = stack[-1]
            following = next((p for p in pending if p in part and p not in done), None)
            if following is None:
                order.append(n)
                stack.pop()
            else:
                done.add(following)
                stack.append((following, iter(before[following])))
    return order
