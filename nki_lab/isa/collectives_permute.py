"""Instructions that pass tensors from rank to rank, and tell a rank its number.

In a ring each rank sends to its successor. On the device the order of a ring follows the wires, and each channel may
have another one; here it is the order of the rank's list in `replica_group`, on every channel. A kernel that asks
collective_permute_implicit_current_processing_rank_id whose data it holds computes the same with any order.
"""

from __future__ import annotations

import numpy as np

from nki_lab.errors import WrongOperand
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import (
    Order,
    Shape,
    instruction,
    reads,
    rule,
    updates,
    writes,
)
from nki_lab.ir.tensor.register import holds_32_bits
from nki_lab.isa.numerics import stored
from nki_lab.isa.replica_groups import (
    GROUP_RULES,
    PRIORITY,
    REDUCTION,
    TAKES,
    as_many,
    each_to_its_own,
    exactly_one,
    group_of,
    listed,
    lists_of,
    lists_ranks,
    numbers,
    one_each,
    one_memory,
    own_traffic,
    rows_of,
    same_dtypes,
    same_shapes,
    two_axes_in_sbuf,
)
from nki_lab.targets.engines import DMA, SYNC
from nki_lab.targets.facts import COLLECTIVE_COMMUNICATION, COLLECTIVES
from nki_lab.targets.spaces import HBM, SBUF

_MOST_CHANNELS, _USUAL_CHANNELS = 4, 2


# -- pairs -----------------------------------------------------------------------------------------------------------


@rule(
    "`source_target_pairs` must be a list of pairs of ranks (source, target)",
    "source_target_pairs",
    help="e.g. source_target_pairs=[(0, 1), (1, 0)]",
    error=WrongOperand,
    source=f"{COLLECTIVES}:283",
)
def _pairs(i, hw):
    pairs = i.source_target_pairs
    return lists_ranks(pairs) and all(len(p) == 2 for p in pairs)


@rule(
    "`source_target_pairs` must form rings: each rank in them sends once and receives once",
    "source_target_pairs",
    help="add the pairs that close the ring, e.g. (3, 0) to (0, 1), (1, 2), (2, 3)",
    source=f"{COLLECTIVE_COMMUNICATION}:79",
)
def _rings(i, hw):
    sources, targets = zip(*i.source_target_pairs, strict=True)
    return len(set(sources)) == len(sources) and sorted(sources) == sorted(targets)


def _taking_part(i, ranks):
    """Return the ranks in the pairs as one group; every other rank takes no part, and waits for nobody."""
    inside = sorted({rank for pair in i.source_target_pairs for rank in pair})
    return (tuple(inside), *((rank,) for rank in range(ranks) if rank not in inside))


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs=reads(*HBM, shape=Shape.OWN, many=True),
    dsts=updates(*HBM, shape=Shape.OWN, many=True),
    rules=(exactly_one("srcs", "dsts"), _pairs, _rings, *PRIORITY, same_dtypes("srcs", "dsts"),
           same_shapes("srcs", "dsts")),
    numerics=stored("srcs", "dsts"),
    any_start=("srcs", "dsts"),
    groups=_taking_part,
    order=Order.NONE,
)  # fmt: skip
def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None) -> None:
    """Send a tensor from rank to rank, by pairs (source, target).

    `dsts[0]` of a target becomes `srcs[0]` of its source. A rank in no pair takes no part: its `dsts[0]` stays as it
    was. Pairs must form rings, such as [(0, 1), (1, 2), (2, 0)] or the swap [(0, 1), (1, 0)]. Only in HBM.

    Source: nki/api/nki/collectives/__init__.py, collective_permute; neuron-runtime/about/collectives.rst:79.
    """


@collective_permute.semantics
def _(out_dsts, srcs, source_target_pairs, ranks):
    place = {rank: n for n, rank in enumerate(ranks)}
    for source, target in source_target_pairs:
        if source in place:  # a rank without part is here alone
            np.copyto(out_dsts[place[target]][0], srcs[place[source]][0])


collective_permute.cost(each_to_its_own)


# -- rings -----------------------------------------------------------------------------------------------------------


