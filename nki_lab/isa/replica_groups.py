"""The ranks that take part in a collective, and the rules of its tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from operator import add
from typing import Any

import numpy as np

from nki_lab.errors import RanksDiffer, WrongOperand
from nki_lab.ir.definition.cost import Transfer
from nki_lab.ir.definition.form_key import plain_value
from nki_lab.ir.definition.instruction import Instruction, Rule, rule
from nki_lab.ir.tensor.trace import active
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import Opaque
from nki_lab.isa.dma import PRIORITY_RULES
from nki_lab.isa.operators import Op
from nki_lab.isa.rules import named, one_of_operators
from nki_lab.targets.engines import SYNC
from nki_lab.targets.facts import COLLECTIVES, GENERATED
from nki_lab.targets.spaces import SBUF, SHARED_HBM

_SHOWN = 8  # groups in a message
Groups = tuple[tuple[int, ...], ...]


# -- from what authors give to what a program holds ------------------------------------------------------------------


def rank_lists(group: Any) -> Any:
    """Return the lists of a ReplicaGroup as tuples; of anything else its class, which a rule refuses."""
    lists = getattr(group, "replica_groups", None)
    return Opaque(type(group).__name__) if lists is None else plain_value(lists)


def one_each(channels: Any) -> Any:
    """Return the tensors of a list of lists of one tensor; of anything else its class, which a rule refuses."""
    if not isinstance(channels, (list, tuple)) or not all(
        isinstance(c, (list, tuple)) and len(c) == 1 for c in channels
    ):
        return Opaque(type(channels).__name__)
    return tuple(c[0] for c in channels)


def listed(value: Any) -> Any:
    """Return a list as a tuple; of anything else its class, which a rule refuses."""
    return tuple(value) if isinstance(value, (list, tuple)) else Opaque(type(value).__name__)


TAKES: Mapping[str, Callable[[Any], Any]] = {"replica_group": rank_lists}


# -- groups ----------------------------------------------------------------------------------------------------------


def lists_of(i: Instruction, ranks: int) -> Groups:
    """Return the groups that meet in a collective with a `replica_group`."""
    return i.replica_group


def lists_ranks(lists: Any) -> bool:
    """Return whether a value is a tuple of tuples of ranks, none of them empty."""
    return (
        type(lists) is tuple
        and bool(lists)
        and all(type(ranks) is tuple and ranks for ranks in lists)
        and all(type(rank) is int and rank >= 0 for ranks in lists for rank in ranks)
    )


def group_of(name: str, groups: Sequence[Sequence[int]], rank: int) -> tuple[int, ...]:
    """Return the group that holds `rank`."""
    for group in groups:
        if rank in group:
            return tuple(group)
    shown = [list(group) for group in groups[:_SHOWN]]
    raise RanksDiffer(
        f"{name}: rank {rank} calls it, but is not in any group of {shown}",
        help=f"every rank runs the whole kernel, so add rank {rank} to a group, or give it its own group, [{rank}]",
    )


@rule(
    "`replica_group` must be a ReplicaGroup of lists of ranks, which are integers from 0 on",
    "replica_group",
    help="write replica_group=nki.collectives.ReplicaGroup([[0, 1], [2, 3]])",
    error=WrongOperand,
    source=f"{COLLECTIVES}:10",
)
def _is_group(i, hw):
    return lists_ranks(i.replica_group)


@rule(
    "the lists of `replica_group` must not overlap",
    "replica_group",
    help="put every rank into exactly one list",
    source=f"{COLLECTIVES}:13",
)
def _disjoint(i, hw):
    ranks = reduce(add, i.replica_group)
    return len(set(ranks)) == len(ranks)


#: Rules of every `replica_group`.
GROUP_RULES: tuple[Rule, ...] = (_is_group, _disjoint)


def _equal_lists(i, hw):
    return len({len(g) for g in i.replica_group}) == 1


#: A kernel is traced once for all ranks, so its shapes fit one length of lists only.
EQUAL_LISTS = rule(
    "the lists of `replica_group` must be of one length, on which the shapes of the tensors depend",
    "replica_group",
    help="divide the ranks into lists of equal length",
    source=COLLECTIVES,
)(_equal_lists)


# -- tensors ---------------------------------------------------------------------------------------------------------


def tensors_of(i: Instruction, names: Sequence[str]) -> list[NkiTensor]:
    """Return all tensors of the lists called `names`."""
    return [t for n in names for t in getattr(i, n)]


def as_many(*names: str) -> Rule:
    """Require lists of one length, with at least one tensor."""
    return rule(
        f"{named(names)} must hold the same number of tensors, at least one",
        *names,
        help="give each source its destination",
        source=COLLECTIVES,
    )(lambda i, hw: len({len(getattr(i, n)) for n in names}) == 1 and len(getattr(i, names[0])) > 0)


def exactly_one(*names: str) -> Rule:
    """Require lists of exactly one tensor."""
    return rule(
        f"{named(names)} must hold exactly one tensor",
        *names,
        help="call it once for each tensor",
        source=COLLECTIVES,
    )(lambda i, hw: all(len(getattr(i, n)) == 1 for n in names))


def one_memory(*names: str) -> Rule:
    """Require that all tensors are in HBM, or all in SBUF."""
    return rule(
        f"the tensors of {named(names)} must be all in HBM or all in sbuf",
        *names,
        help="copy those on one side with nisa.dma_copy",
        source=f"{COLLECTIVES}:24",
    )(lambda i, hw: len({t.storage.on_chip for t in tensors_of(i, names)}) <= 1)


_ALL_REDUCE = f"{GENERATED}/nki.collectives.all_reduce.html"


def _one_sort_of_hbm(name: str) -> Rule:
    return rule(
        f"the tensors of `{name}` in HBM must be all in private_hbm, or all in shared_hbm",
        name,
        help="make them in one sort of HBM",
        source=_ALL_REDUCE,
    )(lambda i, hw: len({t.buffer is SHARED_HBM for t in getattr(i, name)}) <= 1)


def _shares_alone(i: Instruction, name: str) -> bool:
    """Tell whether a kernel for NKI 0.7 or later, on one core, gives tensors in shared HBM."""
    builder = active.builder
    alone = builder is not None and builder.program[1] == 1 and builder.version.number >= (0, 7)
    return alone and any(t.buffer is SHARED_HBM for t in getattr(i, name))


def _may_share() -> bool:
    return os.environ.get("NKI_LNC1_SHARED_HBM") == "1"


#: Rules about private and shared HBM. What NKI refuses on one core alone computes the same here.
SORTS_OF_HBM = (
    _one_sort_of_hbm("srcs"),
    _one_sort_of_hbm("dsts"),
    rule(
        "in a kernel on one core, `srcs` must not be in shared_hbm (NKI 0.7)",
        "srcs",
        help="make them with buffer=nl.private_hbm",
        source=_ALL_REDUCE,
        finding="portability",
    )(lambda i, hw: not _shares_alone(i, "srcs")),
    rule(
        "in a kernel on one core, `dsts` may be in shared_hbm only with NKI_LNC1_SHARED_HBM=1 (NKI 0.7)",
        "dsts",
        help="make them with buffer=nl.private_hbm, or set the environment variable",
        source=_ALL_REDUCE,
        finding="portability",
    )(lambda i, hw: _may_share() or not _shares_alone(i, "dsts")),
)


def several_in_hbm(name: str) -> Rule:
    """Require tensors in HBM where there is more than one."""
    return rule(
        f"`{name}` may hold more than one tensor only in HBM",
        name,
        help="call it once for each tile",
        source=f"{COLLECTIVES}:25",
    )(lambda i, hw: len(getattr(i, name)) == 1 or not getattr(i, name)[0].storage.on_chip)


def two_axes_in_sbuf(*names: str) -> Rule:
    """Require tiles with one free axis."""
    return rule(
        f"the tiles of {named(names)} must have one free axis: [partitions, elements]",
        *names,
        help="merge the free axes with .reshape",
        source=f"{COLLECTIVES}:53",
    )(lambda i, hw: all(t.ndim == 2 or not t.storage.on_chip for t in tensors_of(i, names)))


def same_dtypes(*names: str) -> Rule:
    """Require one dtype of the tensors that belong together."""
    return rule(
        f"{named(names)} must have the same dtype, tensor by tensor",
        *names,
        help="cast before or after, with nisa.tensor_copy or nisa.dma_copy",
        source=COLLECTIVES,
    )(lambda i, hw: all(len({t.dtype for t in row}) == 1 for row in rows_of(i, names)))


def rows_of(i: Instruction, names: Sequence[str]) -> list[tuple[NkiTensor, ...]]:
    """Return the tensors that belong together, e.g. source and destination."""
    return list(zip(*(getattr(i, n) for n in names), strict=False))


def same_shapes(*names: str) -> Rule:
    """Require one shape of the tensors that belong together."""
    return rule(
        f"{named(names)} must have the same shape, tensor by tensor",
        *names,
        help="make each destination like its source",
        source=COLLECTIVES,
    )(lambda i, hw: all(len({t.shape for t in row}) == 1 for row in rows_of(i, names)))


def numbers(*names: str) -> Rule:
    """Refuse dtypes that cannot be reduced."""
    return rule(
        f"{named(names)} must not have packed (x4) or scale dtypes, which cannot be reduced",
        *names,
        help="view the tensors as the dtype of one value",
        source=COLLECTIVES,
    )(lambda i, hw: all(t.dtype.kind not in ("packed", "scale") for t in tensors_of(i, names)))


REDUCTION = replace(one_of_operators("op", "add", "minimum", "maximum"), source=f"{COLLECTIVES}:31")
PRIORITY = tuple(replace(r, source=f"{COLLECTIVES}:32") for r in PRIORITY_RULES)


def reduced(op: Op, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return float32 arrays reduced one after the other, in the order given."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        op.apply(total, array, total)
    return total


# -- cost ------------------------------------------------------------------------------------------------------------


def own_traffic(opcode: str, *pairs: tuple[NkiTensor, ...]) -> list[Transfer]:
    """Return the transfers of a rank's own memory: every (destination, source) written and read once.

    How long data takes between ranks, and which of the documented algorithms moves it
    (neuron-runtime/explore/intranode-collective-comm.rst), depends on who runs beside whom, and is not modelled.
    """
    traffic = []
    for dst, src in pairs:
        read, written = (prod(t.shape) * t.dtype.itemsize for t in (src, dst))
        on_chip = src.buffer is SBUF
        larger = dst if written > read else src
        count = larger.shape[0] if on_chip else 1
        space = "sbuf" if on_chip else "hbm"
        traffic.append(
            Transfer(
                opcode, descriptor_bytes=max(read, written) // count, descriptors=count, partitions=count,
                bytes_read=read, bytes_written=written, source=space, destination=space, dge="none", issuer=SYNC,
            )
        )  # fmt: skip
    return traffic


def each_to_its_own(i: Instruction, hw: Any) -> list[Transfer]:
    """Return the cost of a collective whose `dsts[k]` come from `srcs[k]`."""
    return own_traffic(i.definition.name.upper(), *rows_of(i, ("dsts", "srcs")))
