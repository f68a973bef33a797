"""Finds the parts of a program within which instructions may change places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nki_lab.ir.program.execution import size_of
from nki_lab.ir.program.nodes import Instruction, Kernel, Loop


def straight_parts(kernel: Kernel) -> Iterator[range]:
    """Yield the positions of instructions that follow each other with no device loop and no meeting between them.

    A meeting of cores or ranks is in no part: it must come to each of them with the same behind it.
    """
    yield from _parts(kernel.body, 0)


def _parts(body: tuple[Instruction | Loop, ...], at: int) -> Iterator[range]:
    start = at
    for node in body:
        if isinstance(node, Loop):
            yield range(start, at)
            yield from _parts(node.body, at)
            at += size_of(node.body)
            start = at
        else:
            at += 1
            if node.definition.waits_for_others:
                yield range(start, at - 1)
                start = at
    yield range(start, at)


def in_new_order(kernel: Kernel, moved: Sequence[tuple[range, Sequence[int]]]) -> Kernel:
    """Return the kernel with the instructions of some parts in another order: (part, its positions in that order)."""
    if not moved:
        return kernel
    order = list(range(len(kernel.instructions)))
    for part, positions in moved:
        assert len(positions) == len(part), "an instruction waits for a later one"
        order[part.start : part.stop] = positions
    reordered = kernel.with_instructions([kernel.instructions[n] for n in order])
    pairs = kernel.dependences
    return reordered if pairs is None else reordered.with_(dependences=pairs.moved(order))
