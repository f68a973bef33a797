"""Tests that loads of what a tile still holds are reported, and only those."""

from dataclasses import replace

import numpy as np
import pytest

import nki_lab.language as nl
from benchmarks.kernels import add, matmul
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.source import Span
from nki_lab.targets import TRN2
from tests.compiler.programs import compiled, line_of

X = np.zeros((256, 64), np.float32)


def told(kernel, *arrays, **facts):
    """Return the findings on loads."""
    found = compiled(kernel, *arrays, **facts).findings
    return [f for f in found if "moved for nothing" in f.message]


def tile_of(x, rows=128):
    return nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)


def twice(x, between=lambda x, out, a: None, rows=slice(0, 128), made=tile_of):
    """Load a part of x, do something, and load a part of it again."""
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    a, b = made(x), made(x)
    nisa.dma_copy(dst=a, src=x[0:128])
    between(x, out, a)
    nisa.dma_copy(dst=b, src=x[rows])
    nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
    nisa.dma_copy(dst=out, src=b)
    return out


def test_a_second_load_is_told_with_both_lines_and_its_bytes():
    (finding,) = told(twice, X)
    first = line_of(__file__, "nisa.dma_copy(dst=a, src=x[0:128])")
    assert finding.kind == "advice"
    assert finding.message == (
        f"dma_copy loads `x` [128, 64] again although the tile of test_find_reloads.py, line {first} still holds"
        " it: 32,768 bytes are moved for nothing"
    )
    assert Span.of(finding.stack[0]).line == line_of(__file__, "nisa.dma_copy(dst=b, src=x[rows])")
    assert "load once into a tile that both places use" in finding.help


def write_tile(x, out, a):
    nisa.memset(dst=a[:, 3:4], value=0.0)


def write_source(x, out, a):
    nisa.dma_copy(dst=x[5:6, 0:4], src=a[0:1, 0:4])


def read_only(x, out, a):
    nisa.dma_copy(dst=out, src=a)


@pytest.mark.parametrize(
    ("facts", "count"),
    [
        ({"between": read_only}, 1),
        ({"between": write_tile}, 0),
        ({"between": write_source}, 0),
        ({"rows": slice(128, 256)}, 0),
        ({"rows": slice(1, 129)}, 0),
    ],
)
def test_only_what_is_still_there_and_true_is_told(facts, count):
    assert len(told(twice, X.copy(), **facts)) == count


def test_a_place_that_another_tile_has_taken_is_no_copy():
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
        nisa.dma_copy(dst=a, src=x[0:128])
        nisa.dma_copy(dst=out, src=a)
        other = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf, address=(0, 128))
        nisa.memset(dst=other, value=1.0)
        nisa.dma_copy(dst=out[:, 0:1], src=other)
        b = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf, address=(0, 4096))
        nisa.dma_copy(dst=b, src=x[0:128])
        nisa.dma_copy(dst=out, src=b)
        return out

    assert told(kernel, X) == []


@pytest.mark.parametrize("overlap", [True, False])
def test_tiles_that_take_turns_at_a_place_are_no_copies(overlap):
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        other = nl.ndarray(
            (128, 1), dtype=x.dtype, buffer=nl.sbuf, address=(0, 128 if overlap else 1024)
        )
        a = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
        b = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf, address=(0, 4096))
        for value in (1.0, 2.0):
            nisa.memset(dst=other, value=value)
            nisa.dma_copy(dst=out[:, 0:1], src=other)
            if value == 1.0:
                nisa.dma_copy(dst=a[:, 0:32], src=x[0:128, 0:32])
                nisa.dma_copy(dst=a[:, 32:64], src=x[0:128, 32:64])
        nisa.dma_copy(dst=b[:, 0:32], src=x[0:128, 0:32])
        nisa.tensor_tensor(dst=b, data1=a, data2=b, op=nl.add)
        nisa.dma_copy(dst=out, src=b)
        return out

    options = Choices(capacity="finding")  # tiles over each other are told, and run
    assert len(told(kernel, X, options=options)) == (0 if overlap else 1)


def test_the_product_that_loads_its_tiles_for_every_block_is_told_once_per_line():
    """Of 8 x 2 x 2 tiles of each side only those of one row and one column of blocks are new."""
    left, right = np.zeros((256, 512), np.float32), np.zeros((256, 1024), np.float32)
    found = told(matmul, left, right)
    assert ["`lhs`" in f.message for f in found] == [True, False]
    # 4 x 2 blocks of 2 tiles each; 4 x 2 tiles of lhs and 2 x 2 of rhs are needed.
    assert "8 times more" in found[0].message and f"{8 * 128 * 128 * 4:,} bytes" in found[0].message
    assert (
        "12 times more" in found[1].message and f"{12 * 128 * 512 * 4:,} bytes" in found[1].message
    )
    assert "before the loop" in found[0].help


def test_loads_that_memory_makes_necessary_are_not_told():
    small = replace(
        TRN2, sbuf_bytes_per_partition=2 * (512 + 2048) + 2048, sbuf_reserved_bytes_per_partition=0
    )
    left, right = np.zeros((1024, 128), np.float32), np.zeros((1024, 1024), np.float32)
    assert "`lhs`" in told(matmul, left, right)[0].message
    assert told(matmul, left, right, target=small) == []


def test_a_kernel_that_loads_everything_once_is_not_told():
    assert told(add, X, X) == []


def test_a_load_in_a_loop_of_the_device_is_needed_where_the_loop_changes_the_tile():
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        a = tile_of(x)
        nisa.dma_copy(dst=a, src=x[0:128])

        def body(_):
            nisa.dma_copy(dst=a, src=x[0:128])
            nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
            nisa.dma_copy(dst=out, src=a)

        nl.fori_loop(0, 3, body)
        return out

    assert told(kernel, X) == []


def test_it_can_be_left_out():
    assert told(twice, X, options=Choices(skip_passes=("find_reloads",))) == []
