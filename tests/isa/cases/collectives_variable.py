"""Cases of the collectives whose counts stand in a table; data and results have a first axis of ranks."""

from __future__ import annotations

import numpy as np

from nki_lab.api.collectives import ReplicaGroup
from nki_lab.isa.collectives_variable import SPLIT
from nki_lab.targets.spaces import SHARED_HBM
from tests.isa.case import Case, empty, isa, sample, tile
from tests.isa.cases.collectives import OLD, hbm

NEW, SWITCHED = ("trn2", "trn3"), ("trn3",)
ANY = 9  # what stands in the row of received counts before


def tables(ranks, rows, *filled):
    """Return a table per rank; `filled` are (row, values of [ranks, columns] or one value)."""
    found = np.full((ranks, rows, ranks), ANY, np.uint32)
    for row, values in filled:
        found[:, row] = values
    return found


def variable(instruction, name, data, room, table, expected=None, received=None, *, group, given=None, on_chip=False,
             part="", **facts):  # fmt: skip
    """Make a case of one call; `expected` are the contents of `dsts`, `received` row 2 of the tables afterwards."""
    if on_chip:
        table = table[:, None]
    data = data if isinstance(data, list) else [data]
    room = room if isinstance(room, list) else [room]
    more = {f"src{k}": d for k, d in enumerate(data)} | {f"dst{k}": d for k, d in enumerate(room)}
    tiles = {**more, "table": tile(table) if on_chip else hbm(table)}
    if isinstance(group, list):
        group = ReplicaGroup(group)

    def run(t):
        arguments = {
            "srcs": [getattr(t, f"src{k}") for k in range(len(data))],
            "dsts": [getattr(t, f"dst{k}") for k in range(len(room))],
            "replica_group": group, "metadata_tensor": t.table, **(given or {}),
        }  # fmt: skip
        if not part or (part == "_trigger" and "breaks" in facts):
            getattr(isa, instruction + part)(**arguments)
            return
        prepared = SPLIT[f"{instruction}_prepare"](**arguments)
        SPLIT[f"{instruction}_trigger"](prepared)

    results = {}
    if expected is not None:
        after = table.copy()
        if received is not None:
            after[..., 2, :] = received if not on_chip else np.asarray(received)[:, None]
        results = {"dst0": expected, "table": after}
    return Case(
        instruction + part,
        name,
        tiles,
        run,
        results,
        cores=2,
        ranks=len(table),
        **{"targets": NEW, **facts},
    )


CHIP = [[0, 1, 2, 3]]
X4 = sample(4, 10, 3, seed=4)
SENT = np.array([5, 0, 7, 2])
BEGIN = np.array([3, 0, 20, 28])


def gathered(dtype="float32"):
    """Return what every rank holds: the chunk of rank s from element 8 s on."""
    held = empty((4, 4, 8), dtype).data.reshape(4, 32).copy()
    for s in range(4):
        held[:, 8 * s : 8 * s + SENT[s]] = X4[s].reshape(-1)[BEGIN[s] : BEGIN[s] + SENT[s]]
    return held.reshape(4, 4, 8)


def gather_table(rows=3):
    return tables(4, rows, (0, SENT[:, None]), (1, BEGIN[:, None]))


def roomy(*shape, dtype="float32"):
    return empty(shape, dtype, SHARED_HBM)


def gather(name, expected=None, received=None, **facts):
    group = facts.pop("group", CHIP)
    data, room = facts.pop("data", hbm(X4)), facts.pop("room", roomy(4, 4, 8))
    table = facts.pop("table", gather_table())
    return variable(
        "all_gather_v", name, data, room, table, expected, received, group=group, **facts
    )


