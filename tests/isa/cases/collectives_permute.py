"""Cases of the collectives that pass tensors from rank to rank, and of the registers that hold a rank's number."""

from __future__ import annotations

import numpy as np

from nki_lab.api.collectives import ReplicaGroup
from nki_lab.isa.control import register_alloc
from tests.isa.case import Case, empty, isa, nl, sample, tile
from tests.isa.cases.collectives import (
    ALL_OF_4,
    OLD,
    PAIRS,
    RANKS,
    A,
    B,
    collective,
    group_breaks,
    hbm,
    of_group,
    placed,
    room,
)

SAME = placed(8, 6)
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def by_pairs(name, pairs, expected=None, srcs=None, dsts=None, more=None, **facts):
    return collective(
        "collective_permute", name, srcs or [hbm(A)], dsts or [room(8, 6)], None if expected is None else [expected],
        group=None, given={"source_target_pairs": pairs, **(more or {})}, **facts,
    )  # fmt: skip


def permute_cases():
    yield by_pairs("ring", RING, A[[3, 0, 1, 2]])
    yield by_pairs("swaps", [(0, 3), (3, 0), (1, 2), (2, 1)], A[[3, 2, 1, 0]])
    untouched = room(8, 6).data
    yield by_pairs(
        "some ranks", [(1, 3), (3, 1)], np.stack([untouched[0], A[3], untouched[2], A[1]])
    )
    bits = A.view(np.int32)
    yield by_pairs("bits", RING, bits[[3, 0, 1, 2]], [hbm(bits)], [room(8, 6, dtype="int32")])
    yield by_pairs("no pairs", [0, 1], breaks="must be a list of pairs")
    yield by_pairs("a chain", [(0, 1), (1, 2)], breaks="must form rings")
    yield by_pairs("two senders", [(0, 1), (2, 1), (1, 0)], breaks="must form rings")
    yield by_pairs(
        "two tensors", RING, srcs=[SAME()] * 2, dsts=[SAME()] * 2, breaks="exactly one tensor"
    )
    yield by_pairs("dtypes", RING, srcs=[SAME(dtype="float16")], breaks="the same dtype")
    yield by_pairs("shapes", RING, dsts=[placed(6, 8)()], breaks="the same shape")
    yield by_pairs("priority", RING, more={"priority": -1}, breaks="None or an integer from 0")
    yield by_pairs(
        "priority before v4", RING, more={"priority": 0}, targets=OLD, breaks="`dma_priority`"
    )


def ring(
    instruction, name, tiles, expected=None, *, group=ALL_OF_4, given=None, nest=True, **facts
):
    """Make a case of a ring; `tiles` are lists of tiles per parameter, one for each channel."""
    named = {f"{p}_{k}": t for p, row in tiles.items() for k, t in enumerate(row)}
    replica_group = ReplicaGroup(group) if isinstance(group, list) else group

    def run(t):
        lists = {p: [[getattr(t, f"{p}_{k}")] for k in range(len(row))] for p, row in tiles.items()}
        if not nest:
            lists["dsts_by_channel"] = [t for (t,) in lists["dsts_by_channel"]]
        getattr(isa, instruction)(**lists, replica_group=replica_group, **(given or {}))

    results = (
        {} if expected is None else {f"dsts_by_channel_{k}": e for k, e in enumerate(expected)}
    )
    return Case(instruction, name, named, run, results, ranks=RANKS, **facts)


def before(data, groups=ALL_OF_4):
    """Return, for every rank, what its predecessor has."""
    return of_group(groups, lambda group, place: data[group[place - 1]])


def ring_breaks(instruction, sources, given=None):
    lists = (*sources, "dsts_by_channel")

    def tiles(make=SAME, count=1, **changed):
        return {p: [changed.get(p, make)() for _ in range(count)] for p in lists}

    def broken(name, *, group=ALL_OF_4, more=None, these=None, **facts):
        return ring(
            instruction,
            name,
            these or tiles(),
            group=group,
            given={**(given or {}), **(more or {})},
            **facts,
        )

    on_chip = lambda: SAME(space=None)  # noqa: E731
    first = sources[0]
    yield from group_breaks(broken)
    yield broken("tensors without lists", nest=False, breaks="must be a list of lists")
    yield broken("fewer destinations", these={**tiles(count=2), "dsts_by_channel": [SAME()]},
                 more={"channel_ids": [0]}, breaks="the same number of tensors")  # fmt: skip
    yield broken("channels from 1", more={"channel_ids": [1]}, breaks="consecutive integers from 0")
    yield broken(
        "no list of channels", more={"channel_ids": 0}, breaks="consecutive integers from 0"
    )
    yield broken(
        "channels left over", more={"channel_ids": [0, 1]}, breaks="one channel for each list"
    )
    five = {"these": tiles(count=5), "more": {"channel_ids": [0, 1, 2, 3, 4]}}
    yield broken("five channels", **five, breaks="at most 4 channels")
    yield broken(
        "two memories", these=tiles(**{first: on_chip}), breaks="all in HBM or all in sbuf"
    )
    yield broken(
        "two free axes", these=tiles(lambda: SAME(space=None, more=(2,))), breaks="one free axis"
    )
    yield broken(
        "dtypes", these=tiles(**{first: lambda: SAME(dtype="float16")}), breaks="the same dtype"
    )
    yield broken("shapes", these=tiles(dsts_by_channel=placed(6, 8)), breaks="the same shape")


