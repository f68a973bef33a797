"""Cases of sendrecv, sendrecv_compute and core_barrier; both cores run the same program on the same data."""

from __future__ import annotations

import numpy as np

from nki_lab.isa.enums import dma_engine
from nki_lab.targets.engines import DMA
from nki_lab.targets.spaces import PRIVATE_HBM, SHARED_HBM
from tests.isa.case import Case, empty, isa, nl, rounded, sample, tile

X = sample(48, 20, seed=5)
INTEGERS = np.arange(32 * 6, dtype=np.int16).reshape(32, 6)
NEW = ("trn2", "trn3")


def exchange(name, source, expected=None, dst=None, **facts):
    given = {"send_to_rank": 1, "recv_from_rank": 1, "pipe_id": 0}
    given.update({k: facts.pop(k) for k in list(facts) if k in (*given, "dma_engine")})
    tiles = {
        "src": source,
        "dst": dst if dst is not None else empty(source.data.shape, source.dtype),
    }

    def run(t):
        # Each core's partner is the other one; a wrong rank is passed on as it is.
        ranks = dict(given)
        for key in ("send_to_rank", "recv_from_rank"):
            if ranks[key] == 1:
                ranks[key] = 1 - t.core
        isa.sendrecv(t.src, t.dst, **ranks)

    results = {} if expected is None else {"dst": expected}
    return Case("sendrecv", name, tiles, run, results, cores=2, **{"targets": NEW, **facts})


def combine(name, source, expected=None, dst=None, op=nl.add, ranks=1, **facts):
    """Reduce a tensor with the other core's, which has the same values."""
    dst = dst if dst is not None else empty(source.data.shape, source.dtype, source.space)
    tiles = {"src": source, "dst": dst}

    def run(t):
        other = 1 - t.core if ranks == 1 else ranks
        isa.sendrecv_compute(t.src, t.dst, other, other, op)

    results = {} if expected is None else {"dst": expected}
    return Case("sendrecv_compute", name, tiles, run, results, cores=2, **{"targets": NEW, **facts})


def barrier(name, expected=None, cores=(0, 1), data=None, **facts):
    more = {k: facts.pop(k) for k in list(facts) if k == "engine"}
    tiles = {"data": data if data is not None else tile(X, space=SHARED_HBM)}
    results = {} if expected is None else {"data": expected}
    return Case("core_barrier", name, tiles, lambda t: isa.core_barrier(t.data, cores, **more), results, cores=2,
                **{"targets": NEW, **facts})  # fmt: skip


CASES = (
    exchange("float32", tile(X), X),
    exchange("16-bit integers", tile(INTEGERS), INTEGERS),
    exchange("part of a tile, other start", tile(X, view=lambda t: t[5:37, 2:20:3]), np.where(
        np.arange(40)[:, None] >= 8, X[5:37, 2:20:3][np.maximum(np.arange(40) - 8, 0)], empty((40, 6)).data),
        empty((40, 6), view=lambda t: t[8:40])),
    exchange("by GpSimd", tile(X), X, dma_engine=dma_engine.gpsimd_dma),
    exchange("before v3", tile(X), targets=("trn1",), breaks="`lnc2`"),
    exchange("rank", tile(X), send_to_rank=2, breaks="must be 0 or 1"),
    exchange("rank is no integer", tile(X), recv_from_rank="1", breaks="must be 0 or 1"),
    exchange("pipe", tile(X), pipe_id="a", breaks="`pipe_id` must be"),
    exchange("engine", tile(X), dma_engine=9, breaks="`dma_engine` must be"),
    exchange("dtypes", tile(X), dst=empty(X.shape, "bfloat16"), breaks="same dtype"),
    exchange("shapes", tile(X), dst=empty((48, 10)), breaks="same shape"),
    exchange("too much for GpSimd", tile(sample(4, 257)), dma_engine=dma_engine.gpsimd_dma, breaks="moves at most"),
    combine("sum", tile(X), 2 * X),
    combine("sum in bfloat16", tile(X, "bfloat16"), rounded(2 * rounded(X, "bfloat16"), "bfloat16")),
    combine("maximum in HBM", tile(X, space=PRIVATE_HBM), X, op=nl.maximum),
    combine("minimum of integers", tile(INTEGERS), INTEGERS, op=nl.minimum),
    combine("rank", tile(X), ranks=2, breaks="must be 0 or 1"),
    combine("another operator", tile(X), op=nl.multiply, breaks="`reduce_op` must be"),
    combine("two memories", tile(X), dst=empty(X.shape, space=PRIVATE_HBM), breaks="both be in sbuf or both"),
    combine("shared HBM", tile(X, space=SHARED_HBM), dst=empty(X.shape), breaks="`src` must be in"),
    combine("packed", tile(X, "float8_e5m2_x4"), breaks="cannot be reduced"),
    combine("dtypes", tile(X), dst=empty(X.shape, "bfloat16"), breaks="same dtype"),
    combine("shapes", tile(X), dst=empty((48, 10)), breaks="same shape"),
    barrier("keeps the data", X),
    barrier("before v3", targets=("trn1",), breaks="`lnc2`"),
    barrier("cores", cores=(0,), breaks="`cores` must be"),
    barrier("engine", engine=DMA, breaks="`engine` must be one"),
)  # fmt: skip
