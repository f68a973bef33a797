"""Tests the model against the numbers that were printed for real chips.

Segments within 10 %. Kernels repeat what a published picture or table timed; every row names it. They were used to
choose the numbers of `targets`, so they show that the model can say them, not that it predicts others.
"""

from __future__ import annotations

import itertools

import pytest

import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.isa.enums import dge_mode
from nki_lab.targets.engines import GPSIMD, VECTOR
from tests.timing.timed import timed

(
    dma_copy,
    memset,
    tensor_copy,
    tensor_tensor,
    tensor_scalar,
    activation,
    nc_matmul,
    scalar_tensor_tensor,
    tensor_reduce,
) = (
    registry[name]
    for name in (
        "dma_copy memset tensor_copy tensor_tensor tensor_scalar activation nc_matmul "
        "scalar_tensor_tensor tensor_reduce"
    ).split()
)
ANY = ((1, 1), "float32")
SEGMENT = 0.10


def filled(shape, dtype=nl.float32, buffer=nl.sbuf):
    tile = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    memset(tile, 1.0, engine=VECTOR if buffer is nl.psum else GPSIMD)
    return tile


def store(held):
    out = nl.ndarray(held.shape, dtype=held.dtype, buffer=nl.shared_hbm)
    dma_copy(out, held)
    return out


def one(instruction, columns, dtype=nl.float32, result=None, partitions=128, operand=nl.sbuf):
    """Return a kernel that runs one instruction on tiles of `columns` elements per partition."""

    def kernel(x):
        a = filled((partitions, columns), dtype, operand)
        b = filled((partitions, columns), dtype)
        dst = nl.ndarray((partitions, result or columns), dtype=dtype, buffer=nl.sbuf)
        instruction(dst, a, b)
        return store(dst)

    return kernel


def exp(dst, a, b):
    activation(dst, nl.exp, a)


def add(dst, a, b):
    tensor_tensor(dst, a, b, nl.add, engine=VECTOR)


def multiply_add(dst, a, b):
    scalar_tensor_tensor(dst, a, nl.multiply, 2.0, nl.add, b)


def largest(dst, a, b):
    tensor_reduce(dst, nl.maximum, a, axis=1)


DURATIONS = [
    # nki/img/overviews/nki-dma-intro-5.png and -3.png; nki/library/specs/images/profile_phase_2.png
    ("trn2", "activation", one(exp, 128, nl.bfloat16), 400),
    ("trn2", "activation", one(exp, 4096, nl.bfloat16), 3710),
    ("trn2", "activation", one(exp, 16384, nl.bfloat16), 13960),
    # nki/img/nki_perf_guide/fig17.png, fig10.png
    ("trn1", "activation", one(exp, 8192), 6000),
    ("trn1", "tensor_tensor", one(add, 8192), 14987),
    ("trn1", "tensor_tensor", one(add, 8192, partitions=64), 14968),
    # stanford-cs149/asst4-trainium handout/profiler_GUI.gif; asst4-trainium2 handout/profiler_gui.png
    ("trn1", "tensor_tensor", one(add, 2000), 3800),
    ("trn2", "tensor_tensor", one(add, 2000), 2250),
    # nki/library/specs/images/profile_phase_3.png
    ("trn2", "tensor_reduce", one(largest, 16384, result=1), 17220),
]


def test_quantizing_from_bfloat16_to_8_bits() -> None:
    # nki/library/specs/images/profile_phase_3.png: tensor_scalar of N=16384 takes 8810 ns, the 2x mode.
    def kernel(x):
        a = filled((128, 16384), nl.bfloat16)
        dst = nl.ndarray((128, 16384), dtype=nl.float8_e4m3, buffer=nl.sbuf)
        tensor_scalar(dst, a, nl.multiply, 2.0)
        return store(dst)

    (ran,) = timed(kernel, ANY, target="trn2").of("tensor_scalar")
    assert ran.duration == pytest.approx(8810, rel=SEGMENT)