def all_gather_v_cases():
    came = np.broadcast_to(SENT, (4, 4))
    yield gather("counts come back", gathered(), came)
    yield gather("in the order of the list", gathered()[:, [2, 0, 3, 1]], came[:, [2, 0, 3, 1]],
                 group=[[2, 0, 3, 1]])  # fmt: skip
    yield gather("counts are known", gathered(), given={"recv_counts_known": True})
    yield gather("a table on chip", gathered(), came, on_chip=True)
    yield gather("before v3", targets=("trn1",), breaks="`lnc2`")
    yield gather("lists without a group", group=((0, 1, 2, 3),), breaks="must be a ReplicaGroup")
    yield gather("overlap", group=[[0, 1], [1, 2]], breaks="must not overlap")
    yield gather("lists of two lengths", group=[[0, 1, 2, 3], [4]], breaks="of one length")
    yield gather(
        "half a chip", group=[[0, 1]], table=gather_table()[..., :2], breaks="the ranks of one chip"
    )
    yield gather("two chips", group=[[0, 1, 4, 5]], breaks="the ranks of one chip")
    yield gather(
        "two tensors", data=[hbm(X4)] * 2, room=[roomy(4, 4, 8)] * 2, breaks="exactly one tensor"
    )
    yield gather("flag", given={"recv_counts_known": 1}, breaks="must be True or False")
    yield gather(
        "displacements",
        given={"has_rdispls": True},
        table=gather_table(4),
        breaks="`has_rdispls` must be False",
    )
    yield gather("priority", given={"priority": 1.0}, breaks="None or an integer from 0")
    yield gather(
        "priority before v4", given={"priority": 1}, targets=OLD[1:], breaks="`dma_priority`"
    )
    yield gather("dtypes", room=roomy(4, 4, 8, dtype="bfloat16"), breaks="the same dtype")
    yield gather("rows of the table", table=gather_table(4), breaks="must have shape [rows, ranks]")
    yield gather("room", room=roomy(4, 10, 3), breaks="must be divisible")
    yield part_of_a_tensor("all_gather_v", CHIP, X4, roomy(4, 4, 8), gather_table())


def part_of_a_tensor(instruction, group, data, room, table, part=""):
    """Make a case of a table that is not contiguous."""
    wide = np.concatenate([table, table], axis=-1)

    def run(t):
        call = getattr(isa, instruction + part)
        call([t.src], [t.dst], ReplicaGroup(group), t.table[:, : len(table)])

    tiles = {"src": hbm(data), "dst": room, "table": hbm(wide)}
    targets = NEW if instruction == "all_gather_v" else SWITCHED
    targets = ("trn2",) if part else targets
    return Case(instruction + part, "part of a tensor", tiles, run, cores=2, ranks=len(table), targets=targets,
                breaks="must be contiguous")  # fmt: skip


NODE = [list(range(8))]
CHIPS = [[0, 1, 2, 3], [4, 5, 6, 7]]
X8 = sample(8, 6, 7, seed=5)
COUNTS = np.random.default_rng(6).integers(0, 4, (8, 8))
STARTS = np.random.default_rng(7).integers(0, 42 - 4, (8, 8))


def exchanged(groups, slot, places=None):
    """Return what every rank holds: from rank s of its list what that sent it, at `places` or at equal distances."""
    held = empty((8, 8, 4), "float32").data.reshape(8, 32).copy()
    for group in groups:
        for r, to in enumerate(group):
            for s, source in enumerate(group):
                count, start = COUNTS[source, r], STARTS[source, r]
                at = s * slot if places is None else places[to, s]
                held[to, at : at + count] = X8[source].reshape(-1)[start : start + count]
    return held.reshape(8, 8, 4)


def exchange_table(columns=8, places=None):
    table = tables(8, 3 if places is None else 4, (0, COUNTS), (1, STARTS))
    if places is not None:
        table[:, 3] = places
    return table[..., :columns].copy()


def came(groups):
    """Return row 2 afterwards: how many elements each rank of the list sent."""
    found = np.zeros((8, len(groups[0])), int)
    for group in groups:
        for r, to in enumerate(group):
            found[to] = [COUNTS[source, r] for source in group]
    return found


def exchange(name, expected=None, received=None, **facts):
    group = facts.pop("group", NODE)
    data, room = facts.pop("data", hbm(X8)), facts.pop("room", roomy(8, 8, 4))
    table = facts.pop("table", exchange_table())
    facts = {"targets": SWITCHED, **facts}
    return variable(
        "all_to_all_v", name, data, room, table, expected, received, group=group, **facts
    )


