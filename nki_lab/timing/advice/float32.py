"""Advice on float32 tiles where bfloat16 is precise enough: for products, and for fast modes of Vector and Scalar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from nki_lab.dtypes import bfloat16, float32
from nki_lab.ir.definition.form_times import Record
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import DMA, SCALAR, TENSOR, VECTOR
from nki_lab.targets.spaces import PSUM
from nki_lab.timing.advice.draft import Draft, Refused
from nki_lab.timing.advice.evidence import (
    AdviceRule,
    Change,
    Evidence,
    Group,
    Proposal,
    duration,
)

#: Instructions that would save less of the run by themselves are no reason to round values.
LEAST_PART = 0.05


def _find_products(evidence: Evidence) -> Iterator[Proposal]:
    groups, changes = [], []
    for group in evidence.groups_of(TENSOR):
        record = group.record
        if any(step.macs for step in record.steps) and any(map(_is_wide, _operands(record))):
            narrow = evidence.with_tensors(record, narrowed, reads_only=True)
            if narrow.interval < record.interval:
                groups.append(group)
                changes.append((group.entries, narrow))
    if not groups:
        return
    record, narrow = groups[0].record, changes[0][1]
    yield _proposal(
        evidence,
        groups,
        changes,
        f"product{'s' * (_count(groups) > 1)} of float32 tiles, {duration(record.interval / 1000)} each: "
        f"{record.interval / narrow.interval:.0f} times the {duration(narrow.interval / 1000)} of bfloat16",
        "load the operands as bfloat16, from bfloat16 tensors where that can be: products are still summed in float32, "
        "and each input is rounded to 8 bits",
        True,
        TENSOR.name,
    )


def _find_tiles(evidence: Evidence) -> Iterator[Proposal]:
    groups, changes = [], []
    for group in (*evidence.groups_of(VECTOR), *evidence.groups_of(SCALAR)):
        faster = evidence.with_tensors(group.record, narrowed)
        if faster.interval < group.record.interval:
            groups.append(group)
            changes.append((group.entries, faster))
    if not groups or evidence.saved_ns(changes) < LEAST_PART * evidence.total_ns:
        return
    record, faster = groups[0].record, changes[0][1]
    engine = record.form.engine.name
    yield _proposal(
        evidence,
        groups,
        changes,
        f"{'instructions' if _count(groups) > 1 else 'instruction'} of {engine} ({record.steps[0].opcode}), "
        f"{duration(record.interval / 1000)} each, which could be {duration(faster.interval / 1000)}: "
        "a tile of it is float32",
        "keep all of its tiles in bfloat16 where 8 bits are enough, and the tensors they are loaded from or stored to",
        False,
        engine,
    )


def _count(groups: Iterable[Group]) -> int:
    return sum(len(group.entries) for group in groups)


def _proposal(
    evidence: Evidence,
    groups: list[Group],
    changes: Sequence[Change],
    message: str,
    help: str,
    reads_only: bool,
    engine: str,
) -> Proposal:
    entries = np.sort(np.concatenate([group.entries for group in groups]))
    lines = evidence.labels(entries)
    return Proposal(
        f"{len(entries):,} {message}",
        help,
        entries,
        changes=tuple(changes),
        bound="what must be copied or cast for it is not counted",
        edit=lambda draft: _in_bfloat16(draft, lines, reads_only, engine),
    )


def _operands(record: Record) -> list[NkiTensor]:
    form = record.form
    return [form.example.args[k] for k in form.reads if k not in form.writes]


def _is_wide(tensor: NkiTensor) -> bool:
    # Sums in PSUM are float32 for a reason.
    return tensor.dtype is float32 and tensor.buffer is not PSUM


def narrowed(tensor: NkiTensor) -> NkiTensor:
    """Return a tensor of bfloat16 with the same shape and strides in place of a float32 tensor outside PSUM."""
    if not _is_wide(tensor):
        return tensor
    return NkiTensor._make(
        tensor.storage, tensor.shape, tensor.strides, tensor.offset, bfloat16, tensor.dynamic
    )


def _in_bfloat16(draft: Draft, lines: frozenset[str], reads_only: bool, engine: str) -> Kernel:
    """Return the program with the tiles of some instructions in bfloat16, and the tensors in HBM they come from."""
    wanted: set[int] = set()
    for n in draft.at(lines):
        i = draft.instructions[n]
        if i.form.engine.name == engine:
            positions = _positions(i, reads_only)
            wanted |= {t.storage.id for t in positions if _is_wide(t)}
    size = -1
    moves = [i for i in draft.instructions if i.form.engine is DMA]
    while size != len(wanted):  # a transfer that casts is slow: both sides change
        size = len(wanted)
        for i in moves:
            ends = [t for t in (*i.read(), *i.written()) if t.dtype is float32]
            if any(t.storage.id in wanted for t in ends):
                wanted |= {t.storage.id for t in ends}
    if not wanted or any(draft.storages[k].dtype is not float32 for k in wanted):
        raise Refused
    new = draft.retyped(wanted, bfloat16)

    def change(view: NkiTensor) -> NkiTensor:
        storage = new.get(view.storage.id)
        if storage is None:
            return view
        if view.dtype is not float32 or view.dynamic is not None:
            raise Refused
        return NkiTensor._make(storage, view.shape, view.strides, view.offset, bfloat16)

    return draft.done([draft.with_views(i, change) for i in draft.instructions], change)


def _positions(i: Instruction, reads_only: bool) -> list[NkiTensor]:
    if not reads_only:
        return [*i.read(), *i.written()]
    return [i.args[k] for k in i.form.reads if k not in i.form.writes]


PRODUCTS = AdviceRule("float32 products", _find_products)
TILES = AdviceRule("float32 tiles", _find_tiles)
