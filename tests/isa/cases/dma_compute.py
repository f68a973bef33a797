"""Cases of dma_compute: sums in float64, rounded once; of small integers they are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SHARED_HBM
from tests.isa.case import Case, Tile, empty, isa, nl, rounded, sample, tile

X, Y, Z = (sample(96, 40, seed=k, scale=9) for k in (1, 2, 3))
MANY = np.random.default_rng(4).integers(-99, 100, (16, 64, 24)).astype(np.float32)
WORDS = np.random.default_rng(5).integers(-(2**20), 2**20, (64, 48)).astype(np.int32)
BYTES = np.random.default_rng(6).integers(-128, 128, (64, 48)).astype(np.int8)


def hbm(data: Any, dtype: str | None = None, view: Any = None) -> Tile:
    return tile(data, dtype, PRIVATE_HBM, view)


def added(
    name: str, dst: Tile, sources: list[Tile], expected: Any = None, *, breaks: str = "", op: Any = nl.add,
    **params: Any,
) -> Case:  # fmt: skip
    tiles = {"dst": dst, **{f"s{k}": s for k, s in enumerate(sources)}}
    return Case(
        "dma_compute", name, tiles=tiles, breaks=breaks, expected={} if breaks else {"dst": expected},
        run=lambda t: isa.dma_compute(t.dst, [getattr(t, f"s{k}") for k in range(len(sources))], op, **params),
    )  # fmt: skip


def _onto_itself(t):
    isa.dma_compute(t.dst[:, 4:40], [t.dst[:, 0:36], t.other[:, 4:40], t.dst[:, 4:40]], nl.add)


ONTO = MANY[0].repeat(2, 1)[:, :40].copy()
OTHER = MANY[1].repeat(2, 1)[:, :40]
ONTO_BEFORE = ONTO.copy()
ONTO[:, 4:40] = ONTO_BEFORE[:, 0:36] + OTHER[:, 4:40] + ONTO_BEFORE[:, 4:40]

SUMS = [
    added("from HBM to SBUF", empty((96, 40)), [hbm(X), hbm(Y)], X + Y),
    added("from SBUF to HBM", empty((96, 40), space=SHARED_HBM), [tile(X), tile(Y)], X + Y),
    added("within HBM", empty((96, 40), space=PRIVATE_HBM), [hbm(X), hbm(Y)], X + Y),
    added("from both", empty((96, 40)), [hbm(X), tile(Y)], X + Y),
    added("one source", empty((96, 40)), [hbm(X)], X),
    added("one after the other", empty((96, 40)), [hbm(X), tile(Y), hbm(Z)], (X + Y) + Z),
    added("16 sources", empty((64, 24)), [hbm(m) for m in MANY], MANY.sum(0)),
    added(
        "rounded once", empty((96, 40), "bfloat16"), [hbm(X, "bfloat16"), hbm(Y, "bfloat16"), hbm(Z, "bfloat16")],
        rounded(sum(rounded(v, "bfloat16").astype(float) for v in (X, Y, Z)), "bfloat16"),
    ),
    added("integers of several widths", empty((64, 48), "int32"), [hbm(WORDS), hbm(BYTES)], WORDS + BYTES),
    added(
        "through float32", empty((1, 1), "int32"), [hbm(np.array([[2**24 + 1]], np.int32)), hbm([[0.0]])], [[2**24]]
    ),
    added("saturated", empty((64, 48), "int8"), [hbm(BYTES), hbm(BYTES)], np.clip(2 * BYTES.astype(int), -128, 127)),
    added(
        "other shapes, at partition 3", empty((99, 40), view=lambda t: t[3:99]),
        [hbm(X.reshape(-1)), tile(Y.reshape(48, 80))],
        np.concatenate([empty((3, 40)).data, X + Y]),
    ),
    added("with ones for scales", empty((96, 40)), [hbm(X), hbm(Y)], X + Y, scales=[1.0, 1], unique_indices=True),
    Case(
        "dma_compute", "onto its sources", {"dst": tile(ONTO_BEFORE), "other": tile(OTHER)}, _onto_itself, {"dst": ONTO}
    ),
]  # fmt: skip


def refused(
    name: str,
    breaks: str,
    sources: list[Tile] | None = None,
    dst: Tile | None = None,
    **params: Any,
) -> Case:
    given = [hbm(X), hbm(Y)] if sources is None else sources
    return added(name, dst or empty((96, 40)), given, breaks=breaks, **params)


REFUSED = [
    refused("a product", "`reduce_op` must be nl.add", op=nl.multiply),
    refused("scaled", "`scales` must be None or 1.0", scales=(1.0, 0.5)),
    refused("a scale missing", "`scales` must be None or 1.0", scales=[1.0]),
    refused("a number for scales", "`scales` must be None or 1.0", scales=1.0),
    refused("no sources", "`srcs` must hold 1 to 16", []),
    refused("17 sources", "`srcs` must hold 1 to 16", [hbm(m) for m in (*MANY, MANY[0])], empty((64, 24))),
    refused("fewer elements", "the same number of elements", [hbm(X), hbm(Y[:, :39])]),
    refused("packed", "must not have packed", [hbm(X), hbm(Y, "int32", view=lambda t: t.view("float8_e5m2_x4"))]),
    refused("scales of a block", "must not have packed", dst=empty((96, 40), "float8_e8m0fnu")),
    refused("a number for unique_indices", "`unique_indices` must be True or False", unique_indices=1),
    refused("skipping", "`oob_mode` skip is only for", oob_mode=1),
    refused("oob_mode is no member", "`oob_mode` must be", oob_mode=9),
    refused("from PSUM", "`srcs` must be in", [hbm(X), tile(Y, space=PSUM)]),
]  # fmt: skip

CASES = [*SUMS, *REFUSED]