def all_to_all_v_cases():
    yield exchange("over two chips", exchanged(NODE, 4), came(NODE))
    yield exchange(
        "two groups", exchanged(CHIPS, 8), came(CHIPS), group=CHIPS, table=exchange_table(4)
    )
    yield exchange("counts are known", exchanged(NODE, 4), given={"recv_counts_known": True})
    yield exchange("a table on chip", exchanged(NODE, 4), came(NODE), on_chip=True)
    packed = np.cumsum(came(NODE), axis=1) - came(NODE)  # one chunk right after the other
    yield exchange("with displacements", exchanged(NODE, 0, packed), came(NODE), given={"has_rdispls": True},
                   table=exchange_table(8, packed))  # fmt: skip
    yield exchange("no switch", exchanged(NODE, 4), came(NODE), targets=("trn2",))
    yield exchange("displacements without a switch", given={"has_rdispls": True}, table=exchange_table(8, packed),
                   targets=("trn2",), breaks="`has_rdispls` must be False")  # fmt: skip
    yield exchange(
        "lists without a group", group=(tuple(range(8)),), breaks="must be a ReplicaGroup"
    )
    yield exchange("overlap", group=[[0, 1], [1, 2]], breaks="must not overlap")
    yield exchange("lists of two lengths", group=[[0, 1, 2, 3], [4]], breaks="of one length")
    yield exchange("parts of chips", group=[[0, 1, 2, 4, 5, 6, 7, 3]], breaks="all 4 ranks of each")
    yield exchange(
        "across a chip", group=[[2, 3, 4, 5]], table=exchange_table(4), breaks="all 4 ranks of each"
    )
    yield exchange(
        "one chip", group=[[0, 1, 2, 3]], table=exchange_table(4), breaks="more than one chip"
    )
    yield exchange(
        "two tensors", data=[hbm(X8)] * 2, room=[roomy(8, 8, 4)] * 2, breaks="exactly one tensor"
    )
    yield exchange("flag", given={"has_rdispls": None}, breaks="must be True or False")
    yield exchange("priority", given={"priority": 9}, breaks="None or an integer from 0")
    yield exchange("dtypes", data=hbm(X8, "float16"), breaks="the same dtype")
    yield exchange(
        "rows of the table", given={"has_rdispls": True}, breaks="must have shape [rows, ranks]"
    )
    yield exchange("room", room=roomy(8, 6, 7), breaks="must be divisible")
    yield part_of_a_tensor("all_to_all_v", NODE, X8, roomy(8, 8, 4), exchange_table())


def split_cases():
    """Yield the calls in two parts: what both give, and the rules of the first."""
    came4 = np.broadcast_to(SENT, (4, 4))
    for part in ("_prepare", "_trigger"):
        facts = {"targets": ("trn2",), "part": part}
        yield gather("in two parts", gathered(), came4, **facts)
        yield gather(
            "in two parts, counts known", gathered(), given={"recv_counts_known": True}, **facts
        )
        yield exchange("in two parts", exchanged(NODE, 4), came(NODE), **facts)
        yield exchange(
            "in two parts, a table on chip", exchanged(NODE, 4), came(NODE), on_chip=True, **facts
        )
        packed = np.cumsum(came(NODE), axis=1) - came(NODE)
        displaced = {"given": {"has_rdispls": True}}
        for make, group, data, wide, long in (
            (gather, CHIP, hbm(X4), roomy(4, 4, 8, dtype="bfloat16"), gather_table(4)),
            (exchange, NODE, hbm(X8), roomy(8, 8, 4, dtype="bfloat16"), exchange_table(8, packed)),
        ):
            yield make(
                "lists without a group",
                group=tuple(map(tuple, group)),
                breaks="must be a ReplicaGroup",
                **facts,
            )
            yield make("overlap", group=[[0, 1], [1, 2]], breaks="must not overlap", **facts)
            yield make(
                "lists of two lengths", group=[[0, 1, 2, 3], [4]], breaks="of one length", **facts
            )
            yield make(
                "two tensors",
                data=[data] * 2,
                room=[wide] * 2,
                breaks="exactly one tensor",
                **facts,
            )
            yield make(
                "flag", given={"recv_counts_known": 1}, breaks="must be True or False", **facts
            )
            yield make(
                "priority", given={"priority": 9}, breaks="None or an integer from 0", **facts
            )
            yield make("dtypes", room=wide, breaks="the same dtype", **facts)
            yield make(
                "rows of the table", table=long, breaks="must have shape [rows, ranks]", **facts
            )
            yield make(
                "displacements",
                table=long,
                breaks="`has_rdispls` must be False",
                **displaced,
                **facts,
            )
            yield make(
                "room",
                room=roomy(4, 10, 3) if make is gather else roomy(8, 6, 7),
                breaks="must be divisible",
                **facts,
            )
            yield make("on a switch", targets=("trn3",), part=part, breaks="`split_collectives`")
        yield gather(
            "half a chip",
            group=[[0, 1]],
            table=gather_table()[..., :2],
            breaks="the ranks of one chip",
            **facts,
        )
        yield gather("priority before v4", given={"priority": 1}, breaks="`dma_priority`", **facts)
        yield part_of_a_tensor("all_gather_v", CHIP, X4, roomy(4, 4, 8), gather_table(), part)
        yield part_of_a_tensor("all_to_all_v", NODE, X8, roomy(8, 8, 4), exchange_table(), part)


CASES = (*all_gather_v_cases(), *all_to_all_v_cases(), *split_cases())