@pytest.mark.parametrize(("target", "name", "kernel", "printed_ns"), DURATIONS)
def test_durations_of_instructions(target, name, kernel, printed_ns) -> None:
    (ran,) = timed(kernel, ANY, target=target).of(name)
    assert ran.duration == pytest.approx(printed_ns, rel=SEGMENT)


def test_a_chain_of_short_activations() -> None:
    # deep-dives/nki_perf_guide.rst:428: 189 ns from one to the next on trn1, N=1, each depends on the last.
    def kernel(x):
        a = filled((128, 1))
        for _ in range(8):
            b = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            activation(b, nl.exp, a)
            a = b
        return store(a)

    ran = timed(kernel, ANY, target="trn1").of("activation")
    for first, second in itertools.pairwise(ran):
        assert second.start - first.start == pytest.approx(189, rel=SEGMENT)


def test_the_pace_of_scalar_tensor_tensor() -> None:
    # nki/library/specs/images/profile_phase_2.png: 661 ns from one to the next at N=512, operands in PSUM and SBUF.
    def kernel(x):
        a, b = filled((128, 512), buffer=nl.psum), filled((128, 512))
        results = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)]
        for dst in results:
            multiply_add(dst, a, b)
        return tuple(store(dst) for dst in results)

    first, second, _ = timed(kernel, ANY, target="trn2").of("scalar_tensor_tensor")
    assert second.start - first.start == pytest.approx(661, rel=SEGMENT)


def matmul(dtype, columns):
    def kernel(x):
        weights, moving = filled((128, 128), dtype), filled((128, columns), dtype)
        held = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
        for _ in range(60):
            nc_matmul(held, weights, moving)
        moved = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        tensor_copy(moved, held)
        return store(moved)

    return kernel


def test_a_product_with_its_latency() -> None:
    # nki/img/nki_perf_guide/fig20-21.png: a MultiplyMoving of N=128 is shown as 188 ns.
    run = timed(matmul(nl.bfloat16, 128), ANY, target="trn1")
    _, begins, _ = run.timeline.board.products
    assert run.of("nc_matmul")[-1].end - begins[-1] / 1000 == pytest.approx(188, rel=SEGMENT)


def test_half_of_a_float32_product() -> None:
    # nki/img/how-to/nki-profiler-5.png, -7.png: 592 and 589 ns each, 427 to 430 ns from one to the next.
    profile = timed(matmul(nl.float32, 512), ANY, target="trn2").profile
    rows = profile.strings("Instruction", "opcode").equal_to("MATMUL")
    start = profile.numbers("Instruction", "start_ts")[rows]
    duration = profile.numbers("Instruction", "duration_ns")[rows]
    assert len(start) == 2 * 60
    assert duration[-2:].tolist() == pytest.approx([592, 592], rel=SEGMENT)
    assert start[-1] - start[-2] == pytest.approx(428, rel=SEGMENT)


# -- transfers -----------------------------------------------------------------------------------------------------


def through(x):
    held = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    dma_copy(held, x, dge_mode=dge_mode.none)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    activation(result, nl.exp, held)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dma_copy(out, result, dge_mode=dge_mode.none)
    return out


TRANSFERS = [
    # nki/img/nki_perf_guide/fig30.png; nki/img/overviews/nki-dma-intro-3.png: 32 KiB on one engine
    ("trn1", ((4, 4096), "bfloat16"), 1810),
    ("trn2", ((4, 4096), "bfloat16"), 1416),
    # stanford-cs149/asst4-trainium handout/profiler_GUI.gif; asst4-trainium2: the store of a [128, 2000] tile
    ("trn1", ((128, 2000), "float32"), 4123),
    ("trn2", ((128, 2000), "float32"), 2640),
]


@pytest.mark.parametrize(("target", "spec", "printed_ns"), TRANSFERS)
def test_durations_of_transfers(target, spec, printed_ns) -> None:
    load, store = timed(through, spec, target=target).transfers
    assert load.duration == pytest.approx(printed_ns, rel=SEGMENT)
    assert store.duration == pytest.approx(printed_ns, rel=SEGMENT)


