"""Advice on Vector instructions that miss the fast modes of the engine, with the reason.

Nothing here knows the modes: an instruction's own cost is asked what it would be on narrow tiles, on contiguous ones,
and on tiles in SBUF.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nki_lab.ir.definition.form_times import Record
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import SCALAR, VECTOR
from nki_lab.targets.spaces import PSUM, SBUF
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Group, Proposal, counted, duration
from nki_lab.timing.advice.float32 import narrowed


@dataclass(frozen=True)
class _Way:
    """One way to a faster mode."""

    change: Callable[[NkiTensor], NkiTensor]
    why: str
    help: str


def _contiguous(tensor: NkiTensor) -> NkiTensor:
    strides = contiguous_strides(tensor.shape)
    if tensor.dynamic is not None or tensor.strides[1:] == strides[1:]:
        return tensor
    return NkiTensor._make(tensor.storage, tensor.shape, strides, 0, tensor.dtype)


def _in_sbuf(tensor: NkiTensor) -> NkiTensor:
    if tensor.buffer is not PSUM:
        return tensor
    storage = copy.copy(tensor.storage)
    storage.buffer = SBUF
    return NkiTensor._make(
        storage, tensor.shape, tensor.strides, tensor.offset, tensor.dtype, tensor.dynamic
    )


_DTYPE = _Way(
    narrowed,
    "a tile of it is float32",
    "keep all of its tiles in bfloat16 where 8 bits are enough",
)
_STRIDE = _Way(
    _contiguous,
    "elements that follow each other do not lie side by side",
    "give the last axis stride 1, by reordering the tile once or by loading it in that order",
)
_MEMORY = _Way(
    _in_sbuf,
    "a tile of it lies in PSUM",
    "copy the tile to SBUF once where several instructions use it",
)
#: Asked in this order; the first set that makes an instruction faster is proposed.
_WAYS: tuple[tuple[_Way, ...], ...] = (
    (_STRIDE,),
    (_STRIDE, _DTYPE),
    (_MEMORY,),
    (_DTYPE, _MEMORY),
    (_STRIDE, _DTYPE, _MEMORY),
)


#: The least number of instructions that must read a tile for a copy to SBUF to pay.
LEAST_READERS = 3


def _find(evidence: Evidence) -> Iterator[Proposal]:
    for group in (*evidence.groups_of(VECTOR), *evidence.groups_of(SCALAR)):
        for ways in _WAYS:
            faster = _faster(evidence, group.record, ways)
            if faster is None or any(_as_fast(evidence, group.record, faster, way) for way in ways):
                continue
            entries = group.entries
            if _MEMORY in ways:
                often = [_readers(evidence, n) >= LEAST_READERS for n in entries.tolist()]
                entries = entries[often]
            if len(entries):
                yield _proposal(replace(group, entries=entries), faster, ways)
                break


def _readers(evidence: Evidence, entry: int) -> int:
    """Return how many instructions read the tile in PSUM that an instruction reads."""
    tiles = evidence.instruction(entry).read()
    return max((int(evidence.readers[t.storage.id]) for t in tiles if t.buffer is PSUM), default=0)


def _faster(evidence: Evidence, record: Record, ways: tuple[_Way, ...]) -> Record | None:
    """Return the costs with every tile changed, or None where they are not lower."""

    def change(tensor: NkiTensor) -> NkiTensor:
        for way in ways:
            tensor = way.change(tensor)
        return tensor

    changed = evidence.with_tensors(record, change)
    return changed if changed.interval < record.interval else None


def _as_fast(evidence: Evidence, record: Record, faster: Record, way: _Way) -> bool:
    """Tell whether one way alone, which another set or another rule proposes, gains as much as several together."""
    alone = _faster(evidence, record, (way,))
    several = faster.interval < record.interval
    return several and way is _DTYPE and alone is not None and alone.interval <= faster.interval


def _proposal(group: Group, faster: Record, ways: tuple[_Way, ...]) -> Proposal:
    record = group.record
    return Proposal(
        f"{counted(len(group.entries), 'instruction')} of {record.form.engine.name} "
        f"({record.steps[0].opcode}, {_elements(record)} elements per partition), "
        f"{duration(record.interval / 1000)} each, which could be {duration(faster.interval / 1000)}: "
        + " and ".join(way.why for way in ways),
        "; ".join(way.help for way in ways),
        group.entries,
        changes=((group.entries, faster),),
        bound="what must be copied or cast for it is not counted",
    )


def _elements(record: Record) -> int:
    example = record.form.example
    return max(t.free_size for t in (*example.read(), *example.written()))


RULE = AdviceRule("slow mode", _find)
