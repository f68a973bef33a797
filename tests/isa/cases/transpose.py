"""Cases of nc_transpose, compared bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import dtype_of
from nki_lab.ir.building.builder import current
from nki_lab.targets.engines import SCALAR, TENSOR, VECTOR
from nki_lab.targets.spaces import PSUM, SBUF
from tests.isa.case import Case, Tile, empty, isa, sample, tile

ALL = ("trn1", "trn2", "trn3")
NEW = ("trn2", "trn3")
X = sample(96, 40, seed=1)
SMALL = sample(32, 20, seed=2)


def turned(
    name: str, data: Tile, dst: Tile, expected: Any, targets: tuple[str, ...] = ALL, **params: Any
) -> Case:
    """Make a case of one transpose."""
    return Case(
        "nc_transpose",
        name,
        tiles={"dst": dst, "data": data},
        run=lambda t: isa.nc_transpose(t.dst, t.data, **params),
        expected={"dst": expected},
        targets=targets,
    )


def refused(
    name: str, breaks: str, data: Tile, dst: Tile, targets: tuple[str, ...] = ALL, **params: Any
) -> Case:
    """Make a case of one broken rule."""
    return Case(
        "nc_transpose",
        name,
        tiles={"dst": dst, "data": data},
        run=lambda t: isa.nc_transpose(t.dst, t.data, **params),
        targets=targets,
        breaks=breaks,
    )


SPOILED = X.copy()
SPOILED[5, 3], SPOILED[7, 9] = np.nan, -np.inf
SPREAD = SPOILED.T.copy()
SPREAD[[3, 9]] = np.nan
SPREAD[9, 7] = -np.inf
WORDS = np.random.default_rng(3).integers(-(2**31), 2**31, (30, 17), np.int32)
BYTES = np.random.default_rng(4).integers(0, 256, (30, 24), np.uint8)
FEW8 = tile(X[:1, :24], "float8_e4m3")
EVERY_SECOND = empty((24, 30, 2), "float8_e4m3").data
EVERY_SECOND[:, :, 0] = tile(X[:30, :24], "float8_e4m3").data.T


def _run_bytes(t):
    """Transpose 8-bit floats into every second byte of a PSUM tile, the way the array leaves them."""
    psum = current().allocate((24, 30, 2), "float8_e4m3", PSUM, "psum")
    isa.nc_transpose(psum[:, :, 0], t.data)
    isa.tensor_copy(t.dst, psum[:, :, 0].view("uint8"))


RUNS = [
    turned("Tensor engine", tile(X), empty((40, 96), space=PSUM), X.T),
    turned("free axes are flattened", tile(X.reshape(96, 5, 8)), empty((40, 96), space=PSUM), X.T),
    turned("bfloat16", tile(X, "bfloat16"), empty((40, 96), "bfloat16", PSUM), tile(X, "bfloat16").data.T),
    turned("one row", tile(X[:1]), empty((40, 1), space=PSUM), X[:1].T),
    turned("Vector engine", tile(SMALL), empty((20, 32)), SMALL.T),
    turned("Vector engine within PSUM", tile(SMALL, space=PSUM), empty((20, 32), space=PSUM), SMALL.T),
    turned("Vector engine into PSUM", tile(SMALL), empty((20, 32), space=PSUM), SMALL.T, engine=VECTOR),
    turned("int32 on Vector", tile(WORDS), empty((17, 30), "int32"), WORDS.T),
    turned("int32 on Tensor", tile(WORDS), empty((17, 30), "int32", PSUM), WORDS.T, NEW),
    turned("NaN and infinity move", tile(SPOILED), empty((40, 96), space=PSUM), SPOILED.T, NEW),
    turned("NaN and infinity spread", tile(SPOILED), empty((40, 96), space=PSUM), SPREAD, ("trn1",)),
    turned(
        "NaN and infinity move on Vector", tile(SPOILED[:32, :12]), empty((12, 32)), SPOILED[:32, :12].T
    ),
    turned(
        "strided view", tile(X, view=lambda t: t[32:64, ::3]), empty((14, 32), space=PSUM), X[32:64, ::3].T,
        engine=TENSOR,
    ),
    Case(
        "nc_transpose", "8-bit floats take two bytes",
        tiles={"data": Tile(BYTES.view(dtype_of("float8_e4m3").np), dtype_of("float8_e4m3")),
               "dst": empty((24, 30), "uint8")},
        run=_run_bytes, expected={"dst": BYTES.T}, targets=NEW,
    ),
    turned("one row of 8-bit floats", FEW8, empty((24, 1), "float8_e4m3", PSUM), FEW8.data.T, NEW),
    turned(
        "every second byte, and an axis of one", tile(X[:30, :24], "float8_e4m3"),
        empty((24, 30, 2), "float8_e4m3", PSUM, lambda t: t[:, :, 0:1]), EVERY_SECOND, NEW,
    ),
]  # fmt: skip

F8 = tile(np.zeros((30, 24)), "float8_e4m3")
REFUSED = [
    refused("Scalar engine", "`engine` must be one that runs", tile(X), empty((40, 96), space=PSUM), engine=SCALAR),
    refused("another dtype", "must have the same dtype", tile(X), empty((40, 96), "bfloat16", PSUM)),
    refused("not turned", "`dst` must have a partition for each", tile(X), empty((96, 40), space=PSUM)),
    refused(
        "Tensor engine into SBUF", "`data` must be in sbuf and `dst` in psum", tile(X), empty((40, 96)), engine=TENSOR
    ),
    refused("too large for Vector", "must be at most 32 x 32", tile(X[:33, :20]), empty((20, 33), space=SBUF)),
    refused(
        "int32 multiplied", "`data` must have a type of nc_matmul", tile(WORDS), empty((17, 30), "int32", PSUM),
        ("trn1",),
    ),
    refused("8-bit floats packed", "must step over every second", F8, empty((24, 30), "float8_e4m3", PSUM), NEW),
]  # fmt: skip

CASES = [*RUNS, *REFUSED]
