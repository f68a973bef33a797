"""Tests how a transfer is cut into descriptors, who makes them, and at what rate it runs."""

import numpy as np
import pytest

from nki_lab.isa.enums import dge_mode
from nki_lab.targets.engines import GPSIMD, SCALAR, SYNC
from nki_lab.targets.spaces import PRIVATE_HBM
from tests.isa.case import Case, Tile, Traced, empty, isa, tile

MODES = dge_mode


def hbm(*shape: int, dtype: str = "bfloat16", view=None) -> Tile:
    return tile(np.zeros(shape, np.float32), dtype, PRIVATE_HBM, view)


def sbuf(*shape: int, dtype: str = "bfloat16", view=None) -> Tile:
    return empty(shape, dtype, view=view)


def transfer(dst, src, target="trn2", of="dma_copy", **params):
    move = getattr(isa, of)
    case = Case(
        of, "cost", {"dst": dst, "src": src}, lambda t: move(t.dst, t.src, **params), {"dst": None}
    )
    run = Traced(case, target)
    assert run.errors == []
    (found,) = run.subject.definition.cost_of(run.subject, run.builder.target)
    return found


def test_published_examples():
    # nki-dma-overview.rst: [4, 4096] bfloat16 is 32 KiB in 4 rows; [128, 128] is 8 rows of 256 bytes on each engine.
    large = transfer(sbuf(4, 4096), hbm(4, 4096))
    assert (large.descriptors, large.descriptor_bytes, large.partitions) == (4, 8192, 4)
    small = transfer(sbuf(128, 128), hbm(128, 128))
    assert (small.descriptors, small.descriptor_bytes, small.partitions) == (128, 256, 128)
    assert (small.source, small.destination) == ("hbm", "sbuf")
    assert (small.bytes_read, small.bytes_written) == (32768, 32768)
    assert small.opcode == "DMA_DIRECT2D"


@pytest.mark.parametrize(
    ("dst", "src", "expected"),
    [
        (hbm(64, 48), hbm(64, 48), (1, 6144, 1)),
        (hbm(64, 48), sbuf(64, 48), (64, 96, 64)),
        (sbuf(128, 64), hbm(128, 512, view=lambda t: t[:, 64:128]), (128, 128, 128)),
        (sbuf(48, 64), hbm(64, 48, view=lambda t: t.permute((1, 0))), (3072, 2, 48)),
        (sbuf(32, 8, 4), sbuf(128, 8), (128, 16, 128)),  # rows of 32 elements out of rows of 8
        # A cast: the wider side counts.
        (sbuf(64, 48, dtype="float32"), hbm(64, 48), (64, 192, 64)),
    ],
)
def test_descriptors(dst, src, expected):
    found = transfer(dst, src)
    assert (found.descriptors, found.descriptor_bytes, found.partitions) == expected


def test_a_cast_changes_the_bytes():
    found = transfer(sbuf(64, 48, dtype="float32"), hbm(64, 48))
    assert (found.bytes_read, found.bytes_written) == (64 * 48 * 2, 64 * 48 * 4)


@pytest.mark.parametrize(
    ("target", "dtype", "params", "expected"),
    [
        ("trn1", "bfloat16", {}, ("none", SYNC)),
        ("trn1", "float32", {}, ("none", SYNC)),
        ("trn1", "bfloat16", {"dge_mode": MODES.swdge}, ("swdge", GPSIMD)),
        ("trn2", "bfloat16", {}, ("hwdge", SYNC)),
        ("trn2", "float32", {}, ("swdge", GPSIMD)),
        ("trn2", "bfloat16", {"dge_mode": MODES.none}, ("none", SYNC)),
        ("trn2", "bfloat16", {"dge_mode": MODES.hwdge}, ("hwdge", SYNC)),
        ("trn3", "bfloat16", {"dge_mode": MODES.hwdge, "engine": SCALAR}, ("hwdge", SCALAR)),
    ],
)
def test_who_makes_the_descriptors(target, dtype, params, expected):
    found = transfer(sbuf(64, 48, dtype=dtype), hbm(64, 48), target, **params)
    assert (found.dge, found.issuer) == expected


def turned(dst, src, target="trn2", **params):
    return transfer(dst, src, target, of="dma_transpose", **params)


def test_transpose_rates():
    # trainium2_arch.rst: 90 % of the copy rate from HBM, 50 % within SBUF; nothing is published for trn1.
    from_hbm = turned(sbuf(48, 64), hbm(64, 48))
    assert (from_hbm.rate, from_hbm.descriptors, from_hbm.descriptor_bytes) == (0.9, 64, 96)
    assert turned(sbuf(48, 64), sbuf(64, 48)).rate == 0.5
    old = turned(sbuf(48, 64), hbm(64, 48), "trn1")
    assert (old.rate, old.descriptors, old.descriptor_bytes) == (1.0, 64 * 48, 2)
    assert old.dge == "none"


def test_transposes_the_hardware_block_can_make():
    assert turned(sbuf(48, 16), hbm(16, 48)).dge == "hwdge"
    assert turned(sbuf(48, 64), hbm(64, 48)).dge == "none"  # not 16 rows
    assert turned(sbuf(48, 16, dtype="float32"), hbm(16, 48, dtype="float32")).dge == "none"