def _channels(*names):
    lists = (*names, "dsts_by_channel")
    return (
        *GROUP_RULES,
        _channel_ids,
        as_many(*lists),
        _one_per_channel,
        _few_channels,
        _channels_of_a_node,
        *PRIORITY,
        one_memory(*lists),
        two_axes_in_sbuf(*lists),
        same_dtypes(*lists),
        same_shapes(*lists),
    )


@rule(
    "`channel_ids` must be consecutive integers from 0 on",
    "channel_ids",
    help="write channel_ids=[0], or [0, 1] for two channels",
    error=WrongOperand,
    source=f"{COLLECTIVES}:315",
)
def _channel_ids(i, hw):
    ids = i.channel_ids
    return type(ids) is tuple and all(type(n) is int for n in ids) and ids == tuple(range(len(ids)))


@rule(
    "`channel_ids` must name one channel for each list of `dsts_by_channel`",
    "channel_ids",
    "dsts_by_channel",
    help="write channel_ids=[0, 1] for two lists of one tensor",
    source=f"{COLLECTIVES}:304",
)
def _one_per_channel(i, hw):
    return len(i.channel_ids) == len(i.dsts_by_channel)


@rule(
    f"`channel_ids` must name at most {_MOST_CHANNELS} channels",
    "channel_ids",
    help="send larger tensors over fewer channels",
    source=f"{COLLECTIVES}:308",
)
def _few_channels(i, hw):
    return len(i.channel_ids) <= _MOST_CHANNELS


@rule(
    f"more than {_USUAL_CHANNELS} channels are only for a `replica_group` of lists that hold all devices of a node,"
    " which the device asks for",
    "channel_ids",
    "replica_group",
    help=f"use {_USUAL_CHANNELS} channels, or run on all ranks of a node",
    source=f"{COLLECTIVES}:308",
    finding="portability",
)
def _channels_of_a_node(i, hw):
    return len(i.channel_ids) <= _USUAL_CHANNELS


def _ring_cost(i, hw):
    names = [n for n in i.definition.operands if n != "dsts_by_channel"]
    pairs = [(dst, src) for n in names for dst, src in rows_of(i, ("dsts_by_channel", n))]
    yield from own_traffic(i.definition.name.upper(), *pairs)


_SENT = reads(*HBM, SBUF, shape=Shape.OWN, many=True, nested=True)
_RECEIVED = writes(*HBM, SBUF, shape=Shape.OWN, many=True, nested=True)


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs_by_channel=_SENT,
    dsts_by_channel=_RECEIVED,
    rules=_channels("srcs_by_channel"),
    numerics=stored("srcs_by_channel", "dsts_by_channel"),
    any_start=("srcs_by_channel", "dsts_by_channel"),
    groups=lists_of,
    takes={
        **TAKES,
        "srcs_by_channel": one_each,
        "dsts_by_channel": one_each,
        "channel_ids": listed,
    },
    order=Order.NONE,
)
def collective_permute_implicit(
    srcs_by_channel, dsts_by_channel, replica_group, channel_ids=[0], priority=None, name=None  # noqa: B006
) -> None:  # fmt: skip
    """Send tensors one rank further in a ring, over one or more channels.

    Each rank sends `srcs_by_channel[c][0]` to its successor and receives its predecessor's in `dsts_by_channel[c][0]`;
    channels are independent of each other. Whose data a rank holds after n such steps,
    collective_permute_implicit_current_processing_rank_id says. Here the ring is the order of the rank's list in
    `replica_group`, on every channel; the device follows its wires.

    Source: nki/api/nki/collectives/__init__.py, collective_permute_implicit.
    """


@collective_permute_implicit.semantics
def _(out_dsts_by_channel, srcs_by_channel):
    for n, sent in enumerate(srcs_by_channel):
        received = out_dsts_by_channel[(n + 1) % len(srcs_by_channel)]
        for out, tensor in zip(received, sent, strict=True):
            np.copyto(out, tensor)


collective_permute_implicit.cost(_ring_cost)


