"""Advice on work that could be left out: copies that nothing needs, and temporaries that go through device memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.coverage import is_whole
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import DMA
from nki_lab.targets.spaces import SBUF
from nki_lab.timing.advice.draft import Draft, Refused
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, duration

#: Opcode of copies on chip.
COPIED = "TENSOR_COPY"


def _find_copies(evidence: Evidence) -> Iterator[Proposal]:
    if not evidence.can_edit:
        return
    groups = [g for g in evidence.groups if any(s.opcode == COPIED for s in g.record.steps)]
    groups = [g for g in groups if _plain(g.record.form.example)]
    for line in dict.fromkeys(group.line for group in groups):
        same = [group for group in groups if group.line == line]
        entries = np.sort(np.concatenate([group.entries for group in same]))
        names = evidence.labels(entries)
        example = evidence.instruction(int(entries[0]))
        to, source = example.written()[0], example.read()[0]
        took = sum(group.record.interval * len(group.entries) for group in same) / 1000
        yield Proposal(
            f"{counted(len(entries), 'copy') if len(entries) == 1 else f'{len(entries):,} copies'} of "
            f"`{source.storage.name}` into `{to.storage.name}`, {duration(took)} in all, and nothing changes "
            "either of them afterwards",
            f"use `{source.storage.name}` in place of `{to.storage.name}`",
            entries,
            changes=((entries, None),),
            edit=partial(_without_copies, lines=names),
        )


def _plain(i: Instruction) -> bool:
    """Tell whether a copy keeps the bits of a tile in SBUF."""
    tensors = (*i.read(), *i.written())
    return len(tensors) == 2 and all(
        t.buffer is SBUF and t.dtype is tensors[0].dtype and t.dynamic is None for t in tensors
    )


def _without_copies(draft: Draft, lines: frozenset[str]) -> Kernel:
    copies = [
        n
        for n in draft.at(lines)
        if any(s.opcode == COPIED for s in draft.record(n).steps) and _plain(draft.instructions[n])
    ]
    links = [(n, n) for n in copies]
    return _short_cut(draft, links, lambda n: True)


def _find_temporaries(evidence: Evidence) -> Iterator[Proposal]:
    kernel = evidence.kernel
    returned = {t.storage.id for t in kernel.outputs}
    stores: dict[int, list[int]] = {}
    loads: dict[int, list[int]] = {}
    if not evidence.can_edit or kernel.program[1] > 1:  # the other core may read it
        return
    for entry in evidence.stores.tolist():
        stores.setdefault(evidence.ends(entry)[0].storage.id, []).append(entry)
    for entry in evidence.loads.tolist():
        loads.setdefault(evidence.ends(entry)[1].storage.id, []).append(entry)
    for key in stores.keys() & loads.keys():
        storage = kernel.storages[key]
        if storage.origin != "temporary" or key in returned:
            continue
        entries = np.array(stores[key], dtype=np.int64)
        again = np.array(loads[key], dtype=np.int64)
        yield Proposal(
            f"`{storage.name}` goes through device memory: {counted(len(entries), 'store')} and "
            f"{counted(len(again), 'load')} of what SBUF holds already",
            "use the tile that was stored instead of loading it again",
            np.concatenate((entries, again)),
            changes=((np.concatenate((entries, again)), None),),
            edit=partial(_on_chip, name=storage.name),
        )


def _on_chip(draft: Draft, name: str) -> Kernel:
    """Return the program in which what is loaded from a temporary is the tile that was stored."""
    ids = {s.id for s in draft.storages if s.name == name}
    latest: list[int] = []
    links: list[tuple[int, int]] = []
    for n, i in enumerate(draft.instructions):
        if i.form.engine is not DMA:
            continue
        if any(t.storage.id in ids for t in i.written()):
            latest.append(n)
        elif any(t.storage.id in ids for t in i.read()):
            links.append((_source(draft, latest, i.read()[0]), n))
    return _short_cut(draft, links, lambda n: n in latest)


def _source(draft: Draft, stores: list[int], wanted: NkiTensor) -> int:
    """Return the store that wrote what is loaded."""
    for n in reversed(stores):
        view = draft.instructions[n].written()[0]
        if (view.shape, view.strides, view.offset) == (wanted.shape, wanted.strides, wanted.offset):
            return n
    raise Refused


def _short_cut(draft: Draft, links: list[tuple[int, int]], gone: Callable[[int], bool]) -> Kernel:
    """Return the program that uses the source of one instruction where another one puts the same values.

    Args:
        draft: the program.
        links: per tile, the instruction that reads the values and the one that writes the tile.
        gone: tells whether an instruction that reads the values is left out, too.
    """
    touches = draft.kernel.touches
    writes = touches.writes
    instead: dict[int, int] = {}
    for n, m in links:
        (source,), (tile,) = draft.instructions[n].read(), draft.instructions[m].written()
        a, b = source.storage, tile.storage
        alike = (a.shape, a.dtype, a.buffer) == (b.shape, b.dtype, b.buffer)
        if not (alike and is_whole(source) and is_whole(tile)):
            raise Refused
        used = touches.at[touches.storage == b.id]
        first = touches.at[writes & (touches.storage == b.id)]
        changed = touches.at[writes & (touches.storage == a.id)]
        if used.min() != m or len(first) != 1 or (changed > n).any():
            raise Refused
        instead[b.id] = a.id
    left_out = {m for _, m in links} | {n for n, _ in links if gone(n)}
    storages = draft.storages

    def change(view: NkiTensor) -> NkiTensor:
        key = view.storage.id
        if key not in instead:
            return view
        while key in instead:
            key = instead[key]
        return NkiTensor._make(storages[key], view.shape, view.strides, view.offset, view.dtype)

    return draft.done(
        draft.with_views(i, change) for n, i in enumerate(draft.instructions) if n not in left_out
    )


COPIES = AdviceRule("unneeded copy", _find_copies)
TEMPORARIES = AdviceRule("temporary in HBM", _find_temporaries)