def implicit_cases():
    name = "collective_permute_implicit"
    yield ring(
        name, "four", {"srcs_by_channel": [hbm(A)], "dsts_by_channel": [room(8, 6)]}, [before(A)]
    )
    yield ring(name, "pairs", {"srcs_by_channel": [hbm(A)], "dsts_by_channel": [room(8, 6)]},
               [before(A, PAIRS)], group=PAIRS)  # fmt: skip
    channels = {"given": {"channel_ids": [0, 1]}}
    yield ring(name, "two channels", {"srcs_by_channel": [tile(A), tile(B)],
               "dsts_by_channel": [empty(A.shape), empty(B.shape)]}, [before(A), before(B)], **channels)  # fmt: skip
    # Three channels are for whole nodes, which a device knows: a finding, and a result.
    data = [sample(RANKS, 3, 5, seed=n) for n in range(3)]
    yield ring(name, "three channels", {"srcs_by_channel": [hbm(d) for d in data],
               "dsts_by_channel": [room(3, 5) for _ in data]}, [before(d) for d in data],
               given={"channel_ids": [0, 1, 2]})  # fmt: skip
    yield from ring_breaks(name, ("srcs_by_channel",))


def reduce_cases():
    name = "collective_permute_implicit_reduce"

    def call(title, op, expected, groups=ALL_OF_4):
        tiles = {
            "srcs0_by_channel": [hbm(A)],
            "srcs1_by_channel": [hbm(B)],
            "dsts_by_channel": [room(8, 6)],
        }
        return ring(name, title, tiles, [before(expected, groups)], group=groups, given={"op": op}, rtol=1e-6,
                    atol=1e-7)  # fmt: skip

    a, b = A.astype(float), B.astype(float)
    yield call("sum", nl.add, a + b)
    yield call("minimum in pairs", nl.minimum, np.where(a < b, a, b), PAIRS)
    yield call("maximum", nl.maximum, np.where(a > b, a, b))
    data = [sample(RANKS, 3, 5, seed=n) for n in range(3)]
    yield ring(
        name, "three channels of tiles",
        {"srcs0_by_channel": [tile(d) for d in data], "srcs1_by_channel": [tile(d[:, ::-1]) for d in data],
         "dsts_by_channel": [empty(d.shape) for d in data]},
        [before(d.astype(float) + d[:, ::-1]) for d in data],
        given={"op": nl.add, "channel_ids": [0, 1, 2]}, rtol=1e-6, atol=1e-7,
    )  # fmt: skip
    yield from ring_breaks(name, ("srcs0_by_channel", "srcs1_by_channel"), {"op": nl.add})
    packed = [lambda: SAME(dtype="float8_e8m0fnu")] * 3
    lists = ("srcs0_by_channel", "srcs1_by_channel", "dsts_by_channel")
    yield ring(name, "scales", {p: [make()] for p, make in zip(lists, packed, strict=True)}, given={"op": nl.add},
               breaks="which cannot be reduced")  # fmt: skip
    yield ring(
        name,
        "operator",
        {p: [SAME()] for p in lists},
        given={"op": nl.divide},
        breaks="`op` must be",
    )


def number(instruction, name, expected=None, *, register=False, **given):
    """Make a case whose register is stored; `register` gives the step in a register, too."""
    groups = given.get("replica_group")
    if isinstance(groups, list):
        given["replica_group"] = ReplicaGroup(groups)
    facts = {k: given.pop(k) for k in list(given) if k in ("breaks", "targets")}

    def run(t):
        arguments = dict(given)
        if register:
            step = register_alloc()
            isa.register_load(step, t.step)
            arguments["iteration_id"] = step
        isa.register_store(t.dst, getattr(isa, instruction)(**arguments))

    tiles = {"dst": room(1, dtype="int32")}
    if register:
        tiles["step"] = hbm(np.full((RANKS, 1), given["iteration_id"], np.int32))
    results = {} if expected is None else {"dst": np.array(expected)[:, None]}
    return Case(instruction, name, tiles, run, results, ranks=RANKS, **facts)


def register_cases():
    yield number("rank_id", "stored", [0, 1, 2, 3])
    name = "collective_permute_implicit_current_processing_rank_id"
    yield number(name, "own data first", [0, 1, 2, 3], iteration_id=0, replica_group=ALL_OF_4)
    yield number(
        name, "two steps", [2, 3, 0, 1], iteration_id=2, replica_group=ALL_OF_4, channel_id=1
    )
    yield number(
        name, "in the order of the list", [2, 3, 0, 1], iteration_id=1, replica_group=PAIRS
    )
    odd = [[3, 0, 2, 1]]
    yield number(name, "backwards", [3, 2, 0, 1], iteration_id=1, replica_group=odd)
    yield number(
        name, "more steps than ranks", [3, 0, 1, 2], iteration_id=5, replica_group=ALL_OF_4
    )
    yield number(
        name,
        "step in a register",
        [1, 2, 3, 0],
        register=True,
        iteration_id=3,
        replica_group=ALL_OF_4,
    )
    right = {"iteration_id": 0, "replica_group": ALL_OF_4}
    yield number(name, "step", **{**right, "iteration_id": -1}, breaks="`iteration_id` must be")
    yield number(
        name, "group", **{**right, "replica_group": ((0, 1),)}, breaks="must be a ReplicaGroup"
    )
    yield number(name, "overlap", **{**right, "replica_group": [[0, 0]]}, breaks="must not overlap")
    yield number(name, "channel", **right, channel_id=4, breaks="`channel_id` must be")


CASES = (*permute_cases(), *implicit_cases(), *reduce_cases(), *register_cases())