@instruction(
    module="nki.collectives",
    engine=(DMA,),
    srcs0_by_channel=_SENT,
    srcs1_by_channel=_SENT,
    dsts_by_channel=_RECEIVED,
    rules=(*_channels("srcs0_by_channel", "srcs1_by_channel"), REDUCTION,
           numbers("srcs0_by_channel", "srcs1_by_channel")),
    any_start=("srcs0_by_channel", "srcs1_by_channel", "dsts_by_channel"),
    groups=lists_of,
    takes={**TAKES, "srcs0_by_channel": one_each, "srcs1_by_channel": one_each, "dsts_by_channel": one_each,
           "channel_ids": listed},
    order=Order.NONE,
)  # fmt: skip
def collective_permute_implicit_reduce(
    srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op, channel_ids=[0], priority=None,  # noqa: B006
    name=None,
) -> None:  # fmt: skip
    """Reduce two tensors and send the result one rank further in a ring.

    Each rank computes `op` of `srcs0_by_channel[c][0]` and `srcs1_by_channel[c][0]` in float32, rounds once (an
    assumption, see all_reduce), sends the result to its successor and receives its predecessor's in
    `dsts_by_channel[c][0]`.

    Source: nki/api/nki/collectives/__init__.py, collective_permute_implicit_reduce.
    """


@collective_permute_implicit_reduce.semantics
def _(out_dsts_by_channel, srcs0_by_channel, srcs1_by_channel, op):
    for n, pair in enumerate(zip(srcs0_by_channel, srcs1_by_channel, strict=True)):
        received = out_dsts_by_channel[(n + 1) % len(srcs0_by_channel)]
        for out, a, b in zip(received, *pair, strict=True):
            op.apply(a, b, out)


collective_permute_implicit_reduce.cost(_ring_cost)


# -- registers -------------------------------------------------------------------------------------------------------


@rule(
    "`iteration_id` must be a register, a scalar of 32 bits or an integer from 0 on",
    "iteration_id",
    help="pass the counter of the loop",
    error=WrongOperand,
    source=f"{COLLECTIVES}:387",
)
def _iteration(i, hw):
    value = i.iteration_id
    return holds_32_bits(value) or (type(value) is int and value >= 0)


@rule(
    f"`channel_id` must be an integer from 0 to {_MOST_CHANNELS - 1}",
    "channel_id",
    help="write channel_id=0 for a single channel",
    error=WrongOperand,
    source=f"{COLLECTIVES}:389",
)
def _channel(i, hw):
    return type(i.channel_id) is int and 0 <= i.channel_id < _MOST_CHANNELS


@instruction(
    module="nki.collectives",
    engine=(SYNC,),
    sets=("register",),
    gives="register",
    rules=(_iteration, *GROUP_RULES, _channel),
    takes=TAKES,
)
def collective_permute_implicit_current_processing_rank_id(
    register, iteration_id, replica_group, channel_id=0, name=None
) -> None:
    """Return, in a register, the rank whose data is processed in a step of a ring.

    In step 0 that is the rank's own number, in step n the number of the rank n places before it. Use the register as
    an address: t.ap(..., scalar_offset=register) or t.select(dim, register).

    Args:
        iteration_id: the step: an integer, or a register or scalar such as the counter of a device loop. The page
            says integer; a scalar stands where an integer does (nki.isa.NkiScalar).
        replica_group: the rings.
        channel_id: the channel that brought the data.
        name: name of the instruction.

    Source: nki/api/nki/collectives/__init__.py, collective_permute_implicit_current_processing_rank_id.
    """


@collective_permute_implicit_current_processing_rank_id.semantics
def _(out_register, iteration_id, replica_group, rank):
    ring = group_of("current_processing_rank_id", replica_group, rank)
    out_register[0] = ring[(ring.index(rank) - iteration_id) % len(ring)]


@collective_permute_implicit_current_processing_rank_id.cost
def _(i, hw):
    yield MicroOp("CURRENT_PROCESSING_RANK_ID", hw.min_interval_cycles)


@instruction(module="nki.collectives", engine=(SYNC,), sets=("register",), gives="register")
def rank_id(register, name=None) -> None:
    """Return the number of the rank that runs, in a register.

    It is only known at run time: all ranks run one program. It is a VirtualRegister; a later NKI will return an
    NkiScalar (nki/api/generated/nki.collectives.rank_id.html). A kernel that is called runs as rank 0;
    nki_lab.launch(kernel, ranks=4, ...) runs it as ranks 0 to 3.

    Source: nki/api/nki/collectives/__init__.py, rank_id.
    """


@rank_id.semantics
def _(out_register, rank):
    out_register[0] = rank


@rank_id.cost
def _(i, hw):
    yield MicroOp("RANK_ID", hw.min_interval_cycles)
