"""Cores and ranks as threads that meet, and what they do where they meet.

Pages: nki/api/nki/collectives/__init__.py; sendrecv and core_barrier of nki/api/nki/isa/__init__.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.reference.numbers import FREE, TYPES, Array, DType, Val, fold
from tests.reference.tensors import PARTITIONS, Memory, Refused, Register, Tensor, new

_here = threading.local()
CHIPS = {"trn1": 2, "trn2": 3, "trn3": 4}
PATIENCE = 20.0


def _registers() -> Val:
    return Val(np.zeros((PARTITIONS, 1)), np.full((PARTITIONS, 1), FREE))


@dataclass
class Core:
    """One core and its hidden state: accumulators of two engines and the states of random generators."""

    chip: int
    rank: int = 0
    number: int = 0
    machine: Machine | None = None
    shared: int = 0
    scalar: Val = field(default_factory=_registers)
    vector: Val = field(default_factory=_registers)
    states: dict[str, Any] = field(default_factory=dict)
    sbuf: Memory = field(default_factory=lambda: Memory((PARTITIONS, 256), TYPES["uint8"], "sbuf"))


def core() -> Core:
    """Return the core that runs now."""
    return _here.core  # type: ignore[no-any-return]


class Machine:
    """All cores of all ranks.

    Attributes:
        grid: cores of each rank; 0 where the kernel is launched without a grid.
    """

    def __init__(self, target: str, cores: int = 1, ranks: int = 1) -> None:
        self.chip, self.cores, self.ranks = CHIPS[target], cores, ranks
        self.shared: dict[tuple[int, int], Tensor] = {}
        self.lock = threading.Lock()
        self.barriers: dict[Any, threading.Barrier] = {}
        self.posts: dict[Any, dict[Any, Any]] = {}
        self.failed: list[BaseException] = []

    def begin(self, rank: int = 0, number: int = 0) -> Core:
        """Make the calling thread a core."""
        _here.core = Core(self.chip, rank, number, self)
        return _here.core  # type: ignore[no-any-return]

    def run(self, kernel: Callable[..., Any], arguments: list[list[Any]]) -> list[Any]:
        """Run a kernel on all cores with the arguments of each rank; return what core 0 of each rank returns."""
        results: dict[tuple[int, int], Any] = {}

        def one(rank: int, number: int) -> None:
            try:
                self.begin(rank, number)
                results[rank, number] = kernel(*arguments[rank])
            except BaseException as error:
                self.failed.append(error)
                for barrier in list(self.barriers.values()):
                    barrier.abort()

        if self.cores * self.ranks == 1:
            self.begin()
            return [kernel(*arguments[0])]
        threads = [
            threading.Thread(target=one, args=(r, c))
            for r in range(self.ranks)
            for c in range(self.cores)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        real = [e for e in self.failed if not isinstance(e, threading.BrokenBarrierError)]
        if self.failed:
            raise (real or self.failed)[0]
        return [results[rank, 0] for rank in range(self.ranks)]

    def shared_tensor(self, shape: tuple[int, ...], dtype: DType) -> Tensor:
        """Return the next tensor in shared HBM; the cores of a rank get the same one."""
        me = core()
        with self.lock:
            key = (me.rank, me.shared)
            me.shared += 1
            if key not in self.shared:
                self.shared[key] = new(shape, dtype, "shared_hbm")
            if self.shared[key].shape != shape:
                raise Refused("the cores make different tensors")
            return self.shared[key]

    def meet(self, group: Any, count: int, key: Any, value: Any) -> dict[Any, Any]:
        """Wait for all of a group and return what each of them brought."""
        with self.lock:
            barrier = self.barriers.setdefault(group, threading.Barrier(count))
            self.posts.setdefault(group, {})[key] = value
        barrier.wait(PATIENCE)
        posts = dict(self.posts[group])
        barrier.wait(PATIENCE)
        return posts


def _machine() -> Machine:
    machine = core().machine
    assert machine is not None
    return machine


# -- two cores -----------------------------------------------------------------------------------------------------


def core_barrier(data: Tensor, cores, engine=None, name=None) -> None:
    me = core()
    _machine().meet(("cores", me.rank), 2, me.number, None)


def sendrecv(
    src: Tensor, dst: Tensor, send_to_rank, recv_from_rank, pipe_id, dma_engine=None, name=None
) -> None:
    me = core()
    at, _ = src.places()
    posts = _machine().meet(
        ("pipe", me.rank, pipe_id), 2, me.number, (send_to_rank, src.raw(at), src.error(at))
    )
    to, raw, error = posts[recv_from_rank]
    if to != me.number:
        raise Refused("the partner sends to another core")
    dst.put(raw, error)


def sendrecv_compute(
    src: Tensor, dst: Tensor, send_to_rank, recv_from_rank, reduce_op, name=None
) -> None:
    me = core()
    posts = _machine().meet(("compute", me.rank), 2, me.number, (send_to_rank, _content(src)))
    to, peer = posts[recv_from_rank]
    if to != me.number:
        raise Refused("the partner sends to another core")
    parts = [_values(p) for p in (_content(src), peer)]
    dst.write(_reduced(parts, reduce_op).map(lambda a: a.reshape(dst.shape)))


# -- ranks ---------------------------------------------------------------------------------------------------------


class ReplicaGroup:
    """Lists of ranks that work together."""

    def __init__(self, lists: Any) -> None:
        self.lists = [list(ranks) for ranks in lists]

    def mine(self) -> list[int]:
        return next(ranks for ranks in self.lists if core().rank in ranks)


def _exchange(ranks: list[int], value: Any) -> list[Any]:
    """Return what each rank of a list brought, in the order of the list."""
    me, machine = core(), _machine()
    posts = machine.meet(("ranks", *ranks), len(ranks) * machine.cores, (me.rank, me.number), value)
    return [posts[rank, me.number] for rank in ranks]


def _content(t: Tensor) -> tuple[Array, Array]:
    at, _ = t.places()
    return t.raw(at), t.error(at)


def _put(dst: Tensor, part: tuple[Array, Array]) -> None:
    dst.put(part[0], part[1])


def _values(part: tuple[Array, Array]) -> Val:
    return Val(part[0].astype(np.float32).astype(float), np.where(part[1] < 0, 0, part[1]))


def _reduced(parts: list[Val], op: str) -> Val:
    stacked = Val(np.stack([p.v for p in parts], -1), np.stack([p.e for p in parts], -1))
    return fold(op, stacked).map(lambda a: a[..., 0])


def _each(
    srcs: list[Tensor], dsts: list[Tensor], group: ReplicaGroup, change: Callable[..., None]
) -> None:
    ranks = group.mine()
    parts = _exchange(ranks, [_content(t) for t in srcs])
    for k, dst in enumerate(dsts):
        change(dst, [p[k] for p in parts], ranks.index(core().rank))


def all_reduce(srcs, dsts, replica_group, op, priority=None, name=None) -> None:
    _each(
        srcs,
        dsts,
        replica_group,
        lambda dst, parts, at: dst.write(
            _reduced([_values(p) for p in parts], op).map(lambda a: a.reshape(dst.shape))
        ),
    )


def reduce_scatter(srcs, dsts, replica_group, collective_dim, op, priority=None, name=None) -> None:
    def change(dst: Tensor, parts: Any, at: int) -> None:
        total = _reduced([_values(p) for p in parts], op)
        size = total.v.shape[0] // len(parts)
        dst.write(total.map(lambda a: a[at * size : (at + 1) * size].reshape(dst.shape)))

    _each(srcs, dsts, replica_group, change)


def all_gather(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    def change(dst: Tensor, parts: Any, at: int) -> None:
        _put(dst, tuple(np.concatenate([p[k] for p in parts], collective_dim) for k in (0, 1)))  # type: ignore[arg-type]

    _each(srcs, dsts, replica_group, change)


def all_to_all(srcs, dsts, replica_group, collective_dim, priority=None, name=None) -> None:
    def change(dst: Tensor, parts: Any, at: int) -> None:
        size = parts[0][0].shape[0] // len(parts)
        _put(
            dst,
            tuple(
                np.concatenate([p[k][at * size : (at + 1) * size] for p in parts]) for k in (0, 1)
            ),
        )  # type: ignore[arg-type]

    _each(srcs, dsts, replica_group, change)


def _variable(
    srcs, dsts, group, metadata, counts_known, displacements, column: Callable[[int], int]
) -> None:
    ranks = group.mine()
    table, spoiled = _content(metadata)
    rows = table.reshape(-1, len(ranks)).astype(np.int64)
    if spoiled.reshape(rows.shape)[:2].any():
        raise Refused("counts are open")
    at = ranks.index(core().rank)
    parts = _exchange(ranks, (rows, *(a.reshape(-1) for a in _content(srcs[0]))))
    raw, error = (a.reshape(-1).copy() for a in _content(dsts[0]))
    new_table, new_error = table.reshape(-1, len(ranks)).copy(), spoiled.reshape(rows.shape).copy()
    for r, (theirs, data, errors) in enumerate(parts):
        count, first = theirs[0, column(at)], theirs[1, column(at)]
        to = rows[3, r] if displacements else len(raw) // len(ranks) * r
        if first + count > len(data) or to + count > len(raw):
            raise Refused("a count does not fit")
        raw[to : to + count], error[to : to + count] = (
            data[first : first + count],
            errors[first : first + count],
        )
        new_table[2, r], new_error[2, r] = count, 0
    dsts[0].put(raw, error)
    if not counts_known:
        metadata.put(new_table, new_error)


def all_gather_v(
    srcs,
    dsts,
    replica_group,
    metadata_tensor,
    recv_counts_known=False,
    has_rdispls=False,
    priority=None,
    name=None,
) -> None:
    _variable(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, lambda at: 0
    )


def all_to_all_v(
    srcs,
    dsts,
    replica_group,
    metadata_tensor,
    recv_counts_known=False,
    has_rdispls=False,
    priority=None,
    name=None,
) -> None:
    _variable(
        srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls, lambda at: at
    )


def collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None) -> None:
    parts = _exchange(list(range(_machine().ranks)), _content(srcs[0]))
    for source, target in source_target_pairs:
        if target == core().rank:
            _put(dsts[0], parts[source])


def collective_permute_implicit(
    srcs_by_channel, dsts_by_channel, replica_group, channel_ids=(0,), priority=None, name=None
) -> None:
    ranks = replica_group.mine()
    parts = _exchange(ranks, [_content(s[0]) for s in srcs_by_channel])
    before = parts[ranks.index(core().rank) - 1]
    for k, dsts in enumerate(dsts_by_channel):
        _put(dsts[0], before[k])


def collective_permute_implicit_reduce(
    srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op, channel_ids=(0,), priority=None, name=None
) -> None:  # fmt: skip
    ranks = replica_group.mine()
    pairs = zip(srcs0_by_channel, srcs1_by_channel, strict=True)
    parts = _exchange(
        ranks, [_reduced([_values(_content(a[0])), _values(_content(b[0]))], op) for a, b in pairs]
    )
    before = parts[ranks.index(core().rank) - 1]
    for k, dsts in enumerate(dsts_by_channel):
        dsts[0].write(before[k])


def collective_permute_implicit_current_processing_rank_id(
    iteration_id, replica_group, channel_id=0, name=None
) -> Register:
    ranks = replica_group.mine()
    return Register(ranks[(ranks.index(core().rank) - iteration_id) % len(ranks)])


def rank_id(name=None) -> Register:
    return Register(core().rank)


def argument(array: Array, dtype: DType) -> Tensor:
    """Return an array as a tensor in HBM."""
    t = new(array.shape, dtype, "shared_hbm")
    t.memory.fill(array)
    return t


def all_gather_v_prepare(**arguments: Any) -> dict[str, Any]:
    return arguments


def all_gather_v_trigger(prepare_instr, name=None) -> None:
    all_gather_v(**prepare_instr)


def all_to_all_v_prepare(**arguments: Any) -> dict[str, Any]:
    return arguments


def all_to_all_v_trigger(prepare_instr, name=None) -> None:
    all_to_all_v(**prepare_instr)
