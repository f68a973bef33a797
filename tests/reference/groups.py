"""Random kernels of several ranks, which meet in collectives, and of two cores, which share HBM without races."""

from __future__ import annotations

import random

import numpy as np

from tests.reference.machine import ReplicaGroup
from tests.reference.recipes import RECIPES
from tests.reference.tensors import Refused
from tests.reference.writing import COLUMNS, Handle, Name, Program, Writer, op

_LOCAL = (
    "tensor_tensor",
    "tensor_scalar",
    "tensor_copy",
    "activation",
    "tensor_reduce",
    "dma_copy",
    "iota",
    "nc_matmul",
    "nc_n_gather",
    "loop",
)
_KINDS = ("float32", "bfloat16", "int32", "uint8", "float16")
COLLECTIVES = (
    "all_reduce", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute",
    "collective_permute_implicit", "collective_permute_implicit_reduce", "rank_id",
)  # fmt: skip

VARIABLE = ("all_gather_v", "all_to_all_v")


def _group(w: Writer, equal: bool = True) -> tuple[Name, int]:
    ranks = w.pick.sample(range(w.program.ranks), w.program.ranks)
    cuts = (
        [ranks]
        if w.program.ranks % 2 or w.pick.random() < 0.5
        else [ranks[: len(ranks) // 2], ranks[len(ranks) // 2 :]]
    )
    return Name(f"ncc.ReplicaGroup({cuts})", ReplicaGroup(cuts)), len(cuts[0])


def _given(w: Writer, kind: str, rows: int, columns: int, buffer: str = "shared_hbm") -> Handle:
    """Return a tensor with data of its own on each rank."""
    t = w.array((rows, columns), kind, buffer, "h")
    a, b = w.pick.randint(0, 128 - rows), w.pick.randint(0, COLUMNS - columns)
    source = w.source(kind, w.style if w.style != "special" else "wide")
    _only_core_0(w, [(t, source.then(f"[{a}:{a + rows}, {b}:{b + columns}]"))])
    return t


def _empty(w: Writer, kind: str, rows: int, columns: int, buffer: str = "shared_hbm") -> Handle:
    t = w.array((rows, columns), kind, buffer, "h")
    return t


def _collective(w: Writer, name: str) -> None:
    pick, kind = w.pick, w.pick.choice(_KINDS)
    f = pick.choice((1, 4, 6, 12))
    group, n = _group(w)
    buffer = (
        pick.choice(("shared_hbm", "shared_hbm", "sbuf")) if w.program.cores == 1 else "shared_hbm"
    )
    reduce = op(pick.choice(("add", "minimum", "maximum")))
    if name == "all_reduce":
        count = 1 if buffer == "sbuf" else pick.choice((1, 2))
        rows = pick.choice((1, 3, 32, 64))
        srcs = [_given(w, kind, rows, f, buffer) for _ in range(count)]
        w.call(
            name,
            namespace="ncc",
            srcs=srcs,
            dsts=[_empty(w, kind, rows, f, buffer) for _ in srcs],
            replica_group=group,
            op=reduce,
        )
    elif name == "reduce_scatter":
        rows = pick.choice((1, 2, 8))
        w.call(
            name,
            namespace="ncc",
            srcs=[_given(w, kind, rows * n, f)],
            dsts=[_empty(w, kind, rows, f)],
            replica_group=group,
            collective_dim=0,
            op=reduce,
        )
    elif name == "all_gather":
        rows, dim = pick.choice((1, 2, 16)), 1 if buffer == "sbuf" and pick.random() < 0.5 else 0
        dst = _empty(w, kind, rows * (1 if dim else n), f * (n if dim else 1), buffer)
        w.call(
            name,
            namespace="ncc",
            srcs=[_given(w, kind, rows, f, buffer)],
            dsts=[dst],
            replica_group=group,
            collective_dim=dim,
        )
    elif name == "all_to_all":
        rows = pick.choice((1, 2, 8)) * n
        w.call(
            name,
            namespace="ncc",
            srcs=[_given(w, kind, rows, f)],
            dsts=[_empty(w, kind, rows, f)],
            replica_group=group,
            collective_dim=0,
        )
    elif name == "collective_permute":
        order = pick.sample(range(w.program.ranks), w.program.ranks)
        pairs = [[a, b] for a, b in enumerate(order)]
        rows = pick.choice((1, 8))
        dst = _given(w, kind, rows, f)
        w.call(
            name,
            namespace="ncc",
            srcs=[_given(w, kind, rows, f)],
            dsts=[dst],
            source_target_pairs=pairs,
        )
    elif name == "rank_id":
        w.line("r0 = ncc.rank_id()")
        out = w.array((1, 1), "int32")
        w.line(f"nisa.register_store(dst={out}, src=r0)")
    elif name.startswith("collective_permute_implicit"):
        rows, channels = pick.choice((1, 8)), pick.choice((1, 2))
        srcs = [[_given(w, kind, rows, f)] for _ in range(channels)]
        dsts = [[_empty(w, kind, rows, f)] for _ in range(channels)]
        ids = list(range(channels))
        if name.endswith("reduce"):
            others = [[_given(w, kind, rows, f)] for _ in range(channels)]
            w.call(
                name,
                namespace="ncc",
                srcs0_by_channel=srcs,
                srcs1_by_channel=others,
                dsts_by_channel=dsts,
                replica_group=group,
                op=reduce,
                channel_ids=ids,
            )
        else:
            w.call(
                name,
                namespace="ncc",
                srcs_by_channel=srcs,
                dsts_by_channel=dsts,
                replica_group=group,
                channel_ids=ids,
            )
            turn, out = pick.randint(0, 4), w.array((1, 1), "int32")
            register = w.name("r")
            current = "ncc.collective_permute_implicit_current_processing_rank_id"
            w.line(f"{register} = {current}(iteration_id={turn}, replica_group={group})")
            w.line(f"nisa.register_store(dst={out}, src={register})")


def _variable(w: Writer, name: str, kind: str) -> None:
    """Exchange as many elements as a table says."""
    pick, rng, n = w.pick, w.numbers, w.program.ranks
    group = Name(f"ncc.ReplicaGroup({[list(range(n))]})", ReplicaGroup([list(range(n))]))
    displaced = name == "all_to_all_v" and w.program.target == "trn3" and pick.random() < 0.4
    slot = pick.choice((4, 9))
    counts = rng.integers(0, slot + 1, (n, n))
    table = np.zeros((n, 4 if displaced else 3, n), np.uint32)
    for r in range(n):
        table[r, 0] = counts[r]
        table[r, 1] = rng.integers(0, 40 - slot, n)
        table[r, 2] = rng.integers(0, 99, n)
        if displaced:
            table[r, 3] = rng.permutation(n) * slot
    if name == "all_gather_v":
        table[:, 0, 1:] = 77
    in_sbuf = pick.random() < 0.3 and w.program.cores == 1
    shape = (1, *table.shape[1:]) if in_sbuf else table.shape[1:]
    given = w.given("uint32", table.reshape(n, *shape))
    meta = w.array(shape, "uint32", "sbuf" if in_sbuf else "shared_hbm", "m")
    src, dst = (
        w.array((4, 10), kind, "shared_hbm", "h"),
        w.array((n, slot), kind, "shared_hbm", "h"),
    )
    fills = [
        (meta, given),
        (src, w.source(kind).then("[0:4, 0:10]")),
        (dst, w.source(kind).then(f"[9:{9 + n}, 0:{slot}]")),
    ]
    _only_core_0(w, fills)
    flag = True if pick.random() < 0.3 else ...
    parted = w.program.target == "trn2" and pick.random() < 0.6
    w.call(
        f"{name}_prepare" if parted else name,
        namespace="ncc",
        into="prepared = " if parted else "",
        srcs=[src],
        dsts=[dst],
        replica_group=group,
        metadata_tensor=meta,
        recv_counts_known=flag,
        has_rdispls=True if displaced else ...,
    )
    if parted:
        w.call(f"{name}_trigger", namespace="ncc", prepare_instr=Name("prepared", None))


def _only_core_0(w: Writer, fills: list[tuple[Handle, Handle]]) -> None:
    """Fill tensors; of two cores one does, and the other waits."""
    lines = [f"nisa.dma_copy(dst={dst}, src={src})" for dst, src in fills]
    if w.program.cores == 1:
        for line in lines:
            w.line(line)
        return
    w.line("if c == 0:\n" + "\n".join(f"    {line}" for line in lines))
    for dst, _ in fills:
        w.line(f"nisa.core_barrier(data={dst}, cores=(0, 1))")


def _some(w: Writer, most: int) -> None:
    for _ in range(w.pick.randint(0, most)):
        try:
            RECIPES[w.pick.choice(_LOCAL)][0](w)
        except Refused:
            continue


def ranks_program(seed: int, only: str | None = None) -> Program:
    """Write a kernel of 2 to 4 ranks."""
    pick = random.Random(seed)
    variable = only if only in VARIABLE else None
    if only is None and pick.random() < 0.15:
        variable = pick.choice(VARIABLE)
    ranks = {None: pick.choice((2, 3, 4)), "all_gather_v": 4, "all_to_all_v": 8}[variable]
    both = variable is not None or (only is None and pick.random() < 0.2)
    target = (
        pick.choice(("trn2", "trn3"))
        if variable == "all_to_all_v"
        else pick.choice(("trn2", "trn3") if both else ("trn1", "trn2", "trn3"))
    )
    w = Writer(target, seed, 2 if both else 1, ranks)
    if both:
        w.line("c = nl.program_id(0)")
    if variable:
        _variable(w, variable, pick.choice(_KINDS))
    else:
        names = [
            c
            for c in COLLECTIVES
            if not both or c not in ("rank_id", "collective_permute_implicit")
        ]
        for _ in range(pick.choice((1, 1, 2, 3))):
            _collective(w, only or pick.choice(names))
            if only is None and not both:
                _some(w, 1)
    if not both:
        return w.finish(8)
    w.program.results += [
        h.text for h in w.tiles if h.t.buffer == "shared_hbm" and h.text[0] in "hm"
    ]
    return w.program


def cores_program(seed: int) -> Program:
    """Write a kernel of two cores: each writes its half, both read all after a barrier, and they swap tiles."""
    pick = random.Random(seed)
    w = Writer(pick.choice(("trn2", "trn3")), seed, 2)
    w.line("c = nl.program_id(0)")
    w.env["c"] = 0
    kind, half, f = pick.choice(_KINDS), pick.choice((1, 16, 32, 64)), pick.choice((1, 4, 12))
    source = w.source(kind)
    t = w.array((half, f), kind)
    w.line(f"nisa.dma_copy(dst={t}, src={source}[c * {half}:(c + 1) * {half}, 3:{3 + f}])")
    _some(w, 2)
    shared = w.name("h")
    w.line(f"{shared} = nl.ndarray({(2 * half, f)}, dtype=nl.{kind}, buffer=nl.shared_hbm)")
    how = pick.random()
    if how < 0.5:
        w.line(f"nisa.dma_copy(dst={shared}[c * {half}:(c + 1) * {half}, :], src={t})")
    elif how < 0.75:
        copy = f"    nisa.dma_copy(dst={shared}"
        w.line(
            f"if c == 0:\n{copy}[0:{half}, :], src={t})\nelse:\n{copy}[{half}:{2 * half}, :], src={t})"
        )
    else:
        w.line(f"nisa.dma_copy(dst={shared}[(1 - c) * {half}:(2 - c) * {half}, :], src={t})")
    w.program.results.append(shared)
    w.line(f"nisa.core_barrier(data={shared}, cores=(0, 1))")
    back = w.array((2 * half if half <= 64 else half, f), kind)
    w.line(f"nisa.dma_copy(dst={back}, src={shared})")
    if pick.random() < 0.6:
        got = w.array((half, f), kind)
        partner = f"send_to_rank=1 - c, recv_from_rank=1 - c, pipe_id={pick.choice((0, 3))}"
        w.line(f"nisa.sendrecv(src={t}, dst={got}, {partner})")
    if pick.random() < 0.6:
        got, op = w.array((half, f), kind), pick.choice(("add", "maximum", "minimum"))
        w.line(f"nisa.sendrecv_compute({t}, {got}, 1 - c, 1 - c, nl.{op})")
    _some(w, 2)
    for h in w.tiles[-5:]:
        if h.t.on_chip:
            _both(w, h)
    return w.program


def _both(w: Writer, h: Handle) -> None:
    """Return what each core has in a tile."""
    t, name = h.t, w.name("o")
    shape = (2, *t.shape)
    lines = [f"{name} = nl.ndarray({shape}, dtype=nl.{t.dtype.name}, buffer=nl.shared_hbm)"]
    held = h.text
    if t.buffer == "psum":
        held = w.name("t")
        lines += [
            f"{held} = nl.ndarray({t.shape}, dtype=nl.{t.dtype.name}, buffer=nl.sbuf)",
            f"nisa.tensor_copy(dst={held}, src={h.text})",
        ]
    lines.append(f"nisa.dma_copy(dst={name}[c], src={held})")
    w.line("\n".join(lines))
    w.program.results.append(name)