def test_the_segments_of_the_published_exponential() -> None:
    # nki/img/overviews/nki-dma-intro-3.png, read off by +-20 to 40 ns.
    run = timed(through, ((4, 4096), "bfloat16"), target="trn2")
    load, store = run.transfers
    (ran,) = run.of("activation")
    assert load.start - load.trigger == pytest.approx(745, rel=SEGMENT)
    assert ran.start - load.end == pytest.approx(319, rel=SEGMENT)
    assert store.trigger - ran.end == pytest.approx(31, abs=20)
    assert load.start - load.trigger < 1280  # the table was loaded meanwhile


def test_two_loads_at_once() -> None:
    # The add of two [128, 2000] tiles in asst4-trainium2: the loads of 4820 and 4340 ns overlap; together they move
    # 2 x 1,024,000 bytes, which is what bounds them.
    def kernel(a, b):
        x, y = (nl.ndarray((128, 2000), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        dma_copy(x, a, dge_mode=dge_mode.none)
        dma_copy(y, b, dge_mode=dge_mode.none)
        tensor_tensor(x, x, y, nl.add, engine=VECTOR)
        return store(x)

    spec = ((128, 2000), "float32")
    first, second, _ = timed(kernel, spec, spec, target="trn2").transfers
    assert second.end - first.start == pytest.approx(4820 + 300, rel=0.15)


def test_a_kernel_that_is_bound_by_software_descriptors() -> None:
    # guides/tutorials/kernel-optimization.rst:337: 66,048 copies in 39.895 ms; here what more columns add.
    small, large = (
        timed(tiled_product(dge_mode.swdge), *matrices(columns), target="trn2")
        for columns in (1024, 2048)
    )
    copies = len(large.transfers) - len(small.transfers)
    assert large.total - small.total == pytest.approx(copies * 39_894_938 / 66_048, rel=0.02)


def test_a_kernel_that_is_bound_by_the_tensor_engine() -> None:
    # guides/tutorials/kernel-optimization.rst:468: float32, 32,768 products in 28.2 ms; here without the start.
    run = timed(tiled_product(dge_mode.none, hoisted=True), *matrices(1024), target="trn2")
    _, begins, ends = run.timeline.board.products
    half = len(begins) // 2
    pace = (ends[-1] - begins[half]) / 1000 / (len(begins) - half)
    assert pace == pytest.approx(28_200_000 / 32_768, rel=0.02)


def matrices(columns):
    return ((2048, 256), "float32"), ((2048, columns), "float32")


def tiled_product(mode, hoisted=False):
    """Return a tiled product of matrices; `hoisted` loads each tile once."""

    def load(source, row, column, width):
        tile = nl.ndarray((128, width), dtype=source.dtype, buffer=nl.sbuf)
        dma_copy(
            tile,
            source[128 * row : 128 * row + 128, width * column : width * column + width],
            dge_mode=mode,
        )
        return tile

    def kernel(lhs, rhs):
        out = nl.ndarray((lhs.shape[1], rhs.shape[1]), dtype=lhs.dtype, buffer=nl.shared_hbm)
        depth = lhs.shape[0] // 128
        kept = {}

        def tile(source, *place):
            if not hoisted:
                return load(source, *place)
            key = (source.storage.id, place)
            if key not in kept:
                kept[key] = load(source, *place)
            return kept[key]

        for m in range(lhs.shape[1] // 128):
            for n in range(rhs.shape[1] // 512):
                held = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                for k in range(depth):
                    nc_matmul(held, tile(lhs, k, m, 128), tile(rhs, k, n, 512))
                moved = nl.ndarray((128, 512), dtype=lhs.dtype, buffer=nl.sbuf)
                tensor_copy(moved, held)
                dma_copy(
                    out[128 * m : 128 * m + 128, 512 * n : 512 * n + 512], moved, dge_mode=mode
                )
        return out

    return kernel
