"""Which elements does an instruction read after it may have overwritten them itself?

An engine streams: element k is read, computed and written while later ones are still to be read. A destination in the
place of an operand is fine, one that runs ahead of it is not, and of a DMA transfer, whose parts run beside each other,
no overlap is. The simulator reads everything first, so it would show values that a device does not promise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial

import numpy as np

from nki_lab.ir.dynamic import identity
from nki_lab.ir.findings import FindingsByPlace
from nki_lab.ir.footprint import footprint, overlap
from nki_lab.ir.instruction import WRITE, Instruction, Shape
from nki_lab.ir.nodes import Finding, Kernel
from nki_lab.ir.tensor import NkiTensor
from nki_lab.targets.engines import DMA

# Larger storages are not looked at element by element.
_MOST_BYTES = 1 << 22


def find_overwritten(kernel: Kernel) -> tuple[Finding, ...]:
    """Return a finding for each instruction that writes elements before it has read them."""
    findings = FindingsByPlace(())
    known: dict[Hashable, bool] = {}  # unrolled loops ask the same again and again
    for n in kernel.touches.repeated():
        i = kernel.instructions[n]
        pairs = i.form.cache.get(find_overwritten)
        if pairs is None:
            pairs = i.form.cache[find_overwritten] = tuple(_pairs(i))
        for dst_at, src_at in pairs:
            for dst in _views(i.args[dst_at]):
                for src in _views(i.args[src_at]):
                    if dst.storage is not src.storage or not _may_overlap(dst, src):
                        continue
                    key = (i.form.engine is DMA, *_place(dst, dst), *_place(src, dst))
                    runs_ahead = known.get(key)
                    if runs_ahead is None:
                        runs_ahead = known[key] = _runs_ahead(i, dst, src)
                    if runs_ahead:
                        findings.add(
                            src_at, i.stack, partial(_finding, i, dst_at, src_at, dst, src)
                        )
    return findings.all()


def _pairs(i: Instruction) -> Iterator[tuple[int, int]]:
    """Yield the positions of a written and a read operand whose elements are taken in one order."""
    definition = i.definition
    written = [at for at, role in definition.roles(i) if role == WRITE]
    for dst_at in written:
        for src_at in i.form.reads:
            shapes = {definition.operands[definition.params[at]].shape for at in (dst_at, src_at)}
            if i.form.engine is DMA or shapes == {Shape.STREAM}:
                yield dst_at, src_at


def _views(value: object) -> tuple[NkiTensor, ...]:
    if type(value) is NkiTensor:
        return (value,)
    return tuple(v for v in value if type(v) is NkiTensor) if type(value) is tuple else ()


def _may_overlap(dst: NkiTensor, src: NkiTensor) -> bool:
    if dst.dynamic is not None or src.dynamic is not None or identity(dst) == identity(src):
        return False
    return overlap(footprint(dst), footprint(src)) and dst.storage.nbytes <= _MOST_BYTES


def _place(view: NkiTensor, start: NkiTensor) -> tuple[Hashable, ...]:
    """Return where the elements of a view lie, counted from the first element of another view of its storage."""
    first = view.offset * view.dtype.itemsize - start.offset * start.dtype.itemsize
    return first, view.shape, view.strides, view.dtype


def _runs_ahead(i: Instruction, dst: NkiTensor, src: NkiTensor) -> bool:
    transfer = i.form.engine is DMA
    streams = 1 if transfer else dst.shape[0]  # partitions run beside each other
    never = np.iinfo(np.int32).max
    written = np.full(dst.storage.nbytes, never, np.int32)
    for at, step in _bytes(dst, streams):
        written[at[::-1]] = step[::-1]  # of several steps that write a byte the first one stays
    if transfer:
        return any((written[at] != never).any() for at, _ in _bytes(src, streams))
    return any((written[at] < step).any() for at, step in _bytes(src, streams))


def _bytes(view: NkiTensor, streams: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, per byte of an element, the places of all elements, and at which step of the stream each comes."""
    places = np.array(view.offset)
    for count, stride in zip(view.shape, view.strides, strict=True):
        places = np.add.outer(places, np.arange(count) * stride)
    flat = places.reshape(-1) * view.dtype.itemsize
    steps = np.tile(np.arange(len(flat) // streams, dtype=np.int32), streams)
    for byte in range(view.dtype.itemsize):
        yield flat + byte, steps


def _finding(i: Instruction, dst_at: int, src_at: int, dst: NkiTensor, src: NkiTensor) -> Finding:
    params = i.definition.params
    return Finding(
        "hazard",
        f"{i.definition.name}: {params[dst_at]} = {dst.describe()} lies over elements of {params[src_at]} ="
        f" {src.describe()} that are read after they may have been overwritten",
        i.stack,
        help="write into another tile, or into exactly the place that is read",
    )
