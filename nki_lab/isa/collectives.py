"""Instructions with which ranks gather, reduce and redistribute tensors.

Parts are numbered in the order of the rank's own list in `replica_group`. Sums are taken in float32 in that
order and rounded once, as nisa.dma_compute does; no page says how a collective rounds, so this is an assumption.
"""

from __future__ import annotations

import numpy as np

from nki_lab.ir.definition.instruction import Order, Shape, instruction, reads, rule, writes
from nki_lab.isa.numerics import stored
from nki_lab.isa.replica_groups import (
    EQUAL_LISTS,
    GROUP_RULES,
    PRIORITY,
    REDUCTION,
    SORTS_OF_HBM,
    TAKES,
    as_many,
    each_to_its_own,
    lists_of,
    numbers,
    one_memory,
    reduced,
    rows_of,
    same_dtypes,
    same_shapes,
    several_in_hbm,
    two_axes_in_sbuf,
)
from nki_lab.targets.engines import DMA
from nki_lab.targets.facts import COLLECTIVES
from nki_lab.targets.spaces import HBM, SBUF

_SRCS = reads(*HBM, SBUF, shape=Shape.OWN, many=True)
_DSTS = writes(*HBM, SBUF, shape=Shape.OWN, many=True)
_BOTH = ("srcs", "dsts")
_COMMON = (*GROUP_RULES, as_many(*_BOTH), *PRIORITY)
_WHERE = (one_memory(*_BOTH), several_in_hbm("srcs"), two_axes_in_sbuf(*_BOTH))


def _grown(shape, axis, times):
    """Return a shape with one axis `times` as long."""
    return (*shape[:axis], shape[axis] * times, *shape[axis + 1 :])


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs=_SRCS,
    dsts=_DSTS,
    rules=(
        *(*_COMMON, REDUCTION, *_WHERE, *SORTS_OF_HBM),
        *(same_dtypes(*_BOTH), same_shapes(*_BOTH), numbers(*_BOTH)),
    ),
    any_start=_BOTH,
    groups=lists_of,
    takes=TAKES,
    order=Order.MOVES,
)
def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None) -> None:
    """Reduce tensors over the ranks of each group; every rank gets the result.

    `dsts[k]` of every rank becomes `srcs[k]` of all ranks of its group, added (nl.add) or their smallest or largest
    (nl.minimum, nl.maximum), element by element. Lists of several tensors are for HBM. Elements are taken as float32,
    in the order of the list, and rounded once to the dtype of `dsts[k]`: an assumption, as no page says how.

    Source: nki/api/nki/collectives/__init__.py, all_reduce.
    """


@all_reduce.semantics
def _(out_dsts, srcs, op):
    for k in range(len(srcs[0])):
        total = reduced(op, [of_rank[k] for of_rank in srcs])
        for out in out_dsts:
            np.copyto(out[k], total)


all_reduce.cost(each_to_its_own)


@rule(
    "`collective_dim` must be 0, or 1 for tiles in sbuf",
    "collective_dim",
    "srcs",
    help="write collective_dim=0; gather along another axis of HBM through a copy with the axes in another order",
    source=f"{COLLECTIVES}:51",
)
def _gathered_axis(i, hw):
    in_sbuf = i.srcs[0].storage.on_chip
    return type(i.collective_dim) is int and i.collective_dim in ((0, 1) if in_sbuf else (0,))


