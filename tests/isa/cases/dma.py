"""Cases of dma_copy and dma_transpose, compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.dtypes import dtype_of
from nki_lab.isa.enums import dge_mode, oob_mode
from nki_lab.targets.engines import SCALAR, SYNC, VECTOR
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SHARED_HBM
from tests.isa.case import Case, Tile, View, empty, isa, rounded, sample, tile

ALL = ("trn1", "trn2", "trn3")
NEW = ("trn2", "trn3")
X = sample(96, 40, seed=1, scale=50)
WORDS = np.random.default_rng(2).integers(-(2**31), 2**31, (64, 48), np.int32)


def hbm(data: Any, dtype: str | None = None, view: View | None = None) -> Tile:
    return tile(data, dtype, PRIVATE_HBM, view)


def copied(
    name: str,
    src: Tile,
    dst: Tile,
    expected: Any = None,
    *,
    targets: tuple[str, ...] = ALL,
    breaks: str = "",
    of: str = "dma_copy",
    **params: Any,
) -> Case:
    """Make a case of one transfer."""
    move: Callable[..., Any] = getattr(isa, of)
    return Case(
        of,
        name,
        tiles={"dst": dst, "src": src},
        run=lambda t: move(t.dst, t.src, **params),
        expected={} if breaks else {"dst": expected},
        targets=targets,
        breaks=breaks,
    )


# -- dma_copy -----------------------------------------------------------------------------------------

PATTERNS = np.random.default_rng(3).integers(0, 1 << 16, (64, 48), np.uint16)
PART = empty((64, 48), "int32", view=lambda t: t[3:60, 5:45:4])
WROTE = PART.data.copy()
WROTE[3:60, 5:45:4] = WORDS[2:59, :10]
INTEGERS = np.array([[-(2**31), -40000, -1, 0, 1, 255, 256, 65536, 2**24 + 1, 2**31 - 1]], np.int32)
LIMITS = np.array([[-1e9, -300.5, -129, -0.5, 0.5, 1.5, 2.5, 127.49, 300, np.nan]], np.float32)


def _copy_onto_itself(t):
    """Shift a tile by four elements within itself: all is read before anything is written."""
    isa.dma_copy(t.dst[:, 4:48], t.dst[:, 0:44])


SHIFTED = WORDS.copy()
SHIFTED[:, 4:] = WORDS[:, :44]

COPIES = [
    copied("HBM to SBUF", hbm(X), empty((96, 40)), X),
    copied("SBUF to HBM", tile(X), empty((96, 40), space=SHARED_HBM), X),
    copied("HBM to HBM", hbm(WORDS), empty((64, 48), "int32", PRIVATE_HBM), WORDS),
    copied("SBUF to SBUF", tile(WORDS), empty((64, 48), "int32"), WORDS),
    copied("another shape", hbm(WORDS), empty((48, 4, 16), "int32"), WORDS.reshape(48, 4, 16)),
    copied("from one axis", hbm(WORDS.reshape(-1)), empty((96, 32), "int32"), WORDS.reshape(96, 32)),
    copied(
        "another shape between tiles", tile(WORDS, view=lambda t: t[0:60, 0:46]), empty((69, 40), "int32"),
        WORDS[:60, :46].reshape(69, 40),
    ),
    copied("into a strided view at partition 3", hbm(WORDS, view=lambda t: t[2:59, :10]), PART, WROTE),
    copied(
        "permuted view", hbm(WORDS.reshape(4, 16, 48), view=lambda t: t.permute((1, 2, 0))),
        empty((16, 48, 4), "int32"), WORDS.reshape(4, 16, 48).transpose(1, 2, 0),
    ),
    copied(
        "one row for all partitions", hbm(WORDS[:1], view=lambda t: t.broadcast(0, 100)), empty((100, 48), "int32"),
        np.repeat(WORDS[:1], 100, 0),
    ),
    copied(
        "bits of bfloat16", Tile(PATTERNS.view(dtype_of("bfloat16").np), dtype_of("bfloat16"), PRIVATE_HBM),
        empty((64, 48), "uint16", view=lambda t: t.view("bfloat16")), PATTERNS,
    ),
    copied(
        "bits of packed elements", hbm(WORDS, view=lambda t: t.view("float8_e4m3fn_x4")),
        empty((64, 48), "int32", view=lambda t: t.view("float8_e4m3fn_x4")), WORDS,
    ),
    Case(
        "dma_copy", "onto itself", tiles={"dst": tile(WORDS)}, run=_copy_onto_itself, expected={"dst": SHIFTED}
    ),
    copied("cast to bfloat16", hbm(X), empty((96, 40), "bfloat16"), rounded(X, "bfloat16")),
    copied("cast from bfloat16", hbm(X, "bfloat16"), empty((96, 40)), rounded(X, "bfloat16").astype(float)),
    copied("cast to float8_e4m3", tile(X), empty((96, 40), "float8_e4m3"), rounded(X, "float8_e4m3")),
    copied(
        "cast to int8 saturates", hbm(LIMITS), empty((1, 10), "int8"),
        [[-128, -128, -128, 0, 0, 2, 2, 127, 127, 0]],
    ),
    copied(
        "cast of integers goes through float32", hbm(INTEGERS), empty((1, 10), "uint32"),
        [[0, 0, 0, 0, 1, 255, 256, 65536, 2**24, 2**31]],
    ),
    copied("prepared descriptors", hbm(X), empty((96, 40)), X, dge_mode=dge_mode.none),
    copied("software descriptors", hbm(X), empty((96, 40)), X, dge_mode=dge_mode.swdge, oob_mode=oob_mode.skip),
    copied("hardware descriptors", hbm(X), empty((96, 40)), X, dge_mode=dge_mode.hwdge, targets=NEW),
    copied(
        "hardware descriptors from Scalar", hbm(X), empty((96, 40)), X, dge_mode=dge_mode.hwdge, engine=SCALAR,
        targets=NEW,
    ),
    copied("priority", hbm(X), empty((96, 40)), X, priority=3, targets=("trn3",)),
]  # fmt: skip


def refused(
    name: str, breaks: str, src: Tile | None = None, dst: Tile | None = None, **params: Any
) -> Case:
    return copied(name, src or hbm(X), dst or empty((96, 40)), breaks=breaks, **params)


REFUSED = [
    refused("dge_mode is no member", "`dge_mode` must be", dge_mode=9),
    refused("oob_mode is a string", "`oob_mode` must be", oob_mode="skip"),
    refused("priority of 4", "`priority` must be None or an integer from 0", priority=4),
    refused("priority on an older chip", "`priority` needs a target", priority=0, targets=("trn1", "trn2")),
    refused("hardware on trn1", "`dge_mode` hwdge needs a target", dge_mode=dge_mode.hwdge, targets=("trn1",)),
    refused("Vector starts", "`engine` must be one that runs", dge_mode=dge_mode.hwdge, engine=VECTOR, targets=NEW),
    refused("engine without hardware", "`engine` can only be given together", engine=SYNC),
    refused(
        "engine with software", "`engine` can only be given together", dge_mode=dge_mode.swdge, engine=SYNC
    ),
    refused("fewer elements", "the same number of elements", dst=empty((96, 39))),
    refused(
        "packed from integers", "packed (x4), scale and int64 dtypes cannot be cast", hbm(WORDS),
        empty((64, 48), "int32", view=lambda t: t.view("float8_e4m3fn_x4")),
    ),
    refused(
        "scales from bytes", "packed (x4), scale and int64 dtypes cannot be cast", hbm(X, "uint8"),
        empty((96, 40), "float8_e8m0fnu"),
    ),
    refused(
        "hardware cast", "hwdge cannot cast", dst=empty((96, 40), "bfloat16"), dge_mode=dge_mode.hwdge, targets=NEW
    ),
    refused("src in PSUM", "`src` must be in", tile(X, space=PSUM)),
    refused("dst in PSUM", "`dst` must be in", dst=empty((96, 40), space=PSUM)),
]  # fmt: skip


# -- dma_transpose ------------------------------------------------------------------------------------


def turned(name: str, src: Tile, dst: Tile, expected: Any = None, **params: Any) -> Case:
    return copied(name, src, dst, expected, of="dma_transpose", **params)


HALVES = PATTERNS.view(np.float16)
CUBE = np.random.default_rng(4).integers(-30000, 30000, (8, 6, 20), np.int16)
BLOCK = np.random.default_rng(5).integers(-30000, 30000, (8, 3, 4, 20), np.int16)

TURNED = [
    turned("2 axes from HBM", hbm(WORDS), empty((48, 64), "int32"), WORDS.T),
    turned("2 axes within SBUF", tile(WORDS), empty((48, 64), "int32"), WORDS.T, axes=(1, 0)),
    turned("2 axes to HBM", hbm(WORDS), empty((48, 64), "int32", SHARED_HBM), WORDS.T),
    turned("3 axes", hbm(CUBE), empty((20, 6, 8), "int16"), CUBE.transpose(2, 1, 0)),
    turned("3 axes, named", tile(CUBE), empty((20, 6, 8), "int16"), CUBE.transpose(2, 1, 0), axes=[2, 1, 0]),
    turned("4 axes", hbm(BLOCK), empty((20, 3, 4, 8), "int16"), BLOCK.transpose(3, 1, 2, 0)),
    turned(
        "every bit", Tile(HALVES, dtype_of("float16"), PRIVATE_HBM),
        empty((48, 64), "uint16", view=lambda t: t.view("float16")), PATTERNS.T,
    ),
    turned(
        "hardware, 2 axes", hbm(PATTERNS[:16]), empty((48, 16), "uint16"), PATTERNS[:16].T,
        dge_mode=dge_mode.hwdge, targets=NEW,
    ),
    turned(
        "hardware, 4 axes", hbm(BLOCK), empty((20, 3, 4, 8), "int16"), BLOCK.transpose(3, 1, 2, 0),
        dge_mode=dge_mode.hwdge, targets=NEW,
    ),
    turned("prepared descriptors", hbm(WORDS), empty((48, 64), "int32"), WORDS.T, dge_mode=dge_mode.none),
    turned("priority", hbm(WORDS), empty((48, 64), "int32"), WORDS.T, priority=0, targets=("trn3",)),
]  # fmt: skip


def unturned(
    name: str, breaks: str, src: Tile | None = None, dst: Tile | None = None, **params: Any
) -> Case:
    return turned(name, src or hbm(WORDS), dst or empty((48, 64), "int32"), breaks=breaks, **params)


HARDWARE = {"dge_mode": dge_mode.hwdge, "targets": NEW}
UNTURNED = [
    unturned("dge_mode is no member", "`dge_mode` must be", dge_mode=9),
    unturned("oob_mode is no member", "`oob_mode` must be", oob_mode=9),
    unturned("priority is a float", "`priority` must be None or an integer", priority=1.0),
    unturned("priority on an older chip", "`priority` needs a target", priority=1, targets=("trn1", "trn2")),
    unturned("hardware on trn1", "hwdge needs a target", dge_mode=dge_mode.hwdge, targets=("trn1",)),
    unturned("software", "must not be nisa.dge_mode.swdge", dge_mode=dge_mode.swdge),
    unturned("skipping", "`oob_mode` skip is only for", oob_mode=oob_mode.skip),
    unturned("another dtype", "must have the same dtype", dst=empty((48, 64), "float32")),
    unturned("1 axis", "`src` must have 2, 3 or 4 axes", hbm(WORDS[0]), empty((48, 1), "int32", SHARED_HBM)),
    unturned("other axes", "`axes` must be None or (1, 0)", hbm(CUBE), empty((6, 20, 8), "int16"), axes=(1, 2, 0)),
    unturned("not turned", "exactly the shape of the transposed", dst=empty((64, 48), "int32")),
    unturned("fewer axes", "exactly the shape of the transposed", hbm(CUBE), empty((20, 48), "int16")),
    unturned("dst in PSUM", "`dst` must be in", dst=empty((48, 64), "int32", PSUM)),
    unturned(
        "hardware, 4 bytes", "needs a `src` dtype of 2 bytes", hbm(WORDS[:16]), empty((48, 16), "int32"), **HARDWARE
    ),
    unturned(
        "hardware, long rows", "at most 128 elements on the last axis", hbm(np.zeros((16, 129)), "int16"),
        empty((129, 16), "int16", SHARED_HBM), **HARDWARE,
    ),
    unturned("hardware, 64 rows", "needs 16 rows", hbm(PATTERNS), empty((48, 64), "uint16"), **HARDWARE),
    unturned(
        "hardware, not in sixteens", "needs 16 rows; with 3 or 4 axes", hbm(CUBE[:, :5]),
        empty((20, 5, 8), "int16"), **HARDWARE,
    ),
]  # fmt: skip

CASES = [*COPIES, *REFUSED, *TURNED, *UNTURNED]
