"""Advice on loads, computation and stores that wait for each other although they could overlap."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from nki_lab.ir.definition.instruction import Instruction, Order
from nki_lab.ir.definition.operands import Shape
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.coverage import is_whole
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import DMA
from nki_lab.timing.advice.draft import Draft, Refused
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, duration
from nki_lab.timing.advice.psum_banks import common_ns

#: Less than this part of the run is too little to hide.
LEAST_PART = 0.05
#: Where the program is not compiled again, the shorter of moving and computing must take at least this part of the run,
#: and both at one time less than this part of it.
CLEAR_PART, OVERLAPPING = 0.15, 0.6
#: Numbers of parts in which a tile is tried.
PARTS = (4, 2, 8)


def _find(evidence: Evidence) -> Iterator[Proposal]:
    moving, computing = evidence.dma_spans, evidence.compute_spans
    times = [int((ends - starts).sum()) for starts, ends in (moving, computing)]
    if evidence.total_ns - evidence.busiest_ns < LEAST_PART * evidence.total_ns or not min(times):
        return
    common = common_ns(moving, computing)
    message = (
        f"transfers move for {duration(times[0])} and engines compute for {duration(times[1])}, but both at "
        f"one time only for {duration(common)}"
    )
    waits = list(evidence.timeline.program.waits)
    held = [n for n in evidence.loads.tolist() if _only_for_its_tile(evidence, n) and waits[n]]
    clear = min(times) >= CLEAR_PART * evidence.total_ns and common < OVERLAPPING * min(times)
    if held and (clear or evidence.can_edit):
        for n in held:
            waits[n] = ()
        entries = np.array(held, dtype=np.int64)
        names = dict.fromkeys(evidence.ends(n)[0].storage.name for n in held)
        yield Proposal(
            f"{message}: {counted(len(held), 'load')} held up by what still uses the tile",
            f"make {' and '.join(f'`{name}`' for name in [*names][:3])} and the tiles computed from it inside the "
            "loop, so that each trip has tiles for itself",
            entries,
            waits=waits,
            bound="as if each load had a tile for itself" if clear else "",
            edit=renewed,
        )
    if not evidence.can_edit:
        return
    least = evidence.target.dma_efficient_bytes_per_partition
    split = [
        n
        for n in evidence.timeline.transfers.tolist()
        if _fits(evidence.instruction(n), min(PARTS), least)
    ]
    for parts in PARTS if split else ():
        yield Proposal(
            f"{message}: {counted(len(split), 'transfer')} must be complete before what follows begins",
            f"load, compute and store in {parts} parts, column by column",
            np.array(split, dtype=np.int64),
            edit=partial(_in_parts, parts=parts),
        )


def _fits(i: Instruction, parts: int, least: int) -> bool:
    """Tell whether an instruction can work in parts, each of as many bytes as a transfer needs to be efficient."""
    if not _can_split(i):
        return False
    columns, rest = divmod(_columns(i), parts)
    if i.form.engine is DMA:
        least_columns = least // min(t.dtype.itemsize for t in (*i.read(), *i.written()))
        return not rest and columns >= least_columns
    return not rest


def _only_for_its_tile(evidence: Evidence, entry: int) -> bool:
    """Tell whether a load reads what nobody writes, so that it can only wait for the place it writes to."""
    if evidence.records[entry].form.dynamic:
        return False
    return evidence.ends(entry)[1].storage.id not in evidence.written


def renewed(draft: Draft) -> Kernel:
    """Return the program in which every instruction that fills a tile from scratch makes a new one."""
    latest: dict[int, NkiTensor] = {}
    filled: set[int] = set()
    changed = []

    def change(view: NkiTensor) -> NkiTensor:
        tile = latest.get(view.storage.id)
        if tile is None:
            return view
        return NkiTensor._make(tile.storage, view.shape, view.strides, view.offset, view.dtype)

    for i in draft.instructions:
        new = {}
        read = {t.storage.id for t in i.read()}
        for view in i.written():
            storage = view.storage
            if not storage.on_chip or storage.address is not None or not is_whole(view):
                continue
            if storage.id in filled and storage.id not in read:
                new[storage.id] = draft.tile(storage)
            filled.add(storage.id)
        latest.update(new)
        changed.append(draft.with_views(i, change))
    if len(draft.storages) == len(draft.kernel.storages):
        raise Refused
    return draft.done(changed)


def _can_split(i: Instruction) -> bool:
    """Tell whether an instruction may work column by column."""
    tensors = i.definition.tensors(i)
    free = None
    for _, operand, view in tensors:
        if view.dynamic is not None or len(view.shape) != 2:
            return False
        if operand.shape is Shape.VECTOR and view.shape[1] == 1:
            continue
        if free not in (None, view.shape[1]):
            return False
        free = view.shape[1]
    if free is None or i.form.state or i.definition.waits_for_others:
        return False
    if i.form.engine is DMA:
        return i.definition.order is Order.MOVES
    return all(i.definition.order_of(name) is Order.STREAM for name in _results(i))


def _results(i: Instruction) -> Iterator[str]:
    for position in i.form.writes:
        yield i.definition.params[position]


def _columns(i: Instruction) -> int:
    return max(view.shape[1] for _, _, view in i.definition.tensors(i))


def _in_parts(draft: Draft, parts: int) -> Kernel:
    """Return the program in which stretches of instructions on equal tiles go column by column."""
    stretches: list[list[Instruction]] = []
    sizes: list[int] = []
    least = draft.kernel.target.dma_efficient_bytes_per_partition
    for i in draft.instructions:
        width = _columns(i) if _fits(i, parts, least) else 0
        if not stretches or not width or sizes[-1] != width:
            stretches.append([])
            sizes.append(width)
        stretches[-1].append(i)
    # Without a transfer there is nothing to overlap with.
    moves = [any(i.form.engine is DMA for i in stretch) for stretch in stretches]
    sizes = [size * move for size, move in zip(sizes, moves, strict=True)]
    pieces: list[Instruction] = []
    order: list[int] = []
    for stretch, width in zip(stretches, sizes, strict=True):
        first, count = len(pieces), parts if width else 1
        step = width // parts
        for i in stretch:
            pieces += [_part(draft, i, k, step) for k in range(parts)] if width else [i]
        order += [first + n * count + k for k in range(count) for n in range(len(stretch))]
    if len(pieces) == len(draft.instructions):
        raise Refused
    return draft.reordered(pieces, order)


def _part(draft: Draft, i: Instruction, k: int, step: int) -> Instruction:
    def change(view: NkiTensor) -> NkiTensor:
        return view if view.shape[1] == 1 else view[:, k * step : (k + 1) * step]

    return draft.with_views(i, change)


RULE = AdviceRule("no overlap", _find)