@rule(
    "each tensor of `dsts` must have the shape of its source, with `collective_dim` as many times as long as a list of"
    " `replica_group`",
    "dsts",
    "srcs",
    "collective_dim",
    "replica_group",
    help="e.g. gather [32, 8] of 4 ranks into [128, 8]",
    source=f"{COLLECTIVES}:51",
)
def _gathers(i, hw):
    times, axis = len(i.replica_group[0]), i.collective_dim
    return all(
        axis < src.ndim and dst.shape == _grown(src.shape, axis, times)
        for src, dst in rows_of(i, _BOTH)
    )


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs=_SRCS,
    dsts=_DSTS,
    rules=(
        *(*_COMMON, EQUAL_LISTS, *_WHERE, *SORTS_OF_HBM),
        *(same_dtypes(*_BOTH), _gathered_axis, _gathers),
    ),
    numerics=stored(*_BOTH),
    any_start=_BOTH,
    groups=lists_of,
    takes=TAKES,
    order=Order.NONE,
)
def all_gather(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    """Put the tensors of all ranks of a group one after the other, on every rank.

    `dsts[k]` becomes `srcs[k]` of the first rank of the list, then of the second and so on, along `collective_dim`: 0,
    or 1 for tiles in SBUF. Bits are copied.

    Source: nki/api/nki/collectives/__init__.py, all_gather.
    """


@all_gather.semantics
def _(out_dsts, srcs, collective_dim):
    for k in range(len(srcs[0])):
        gathered = np.concatenate([of_rank[k] for of_rank in srcs], axis=collective_dim)
        for out in out_dsts:
            np.copyto(out[k], gathered)


all_gather.cost(each_to_its_own)


@rule(
    "`collective_dim` must be 0",
    "collective_dim",
    help="write collective_dim=0, with the axis to be divided as the first one",
    source=f"{COLLECTIVES}:159",
)
def _first_axis(i, hw):
    return type(i.collective_dim) is int and i.collective_dim == 0


@rule(
    "each tensor of `srcs` must have the shape of its destination, with axis 0 as many times as long as a list of"
    " `replica_group`",
    "srcs",
    "dsts",
    "replica_group",
    help="e.g. reduce [128, 8] on 4 ranks into [32, 8]",
    source=f"{COLLECTIVES}:158",
)
def _scatters(i, hw):
    times = len(i.replica_group[0])
    return all(src.shape == _grown(dst.shape, 0, times) for src, dst in rows_of(i, _BOTH))


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs=_SRCS,
    dsts=_DSTS,
    rules=(*_COMMON, EQUAL_LISTS, REDUCTION, _first_axis, *_WHERE, same_dtypes(*_BOTH), numbers(*_BOTH),
           _scatters),
    any_start=_BOTH,
    groups=lists_of,
    takes=TAKES,
    order=Order.NONE,
)  # fmt: skip
def reduce_scatter(srcs, dsts, replica_group, collective_dim, op, priority=None, name=None) -> None:
    """Reduce tensors over the ranks of each group; every rank gets one part.

    `srcs[k]` of the ranks are reduced as in all_reduce and divided along axis 0 into as many parts as there are ranks
    in the list; the n-th rank of the list gets the n-th part in `dsts[k]`.

    Source: nki/api/nki/collectives/__init__.py, reduce_scatter.
    """


@reduce_scatter.semantics
def _(out_dsts, srcs, op):
    for k in range(len(srcs[0])):
        total = reduced(op, [of_rank[k] for of_rank in srcs])
        for out, part in zip(out_dsts, np.split(total, len(srcs)), strict=True):
            np.copyto(out[k], part)


reduce_scatter.cost(each_to_its_own)


@rule(
    "axis 0 of each tensor of `srcs` must be divisible by the length of the lists of `replica_group`",
    "srcs",
    "replica_group",
    help="give axis 0 the same number of rows for each rank",
    source=f"{COLLECTIVES}:178",
)
def _divides(i, hw):
    return all(src.shape[0] % len(i.replica_group[0]) == 0 for src in i.srcs)


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs=reads(*HBM, shape=Shape.OWN, many=True),
    dsts=writes(*HBM, shape=Shape.OWN, many=True),
    rules=(*_COMMON, EQUAL_LISTS, _first_axis, same_dtypes(*_BOTH), same_shapes(*_BOTH), _divides),
    numerics=stored(*_BOTH),
    any_start=_BOTH,
    groups=lists_of,
    takes=TAKES,
    order=Order.NONE,
)
def all_to_all(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    """Let every rank of a group send a part of its tensors to every rank.

    Axis 0 of `srcs[k]` is divided into as many parts as there are ranks in the list. The n-th part goes to the n-th
    rank, where the parts of all ranks stand in `dsts[k]` in the order of the list: a transpose of parts and ranks. Only
    in HBM.

    Source: nki/api/nki/collectives/__init__.py, all_to_all.
    """


@all_to_all.semantics
def _(out_dsts, srcs):
    for k in range(len(srcs[0])):
        parts = [np.split(of_rank[k], len(srcs)) for of_rank in srcs]
        for n, out in enumerate(out_dsts):
            np.copyto(out[k], np.concatenate([part[n] for part in parts]))


all_to_all.cost(each_to_its_own)
