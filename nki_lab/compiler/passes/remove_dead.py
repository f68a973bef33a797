"""Removes instructions whose results nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.explicit_addresses import explicit_addresses, groups, overlapping
from nki_lab.ir.definition.instruction import READ, Form, Instruction
from nki_lab.ir.program.nodes import Finding, FindingsByPlace, Kernel


@compiler_pass(skippable=True)
def remove_dead(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel without instructions that only write on-chip tiles nobody reads later.

    Whole tensors are looked at: a tile that is read in part keeps all its writers. Instructions that change hidden
    registers stay, since later ones may read those. Where tiles lie on each other while both are in use, what is
    written into one is read from the other.
    """
    if kernel.has_loops:  # a read earlier in a loop's body may come after a write in it
        return kernel
    sharing = _sharing(kernel)
    if not sharing and _all_read(kernel):
        return kernel
    read: set[int] = set()
    kept = []
    dead = []
    for i in reversed(kernel.instructions):
        written = i.written()
        alive = _stays(i.form) or any(
            not v.storage.on_chip or v.storage.id in read for v in written
        )
        if not alive:
            dead.append(i)
            continue
        kept.append(i)
        for view in i.read():
            read.add(view.storage.id)
            read.update(sharing.get(view.storage.id, ()))
    if not dead:
        return kernel
    findings = FindingsByPlace(kernel.findings)
    for i in reversed(dead):
        findings.add(i.definition.name, i.stack, partial(_removed, i))
    return kernel.with_(body=_spliced(reversed(kept), dead), findings=findings.all())


def _spliced(kept: Iterable[Instruction], dead: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return instructions that wait, in place of a dead one, for those that it waited for."""
    gone = {i.ident: i for i in dead}
    body = []
    for i in kept:
        if any(p.ident in gone for p in i.after):
            i = i.following(_alive(i.after, gone))
        body.append(i)
    return tuple(body)


def _alive(
    producers: Sequence[Instruction], gone: Mapping[int, Instruction]
) -> tuple[Instruction, ...]:
    alive: dict[int, Instruction] = {}
    pending = [*producers]
    while pending:
        producer = pending.pop()
        if producer.ident in gone:
            pending += gone[producer.ident].after
        else:
            alive[producer.ident] = producer
    return tuple(alive[ident] for ident in sorted(alive))


def _stays(form: Form) -> bool:
    """Tell whether instructions of a form do more than write tensors."""
    return (
        not form.writes
        or form.definition.waits_for_others
        or any(role != READ for _, role in form.state)
    )


def _all_read(kernel: Kernel) -> bool:
    """Tell whether every instruction stays, or writes to HBM or to a tile that a later one reads: the usual case."""
    touches = kernel.touches
    on_chip = np.array([s.on_chip for s in kernel.storages], bool)
    written, at = touches.storage[touches.writes], touches.at[touches.writes]
    needed = touches.per_form(_stays)
    needed[at[~on_chip[written] | (touches.last(touches.reads)[written] > at)]] = True
    return bool(needed.all())


def _sharing(kernel: Kernel) -> dict[int, frozenset[int]]:
    """Return, for tiles that the author put on each other, all those that are linked by such places."""
    if not any(s.address for s in kernel.storages):
        return {}
    linked = groups(overlapping(kernel, explicit_addresses(kernel)))
    return {member: group for group in linked for member in group}


def _removed(i: Instruction) -> Finding:
    return Finding(
        "advice",
        f"{i.definition.name} writes {i.written()[0].describe()}, which is never read: removed",
        i.stack,
        help="delete the line, or store the tile",
    )
