"""Instructions with which every rank sends as many elements as a table says when the kernel runs.

Tensors are flat here: counts and displacements are in elements, whatever the shapes. The table of a rank,
`metadata_tensor`, has a column for each rank of its list and rows for what is sent, where from, what was received and
where to. Counts that do not fit are an error that names the rank and the entry.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import pairwise
from typing import Any

from nki_lab.dtypes import uint32
from nki_lab.errors import (
    AddressOutOfRange,
    InstructionError,
    NotModelled,
    NotOnTarget,
    WrongOperand,
)
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.instruction import (
    READ,
    UPDATE,
    Instruction,
    Order,
    Shape,
    instruction,
    reads,
    rule,
    updates,
)
from nki_lab.isa.numerics import stored
from nki_lab.isa.replica_groups import (
    EQUAL_LISTS,
    GROUP_RULES,
    PRIORITY,
    TAKES,
    each_to_its_own,
    exactly_one,
    lists_of,
    own_traffic,
    same_dtypes,
)
from nki_lab.isa.rules import flag
from nki_lab.source import Span
from nki_lab.targets.engines import DMA
from nki_lab.targets.facts import COLLECTIVES, GENERATED
from nki_lab.targets.spaces import HBM, SBUF

_COUNTS, _FROM, _RECEIVED, _TO = range(4)  # rows of the table
_SENT_ROWS = slice(_COUNTS, _FROM + 1)


def _role(i):
    """Say whether the row of received counts is written."""
    return READ if i.recv_counts_known is True else UPDATE


def _rows(*at):
    """Return `(i, tensor) -> view` of rows of the table, with its columns."""

    def part(i, t):
        return t[(slice(0, 1), *at) if t.storage.on_chip else at]

    return part


def _table(*read):
    return updates(
        *HBM, SBUF, role=_role, shape=Shape.OWN, dtypes=frozenset((uint32,)), part=_rows(*read),
        part_written=_rows(slice(_RECEIVED, _RECEIVED + 1), slice(None)),
    )  # fmt: skip


@rule(
    "`metadata_tensor` must have shape [rows, ranks] in HBM or [1, rows, ranks] in sbuf, with 3 rows, or 4 with"
    " `has_rdispls`, and a column for each rank of a list",
    "metadata_tensor",
    "replica_group",
    "has_rdispls",
    help="rows: counts sent, where they begin, counts received, and with has_rdispls where those go",
    source=f"{COLLECTIVES}:219",
)
def _table_shape(i, hw):
    shape = (3 + i.has_rdispls, len(i.replica_group[0]))
    on_chip = i.metadata_tensor.storage.on_chip
    return i.metadata_tensor.shape == ((1, *shape) if on_chip else shape)


@rule(
    "`metadata_tensor` must be contiguous",
    "metadata_tensor",
    help="make a tensor for the table alone",
    source=f"{COLLECTIVES}:219",
)
def _contiguous(i, hw):
    return i.metadata_tensor.is_contiguous()


@rule(
    "the number of elements of `dsts` must be divisible by the length of the lists of `replica_group`",
    "dsts",
    "replica_group",
    help="reserve the same number of elements for each sending rank",
    source=f"{COLLECTIVES}:70",
)
def _slots(i, hw):
    return i.dsts[0].size % len(i.replica_group[0]) == 0


_COMMON = (
    exactly_one("srcs", "dsts"),
    *GROUP_RULES,
    EQUAL_LISTS,
    replace(flag("recv_counts_known", "has_rdispls"), source=f"{COLLECTIVES}:113"),
    PRIORITY[0],
    same_dtypes("srcs", "dsts"),
)
_LAYOUT = (_table_shape, _contiguous, _slots)
_SRCS = reads(*HBM, shape=Shape.OWN, many=True)
_DSTS = updates(*HBM, shape=Shape.OWN, many=True)


def _send(name, ranks, s, r, src, dst, count, begin, slot, at, row):
    """Copy one chunk from rank s to rank r of the list, if it fits on both sides."""
    place = f"rank {ranks[s]} sends {count} elements from {begin} on to rank {ranks[r]}"
    if begin + count > src.size:
        raise AddressOutOfRange(
            f"{name}: {place}, and its source has {src.size}",
            help=f"see rows {_COUNTS} and {_FROM}, column {row} of metadata_tensor on rank {ranks[s]}",
        )
    if count > slot or at + count > dst.size:
        room = max(0, min(slot, dst.size - at))
        raise AddressOutOfRange(
            f"{name}: {place}, which has room for {room} from {at} on",
            help=f"see row {_COUNTS}, column {row} of metadata_tensor on rank {ranks[s]}",
        )
    dst[at : at + count] = src[begin : begin + count]


@rule(
    "the lists of `replica_group` must hold the ranks of one chip each, 4 from a multiple of 4 on",
    "replica_group",
    help="e.g. ReplicaGroup([[0, 1, 2, 3], [4, 5, 6, 7]])",
    source=f"{COLLECTIVES}:137",
)
def _ranks_of_a_chip(i, hw):
    return all(len(g) == 4 and min(g) % 4 == 0 and max(g) == min(g) + 3 for g in i.replica_group)


@rule(
    "`has_rdispls` must be False: chunks are laid out at equal distances",
    "has_rdispls",
    help="leave `has_rdispls` out; with all_to_all_v it may be True",
    source=f"{COLLECTIVES}:135",
)
def _equal_distances(i, hw):
    return i.has_rdispls is False


_GATHER_RULES = (*_COMMON, PRIORITY[1], _ranks_of_a_chip, _equal_distances, *_LAYOUT)


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs=_SRCS,
    dsts=_DSTS,
    metadata_tensor=_table(_SENT_ROWS, slice(0, 1)),
    requires=("lnc2",),
    rules=_GATHER_RULES,
    numerics=stored("srcs", "dsts", "metadata_tensor"),
    any_start=("srcs", "dsts", "metadata_tensor"),
    groups=lists_of,
    takes=TAKES,
    order=Order.NONE,
)
def all_gather_v(
    srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None
) -> None:  # fmt: skip
    """Put chunks of all ranks, of lengths known when it runs, on every rank.

    A rank sends `metadata_tensor`[0, 0] elements of `srcs[0]`, from element [1, 0] on, to every rank of its list. The
    chunk of the n-th rank comes to `dsts[0]` where the n-th of equal parts begins, one for each rank; the rest of a
    part stays as it was. Row 2 gets the number of elements that came from each rank, unless `recv_counts_known`. The
    device does this between the 4 ranks of a chip only, on two cores each: kernel[2].

    Source: nki/api/nki/collectives/__init__.py, all_gather_v.
    """


@all_gather_v.semantics
def _gather(out_dsts, out_metadata_tensor, srcs, metadata_tensor, ranks):
    count = len(ranks)
    slot = out_dsts[0][0].size // count
    for s, (src,) in enumerate(srcs):
        table = metadata_tensor[s].reshape(-1, count)
        sent, begin = int(table[_COUNTS, 0]), int(table[_FROM, 0])
        for r, (dst,) in enumerate(out_dsts):
            _send(
                "all_gather_v",
                ranks,
                s,
                r,
                src.reshape(-1),
                dst.reshape(-1),
                sent,
                begin,
                slot,
                s * slot,
                0,
            )
            if out_metadata_tensor is not None:
                out_metadata_tensor[r].reshape(-1, count)[_RECEIVED, s] = sent


all_gather_v.cost(each_to_its_own)


@rule(
    "the lists of `replica_group` must hold all 4 ranks of each of their chips, one rank after the other, on a target"
    " with `neuron_switch`",
    "replica_group",
    help="e.g. ReplicaGroup([list(range(8))]); a rank that sends nothing has counts of 0",
    source=f"{COLLECTIVES}:198",
)
def _whole_chips(i, hw):
    return not hw.supports("neuron_switch") or all(
        len(g) % 4 == 0 and g[0] % 4 == 0 and g == tuple(range(g[0], g[0] + len(g)))
        for g in i.replica_group
    )


@rule(
    "`replica_group` must have ranks of more than one chip, which have 4 each, on a target with `neuron_switch`",
    "replica_group",
    help="run on at least 8 ranks, or use all_to_all",
    error=NotOnTarget,
    source=f"{COLLECTIVES}:199",
)
def _several_chips(i, hw):
    return (
        not hw.supports("neuron_switch")
        or len({rank // 4 for g in i.replica_group for rank in g}) > 1
    )


_ALL_TO_ALL_V = f"{GENERATED}/nki.collectives.all_to_all_v.html"


@rule(
    "`has_rdispls` must be False on a target without `neuron_switch`, where it is for groups across nodes",
    "has_rdispls",
    help="leave `has_rdispls` out: all ranks are of one node here",
    error=NotOnTarget,
    source=_ALL_TO_ALL_V,
)
def _displacements_on_switch(i, hw):
    return i.has_rdispls is not True or hw.supports("neuron_switch")


_ON_ANY_CHIP = (*_COMMON, _displacements_on_switch, *_LAYOUT)
_EXCHANGE_RULES = (*_COMMON, _whole_chips, _several_chips, _displacements_on_switch, *_LAYOUT)


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs=_SRCS,
    dsts=_DSTS,
    metadata_tensor=_table(_SENT_ROWS, slice(None)),
    requires=("lnc2",),
    rules=_EXCHANGE_RULES,
    numerics=stored("srcs", "dsts", "metadata_tensor"),
    any_start=("srcs", "dsts", "metadata_tensor"),
    groups=lists_of,
    takes=TAKES,
    order=Order.NONE,
)
def all_to_all_v(
    srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None
) -> None:  # fmt: skip
    """Let every rank send chunks, of lengths known when it runs, to every rank.

    To the n-th rank of its list a rank sends `metadata_tensor`[0, n] elements of `srcs[0]`, from element [1, n] on. The
    chunk of the n-th rank comes to `dsts[0]` where the n-th of equal parts begins, one for each rank, or with
    `has_rdispls` at element [3, n]; what no chunk covers stays as it was. Row 2 gets the number of elements that came
    from each rank, unless `recv_counts_known`. The pages speak of the other ranks; a rank's chunk for itself is copied,
    too, which is an assumption.

    It needs two cores for each rank, kernel[2], and on chips with a NeuronSwitch (trn3) ranks of more than one chip. On
    others it is for ranks of one node since NKI 0.7; before, and with `has_rdispls`, it is between nodes, which is not
    modelled: all ranks are of one node here. That it needs two cores there, too, is assumed.

    Source: nki/api/nki/collectives/__init__.py, all_to_all_v; nki/api/generated/nki.collectives.all_to_all_v.html.
    """


@all_to_all_v.semantics
def _exchange(out_dsts, out_metadata_tensor, srcs, metadata_tensor, has_rdispls, ranks):
    count = len(ranks)
    slot = out_dsts[0][0].size // count
    tables = [table.reshape(-1, count) for table in metadata_tensor]
    for r, (dst,) in enumerate(out_dsts):
        came = []
        for s, (src,) in enumerate(srcs):
            sent, begin = int(tables[s][_COUNTS, r]), int(tables[s][_FROM, r])
            at, room = (int(tables[r][_TO, s]), dst.size) if has_rdispls else (s * slot, slot)
            _send(
                "all_to_all_v",
                ranks,
                s,
                r,
                src.reshape(-1),
                dst.reshape(-1),
                sent,
                begin,
                room,
                at,
                r,
            )
            came.append((at, at + sent, s))
            if out_metadata_tensor is not None:
                out_metadata_tensor[r].reshape(-1, count)[_RECEIVED, s] = sent
        _check_apart(ranks, r, came)


def _check_apart(ranks, r, came):
    """Refuse chunks that lie on each other: which one stays is not defined."""
    placed = sorted(chunk for chunk in came if chunk[0] < chunk[1])
    for (_, end, first), (begin, _, second) in pairwise(placed):
        if begin < end:
            raise AddressOutOfRange(
                f"all_to_all_v: on rank {ranks[r]} the chunk of rank {ranks[second]}, from {begin} on, overlaps that of"
                f" rank {ranks[first]}, which ends at {end}",
                help=f"see row {_TO} of metadata_tensor on rank {ranks[r]}",
            )


all_to_all_v.cost(each_to_its_own)


# -- the same in two parts (NKI 0.7) -----------------------------------------------------------------------------------
# The first part reads the table, early; the second moves the data. Both share one slot of the device: after a prepare
# comes exactly one trigger, and no other prepare before it.


def _in_two_parts(plain: Any, meaning: Any, rules: Any, table: Any) -> dict[str, Any]:
    """Define the two parts of a collective and return what kernels call for them."""
    name = plain.name

    def prepare(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None
    ) -> None:  # fmt: skip
        pass

    def trigger(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None
    ) -> None:  # fmt: skip
        pass

    prepare.__name__, trigger.__name__ = f"{name}_prepare", f"{name}_trigger"
    prepare.__doc__ = f"""Read the table of {name} early.

    The arguments are those of {name}. The elements of `srcs` and `dsts` are not looked at, so they may be written
    later. {name}_trigger takes what this returns, exactly once, before anything else is prepared. No page says
    whether ranks wait for each other here; they are taken to.

    Source: nki/api/generated/nki.collectives.{name}_prepare.html."""
    trigger.__doc__ = f"""Move the data of a {name} that was prepared.

    Source: nki/api/generated/nki.collectives.{name}_trigger.html."""
    common: dict[str, Any] = {
        "module": "nki.collectives", "engine": (DMA,), "any_start": ("srcs", "dsts", "metadata_tensor"),
        "groups": lists_of, "takes": TAKES, "order": Order.NONE, "requires": ("lnc2", "split_collectives"),
    }  # fmt: skip
    untouched: dict[str, Any] = {"role": lambda i: None, "shape": Shape.OWN, "many": True}
    first: Any = instruction(
        **common, srcs=reads(*HBM, **untouched), dsts=reads(*HBM, **untouched),
        metadata_tensor=replace(table, role=READ), rules=rules, numerics=stored("metadata_tensor"),
    )(prepare)  # fmt: skip
    first.semantics(lambda metadata_tensor: None)
    first.cost(lambda i, hw: own_traffic(f"{name.upper()}_PREPARE", (i.metadata_tensor,) * 2))
    second: Any = instruction(
        **common,
        srcs=_SRCS,
        dsts=_DSTS,
        metadata_tensor=table,
        rules=rules,
        numerics=stored("srcs", "dsts", "metadata_tensor"),
    )(trigger)
    second.semantics(meaning)
    second.cost(each_to_its_own)

    def prepared(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None
    ):  # fmt: skip
        builder = current()
        builder.check_named(f"nki.collectives.{first.name}")
        if builder.prepared is not None:
            raise InstructionError(
                f"{first.name} while {builder.prepared.definition.name}{_at(builder.prepared)} waits for its trigger",
                stack=builder.stack(),
                help="trigger what was prepared first: the device has one slot",
            )
        i = first(
            srcs,
            dsts,
            replica_group,
            metadata_tensor,
            recv_counts_known,
            has_rdispls,
            priority,
            name,
        )
        builder.prepared, builder.prepared_in = i, builder.loop
        return i

    def triggered(prepare_instr, name=None):
        builder = current()
        if not isinstance(prepare_instr, Instruction) or prepare_instr.definition is not first:
            raise WrongOperand(
                f"{second.name} takes what {first.name} returned; found {prepare_instr!r}",
                stack=builder.stack(),
                help=f"write prepared = ncc.{first.name}(...), then ncc.{second.name}(prepared)",
            )
        if prepare_instr is not builder.prepared or builder.prepared_in != builder.loop:
            raise InstructionError(
                f"{second.name} of {first.name}{_at(prepare_instr)}, which was triggered before or stands in another"
                " loop or kernel",
                stack=builder.stack(),
                help="prepare and trigger once each, in one loop",
            )
        builder.prepared = None
        if any(error.stack == prepare_instr.stack for error in builder.errors):
            return prepare_instr  # which was refused: its trigger would be, for the same arguments
        _check_table(builder, prepare_instr)
        i = builder.emit(second, (*prepare_instr.args[:-1], name))
        i.after += (prepare_instr,)
        return i

    for function, part, doc in ((prepared, first, prepare), (triggered, second, trigger)):
        function.__name__ = function.__qualname__ = part.name
        function.__doc__ = doc.__doc__
        part.__signature__ = inspect.signature(function)
    return {first.name: prepared, second.name: triggered}


def _at(i):
    return f" at {Span.of(i.stack[0])}" if i.stack else ""


def _check_table(builder, prepared):
    """Refuse to write the table between the two parts: no page says which values count then."""
    table = prepared.metadata_tensor.storage
    nodes = list(builder.body[builder.body.index(prepared) :])
    while nodes:
        node = nodes.pop()
        if not hasattr(node, "definition"):
            nodes += node.body
        elif any(t.storage is table for t in node.written()):
            raise NotModelled(
                f"`{table.name}` is written by {node.definition.name}{_at(node)} after {prepared.definition.name} has"
                " read it, and no page says which values the trigger takes",
                stack=builder.stack(),
                help="write the table before it is prepared",
            )


#: What kernels call instead of the definitions of the two parts, by name.
SPLIT = {
    **_in_two_parts(all_gather_v, _gather, _GATHER_RULES, _table(_SENT_ROWS, slice(0, 1))),
    **_in_two_parts(all_to_all_v, _exchange, _ON_ANY_CHIP, _table(_SENT_ROWS, slice(None))),
}
