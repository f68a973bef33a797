"""Tests loops, program ids and tile sizes against the documentation."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import LoopControl, NotAllowed, OutOfBounds, OutsideKernel
from nki_lab.ir.building.builder import Builder
from nki_lab.runtime import run
from nki_lab.targets import get_target
from tests.language.evaluate import evaluate, run_kernel, stored

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("loop", [nl.affine_range, nl.sequential_range, nl.static_range])
def test_unrolled_loops_are_ranges(loop):
    assert list(loop(4)) == [0, 1, 2, 3]
    assert list(loop(2, 5)) == [2, 3, 4]
    assert list(loop(start=9, stop=2, step=-3)) == [9, 6, 3]
    assert list(loop(np.int64(3))) == [0, 1, 2]
    with pytest.raises(LoopControl, match=r"must be integers, found float 2\.0"):
        loop(2.0)


@pytest.mark.parametrize("loop", [nl.affine_range, nl.sequential_range, nl.static_range])
@pytest.mark.parametrize("bounds", [lambda t: (t,), lambda t: (0, t), lambda t: (0, 4, t)])
def test_a_tensor_is_no_bound(loop, bounds):
    with pytest.raises(LoopControl, match="is only known at run time"):
        evaluate(lambda t: list(loop(*bounds(t))), X)


def test_python_range_over_a_tensor_says_why():
    with pytest.raises(TypeError, match="not known while the kernel is traced"):
        evaluate(lambda t: list(range(t)), X)


def test_one_core():
    seen = []

    def kernel(x):
        seen.append([nl.program_id(), nl.program_id(axis=0), nl.num_programs(), nl.num_programs(axes=None),
                     nl.num_programs((0,)), nl.program_ndim()])  # fmt: skip
        return stored(nl.load(x))

    run_kernel(kernel, X)
    assert seen == [[0, 0, 1, 1, 1, 0]]


def test_two_cores():
    with Builder(get_target("trn2"), program=(1, 2), grid=(2,)).active():
        assert [nl.program_id(0), nl.num_programs(0), nl.program_ndim()] == [1, 2, 1]


@pytest.mark.parametrize("function", [nl.program_id, nl.num_programs])
@pytest.mark.parametrize("axis", [1, -2, "0", True])
def test_other_axes_of_the_grid(function, axis):
    with Builder(get_target("trn2")).active(), pytest.raises(OutOfBounds, match="only axis 0"):
        function(axis)


def test_no_reorder_is_a_block_of_a_kernel():
    def kernel(x):
        with nl.no_reorder():
            tile = nl.load(x)
        return stored(tile)

    assert np.array_equal(run_kernel(kernel, X)[0][0], X)
    with pytest.raises(OutsideKernel), nl.no_reorder():
        pass


# nki/api/nki.language.tile_size.rst; SBUF sizes: nki/guides/architecture (24, 28 and 32 MiB), PSUM 2 MiB in 8 banks.
SIZES = {
    "pmax": 128,
    "psum_fmax": 512,
    "psum_bank_fmax": 512,
    "psum_bank_fmax_bytes": 2048,
    "psum_num_banks": 8,
    "gemm_stationary_fmax": 128,
    "gemm_moving_fmax": 512,
    "bn_stats_fmax": 512,
}


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_tile_sizes_are_those_of_the_target(target):
    expected = get_target(target)
    with Builder(expected).active():
        for name, value in SIZES.items():
            assert getattr(nl.tile_size, name) == value, name
        assert nl.tile_size.sbuf_size_bytes == 128 * expected.sbuf_bytes_per_partition
        assert nl.tile_size.sbuf_fmax_bytes == expected.sbuf_usable_bytes_per_partition
        assert nl.tile_size.total_available_sbuf_size == nl.tile_size.sbuf_fmax_bytes
        assert nl.tile_size.sbuf_fmax == nl.tile_size.sbuf_fmax_bytes // 4
        assert nl.tile_size.psum_min_align == expected.psum_min_align_bytes
        assert nl.tile_size.sbuf_min_align == expected.sbuf_min_align_bytes


def test_tile_sizes_outside_a_kernel_follow_the_environment(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    small = nl.tile_size.sbuf_size_bytes
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    assert small == 28 * 2**20
    assert nl.tile_size.sbuf_size_bytes == 32 * 2**20
    assert type(nl.tile_size.pmax) is int


def test_an_order_without_a_block_is_an_error():
    def kernel(x):
        nl.no_reorder()
        return stored(nl.load(x))

    with pytest.raises(NotAllowed, match="has no effect without `with`") as error:
        run_kernel(kernel, X)
    assert error.value.span.text.strip() == "nl.no_reorder()"


def test_a_block_that_was_made_before_is_a_block():
    def kernel(x):
        block = nl.no_reorder()
        with block:
            tile = nl.load(x)
        return stored(tile)

    assert np.array_equal(run_kernel(kernel, X)[0][0], X)


BEYOND = {
    "an operand": lambda t, p: nisa.tensor_copy(t[:, 0:4], p),
    "of a list": lambda t, p: nisa.dma_compute(t[:, 0:4], [p, t[:, 0:4]], nl.add),
    "a function": lambda t, p: nl.add(p, t[:, 0:4]),
    "an operator": lambda t, p: t + p,
    "a shape": lambda t, p: p.shape,
    "a part": lambda t, p: p[:, 0:1],
    "printed": lambda t, p: print(p),
    "a result": lambda t, p: p,
}


@pytest.mark.parametrize("use", [None, *BEYOND])
def test_a_pattern_that_leaves_its_tile_is_an_error_once_it_is_used(use):
    """Published kernels make the next pattern before the condition that keeps it from being used."""

    def kernel(x):
        t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x)
        out = nl.ndarray((6, 4), x.dtype, buffer=nl.shared_hbm)
        s = nl.ndarray((6, 4), x.dtype, buffer=nl.sbuf)
        for column in range(4):
            p = t.ap(pattern=[[12, 6], [3, 4]], offset=column)
            if column < 3:
                nisa.tensor_copy(s, p)
            elif use is not None and BEYOND[use](t, p) is p:
                return p
        nisa.dma_copy(dst=out, src=s)
        return out

    x = np.arange(72, dtype=np.float32).reshape(6, 12) * -1.5
    if use is None:
        np.testing.assert_array_equal(run(kernel, x).value, x[:, 2::3])
    else:
        with pytest.raises(
            OutOfBounds, match=r"(?s)reaches elements 3 to 12 of each partition.*pattern="
        ):
            run(kernel, x)
