"""Cases of the collectives that gather, reduce and redistribute; data and results have a first axis of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.api.collectives import ReplicaGroup
from nki_lab.targets.spaces import PRIVATE_HBM, SHARED_HBM
from tests.isa.case import Case, Tile, empty, isa, nl, rounded, sample, tile

RANKS = 4
ALL_OF_4 = [[0, 1, 2, 3]]
PAIRS = [[0, 2], [1, 3]]
BACKWARDS = [[3, 1], [2, 0]]
FOUR = tuple(sample(RANKS, 8, 6, seed=n) for n in range(3))
OLD, NEWEST = ("trn1", "trn2"), ("trn3",)


def hbm(data: Any, dtype: str | None = None) -> Tile:
    return tile(data, dtype, SHARED_HBM)


def room(*shape: int, dtype: str = "float32", space: Any = SHARED_HBM, ranks: int = RANKS) -> Tile:
    return empty((ranks, *shape), dtype, space)


def of_group(groups, make):
    """Stack what `make(ranks of the group, position in it)` gives for every rank."""
    found: dict[int, Any] = {}
    for group in groups:
        for place, rank in enumerate(group):
            found[rank] = make(group, place)
    return np.stack([found[rank] for rank in range(len(found))])


def collective(
    instruction: str, name: str, srcs: list[Tile], dsts: list[Tile], expected: Any = None, *,
    group: Any = ALL_OF_4, given: dict[str, Any], ranks: int = RANKS, **facts: Any,
) -> Case:  # fmt: skip
    """Make a case of one call with lists `srcs` and `dsts`; `expected` are the contents of `dsts`."""
    names = ([f"src{k}" for k in range(len(srcs))], [f"dst{k}" for k in range(len(dsts))])
    tiles = dict(zip([*names[0], *names[1]], [*srcs, *dsts], strict=True))
    if isinstance(group, list):
        group = ReplicaGroup(group)

    def run(t: Any) -> None:
        lists = {
            "srcs": [getattr(t, n) for n in names[0]],
            "dsts": [getattr(t, n) for n in names[1]],
        }
        where = {} if group is None else {"replica_group": group}
        getattr(isa, instruction)(**lists, **where, **given)

    results = {} if expected is None else dict(zip(names[1], expected, strict=True))
    return Case(instruction, name, tiles, run, results, ranks=ranks, **facts)


def total(function, data):
    """Return, per group, `function` over its ranks in float64, for every rank."""
    return lambda groups: of_group(
        groups, lambda group, place: function(data[list(group)].astype(float), axis=0)
    )


def group_breaks(make):
    """Yield cases of a wrong `replica_group`."""
    yield make(
        "lists without a group",
        group=((0, 1, 2, 3),),
        breaks="`replica_group` must be a ReplicaGroup",
    )
    yield make("negative rank", group=[[0, -1]], breaks="integers from 0 on")
    yield make("overlap", group=[[0, 1], [1, 2]], breaks="must not overlap")
    yield make("priority", more={"priority": 4}, breaks="None or an integer from 0")
    yield make("priority before v4", more={"priority": 1}, targets=OLD, breaks="`dma_priority`")


def list_breaks(make, src, dst):
    """Yield cases of lists, memories and dtypes that no collective takes; `src` and `dst` make fitting tiles."""
    yield make(
        "more sources", srcs=[src(), src()], dsts=[dst()], breaks="the same number of tensors"
    )
    yield make("no tensor", srcs=[], dsts=[], breaks="the same number of tensors")
    yield make("dtypes", srcs=[src(dtype="bfloat16")], dsts=[dst()], breaks="the same dtype")


def sbuf_breaks(make, src, dst):
    """Yield cases of tiles where SBUF is allowed."""
    yield make(
        "two memories", srcs=[src(space=None)], dsts=[dst()], breaks="all in HBM or all in sbuf"
    )
    chip = {"space": None}
    yield make(
        "several tiles", srcs=[src(**chip)] * 2, dsts=[dst(**chip)] * 2, breaks="only in HBM"
    )
    yield make("two free axes", srcs=[src(**chip, more=(2,))], dsts=[dst(**chip, more=(2,))],
               breaks="one free axis")  # fmt: skip


def placed(*shape):
    """Return a function that makes tiles of one shape in any memory; `space=None` is SBUF."""

    def make(dtype="float32", space=SHARED_HBM, more=()):
        array = empty((RANKS, *shape, *more), dtype)
        return Tile(array.data, array.dtype, array.space if space is None else space)

    return make


def variants(instruction, given, srcs, dsts):
    """Return a function that makes cases which differ from a right one in what is named."""

    def make(name, *, group=ALL_OF_4, more=None, **facts):
        return collective(
            instruction, name, facts.pop("srcs", srcs), facts.pop("dsts", dsts), group=group,
            given={**given, **(more or {})}, **facts,
        )  # fmt: skip

    return make


A, B, C = FOUR
SAME, LONG, SHORT = placed(8, 6), placed(32, 6), placed(2, 6)
ADD, GATHER, SCATTER = {"op": nl.add}, {"collective_dim": 0}, {"collective_dim": 0, "op": nl.add}


def sorts_of_hbm_breaks(make, src, dst):
    private = {"space": PRIVATE_HBM}
    yield make("sources of two sorts", srcs=[src(), src(**private)], dsts=[dst(), dst()],
               breaks="tensors of `srcs` in HBM must be all in private_hbm")  # fmt: skip
    yield make("destinations of two sorts", srcs=[src(), src()], dsts=[dst(), dst(**private)],
               breaks="tensors of `dsts` in HBM must be all in private_hbm")  # fmt: skip


def reduction(name, op, function, groups, **facts):
    return collective("all_reduce", name, [hbm(A)], [room(8, 6)], [total(function, A)(groups)], group=groups,
                      given={"op": op}, rtol=1e-6, atol=1e-6, **facts)  # fmt: skip


def all_reduce_cases():
    yield reduction("sum of four", nl.add, np.sum, ALL_OF_4)
    yield reduction("sums of pairs", nl.add, np.sum, PAIRS)
    yield reduction("minimum", nl.minimum, np.min, BACKWARDS)
    yield reduction("maximum", nl.maximum, np.max, PAIRS)
    short = rounded(A, "bfloat16")
    # In float32 and rounded once: sums of four bfloat16 of this size are exact in float32.
    yield collective(
        "all_reduce", "one rounding", [hbm(short)], [room(8, 6, dtype="bfloat16")],
        [rounded(total(np.sum, short)(ALL_OF_4), "bfloat16")], given=ADD,
    )  # fmt: skip
    yield collective(
        "all_reduce", "several tensors", [hbm(A), hbm(B)], [room(8, 6), room(8, 6)],
        [total(np.sum, A)(PAIRS), total(np.sum, B)(PAIRS)], group=PAIRS, given=ADD, rtol=1e-6, atol=1e-6,
    )  # fmt: skip
    yield collective(
        "all_reduce", "tiles", [tile(A, view=lambda t: t[1:7, 2:5])],
        [empty((RANKS, 6, 3))], [total(np.sum, A[:, 1:7, 2:5])(PAIRS)], group=PAIRS, given=ADD, rtol=1e-6, atol=1e-6,
    )  # fmt: skip
    yield collective(
        "all_reduce", "of one rank", [hbm(A)], [room(8, 6)], [A], group=[[n] for n in range(RANKS)], given=ADD,
    )  # fmt: skip
    yield collective(
        "all_reduce", "with priority", [hbm(A)], [room(8, 6)], [total(np.sum, A)(PAIRS)], group=PAIRS,
        given={**ADD, "priority": 3}, rtol=1e-6, atol=1e-6, targets=NEWEST,
    )  # fmt: skip
    make = variants("all_reduce", ADD, [SAME()], [SAME()])
    yield from group_breaks(make)
    yield from list_breaks(make, SAME, SAME)
    yield from sbuf_breaks(make, SAME, SAME)
    yield from sorts_of_hbm_breaks(make, SAME, SAME)
    yield make("operator", more={"op": nl.multiply}, breaks="`op` must be")
    yield make("shapes", dsts=[placed(6, 8)()], breaks="the same shape")
    yield make("scales", srcs=[SAME(dtype="float8_e8m0fnu")], dsts=[SAME(dtype="float8_e8m0fnu")],
               breaks="which cannot be reduced")  # fmt: skip


def gathered(data, groups, axis=0):
    return of_group(groups, lambda group, place: np.concatenate([data[r] for r in group], axis))


def all_gather_cases():
    yield collective(
        "all_gather", "four", [hbm(A)], [room(32, 6)], [gathered(A, ALL_OF_4)], given=GATHER
    )
    yield collective("all_gather", "pairs", [hbm(A), hbm(B)], [room(16, 6), room(16, 6)],
                     [gathered(A, PAIRS), gathered(B, PAIRS)], group=PAIRS, given=GATHER)  # fmt: skip
    yield collective("all_gather", "in the order of the list", [hbm(A)], [room(16, 6)], [gathered(A, BACKWARDS)],
                     group=BACKWARDS, given=GATHER)  # fmt: skip
    bits = A.view(np.uint32)  # any bits, NaN among them
    yield collective("all_gather", "bits", [hbm(bits)], [room(32, 6, dtype="uint32")], [gathered(bits, ALL_OF_4)],
                     given=GATHER)  # fmt: skip
    yield collective("all_gather", "partitions", [tile(A)], [empty((RANKS, 16, 6))], [gathered(A, PAIRS)],
                     group=PAIRS, given=GATHER)  # fmt: skip
    yield collective("all_gather", "elements of tiles", [tile(A)], [empty((RANKS, 8, 24))],
                     [gathered(A, ALL_OF_4, 1)], given={"collective_dim": 1})  # fmt: skip
    make = variants("all_gather", GATHER, [SAME()], [LONG()])
    yield from group_breaks(make)
    yield from list_breaks(make, SAME, LONG)
    yield from sorts_of_hbm_breaks(make, SAME, LONG)
    yield from sbuf_breaks(make, SAME, LONG)
    yield make("lists of two lengths", group=[[0, 1, 2], [3]], breaks="of one length")
    yield make(
        "axis in HBM",
        more={"collective_dim": 1},
        breaks="`collective_dim` must be 0, or 1 for tiles",
    )
    yield make("axis of tiles", srcs=[SAME(space=None)], dsts=[LONG(space=None)], more={"collective_dim": 2},
               breaks="`collective_dim` must be 0, or 1 for tiles")  # fmt: skip
    yield make("too short", dsts=[SAME()], breaks="the shape of its source, with `collective_dim`")


def scattered(data, groups):
    def part(group, place):
        rows = data.shape[1] // len(group)
        return sum(data[r, place * rows : (place + 1) * rows].astype(float) for r in group)

    return of_group(groups, part)


def reduce_scatter_cases():
    near = {"rtol": 1e-6, "atol": 1e-6}
    yield collective(
        "reduce_scatter",
        "four",
        [hbm(A)],
        [room(2, 6)],
        [scattered(A, ALL_OF_4)],
        given=SCATTER,
        **near,
    )
    yield collective("reduce_scatter", "pairs", [hbm(A), hbm(B)], [room(4, 6), room(4, 6)],
                     [scattered(A, BACKWARDS), scattered(B, BACKWARDS)], group=BACKWARDS, given=SCATTER,
                     **near)  # fmt: skip
    yield collective("reduce_scatter", "partitions", [tile(A)], [empty((RANKS, 4, 6))], [scattered(A, PAIRS)],
                     group=PAIRS, given=SCATTER, **near)  # fmt: skip
    make = variants("reduce_scatter", SCATTER, [SAME()], [SHORT()])
    yield from group_breaks(make)
    yield from list_breaks(make, SAME, SHORT)
    yield from sbuf_breaks(make, SAME, SHORT)
    yield make("lists of two lengths", group=[[0, 1, 2], [3]], breaks="of one length")
    yield make("operator", more={"op": nl.subtract}, breaks="`op` must be")
    yield make("axis", more={"collective_dim": 1}, breaks="`collective_dim` must be 0")
    yield make("too long", dsts=[SAME()], breaks="the shape of its destination, with axis 0")
    yield make("scales", srcs=[SAME(dtype="float8_e8m0fnu")], dsts=[SHORT(dtype="float8_e8m0fnu")],
               breaks="which cannot be reduced")  # fmt: skip


def redistributed(data, groups):
    def parts(group, place):
        rows = data.shape[1] // len(group)
        return np.concatenate([data[r, place * rows : (place + 1) * rows] for r in group])

    return of_group(groups, parts)


def all_to_all_cases():
    yield collective(
        "all_to_all", "four", [hbm(A)], [room(8, 6)], [redistributed(A, ALL_OF_4)], given=GATHER
    )
    yield collective("all_to_all", "pairs", [hbm(A), hbm(C)], [room(8, 6), room(8, 6)],
                     [redistributed(A, BACKWARDS), redistributed(C, BACKWARDS)], group=BACKWARDS,
                     given=GATHER)  # fmt: skip
    make = variants("all_to_all", GATHER, [SAME()], [SAME()])
    yield from group_breaks(make)
    yield from list_breaks(make, SAME, SAME)
    yield make("lists of two lengths", group=[[0, 1, 2], [3]], breaks="of one length")
    yield make("axis", more={"collective_dim": 1}, breaks="`collective_dim` must be 0")
    yield make("shapes", dsts=[placed(6, 8)()], breaks="the same shape")
    yield make(
        "rows left over", srcs=[placed(6, 8)()], dsts=[placed(6, 8)()], breaks="must be divisible"
    )


CASES = (
    *all_reduce_cases(),
    *all_gather_cases(),
    *reduce_scatter_cases(),
    *all_to_all_cases(),
)
