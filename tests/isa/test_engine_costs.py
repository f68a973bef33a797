"""Tests that copies, element-wise, activation and reduction instructions take the published number of cycles.

The formulas are those of nki/api/nki/isa/__init__.py@1db4d74e and, for later chips, of the architecture guides; every
expected number here is written out by hand. From trn2 on Vector takes 80 cycles more per instruction to issue it;
GpSimd takes 150 to start.
"""

from __future__ import annotations

import pytest

from nki_lab.ir.definition.cost import Port
from nki_lab.isa.enums import reduce_cmd
from nki_lab.targets.engines import GPSIMD, SCALAR
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Traced, empty, isa, nl

F32, BF16 = "float32", "bfloat16"
VECTOR_ISSUE = {"trn1": 0, "trn2": 80, "trn3": 80}
GPSIMD_START = 150


def costs(tiles, run, target):
    case = Case("any", "cost", tiles, run)
    traced = Traced(case, target)
    assert [str(e) for e in traced.errors] == []
    (i,) = traced.own
    return i.definition.cost_of(i, traced.builder.target)


def copy(target, dst, src, size=512, dst_space=None, src_space=None, view=None, **options):
    tiles = {
        "dst": empty((128, size), dst, **({"space": dst_space} if dst_space else {})),
        "src": empty((128, size * (2 if view else 1)), src, view=view, **({"space": src_space} if src_space else {})),
    }  # fmt: skip
    (cost,) = costs(tiles, lambda t: isa.tensor_copy(t.dst, t.src, **options), target)
    return cost


def every_other(t):
    return t[:, ::2]


@pytest.mark.parametrize(
    ("target", "dst", "src", "options", "data_cycles"),
    [
        # One element per cycle before the performance mode.
        ("trn1", F32, F32, {}, 512),
        ("trn1", BF16, BF16, {}, 512),
        ("trn2", F32, F32, {}, 512),
        ("trn2", F32, BF16, {}, 512),
        # trainium2_arch.rst:224: four times as fast in SBUF and contiguous, twice with one of both missing.
        ("trn2", BF16, BF16, {}, 128),
        ("trn2", BF16, "float16", {}, 128),
        ("trn2", BF16, BF16, {"view": every_other}, 256),
        ("trn2", BF16, BF16, {"src_space": PSUM}, 256),
        ("trn2", BF16, BF16, {"dst_space": PSUM}, 256),
        ("trn2", BF16, BF16, {"dst_space": PSUM, "src_space": PSUM}, 512),
        ("trn2", "float8_e4m3", "float8_e4m3", {}, 512),
        ("trn3", "float8_e4m3", "float8_e4m3", {}, 128),
        ("trn2", BF16, BF16, {"size": 8}, 2),
        ("trn1", BF16, BF16, {"size": 8}, 64),  # no instruction is shorter than 64 cycles
    ],
)
def test_copies_on_vector(target, dst, src, options, data_cycles):
    assert copy(target, dst, src, **options).cycles == data_cycles + VECTOR_ISSUE[target]


def test_copies_on_other_engines():
    assert copy("trn2", BF16, BF16, engine=SCALAR).cycles == 512
    assert copy("trn3", BF16, BF16, engine=SCALAR).cycles == 256  # trainium3_arch.rst:218
    assert copy("trn3", F32, BF16, engine=SCALAR).cycles == 512
    assert copy("trn2", BF16, BF16, engine=GPSIMD).cycles == GPSIMD_START + 512


def test_wide_strides_halve_the_rate():
    # trainium_inferentia2_arch.rst:758: over 16 bytes between neighbours.
    tiles = {"dst": empty((128, 512)), "src": empty((128, 8192), view=lambda t: t[:, ::16])}
    (cost,) = costs(tiles, lambda t: isa.tensor_copy(t.dst, t.src), "trn2")
    assert cost.cycles == 1024 + VECTOR_ISSUE["trn2"]
    tiles = {"dst": empty((128, 512)), "src": empty((128, 2048), view=lambda t: t[:, ::4])}
    (cost,) = costs(tiles, lambda t: isa.tensor_copy(t.dst, t.src), "trn2")
    assert cost.cycles == 512 + VECTOR_ISSUE["trn2"]


def test_traffic_and_ports():
    cost = copy("trn1", BF16, F32, src_space=PSUM)
    assert (cost.bytes_read, cost.bytes_written) == (128 * 512 * 4, 128 * 512 * 2)
    assert cost.ports == (Port.SBUF_SHARED, Port.PSUM_SHARED)
    assert copy("trn1", F32, F32, engine=GPSIMD).ports == (Port.SBUF_SHARED,)
    # Later chips: Vector's performance mode and GpSimd share a bus; everything else runs beside each other.
    assert copy("trn2", F32, F32).ports == ()
    assert copy("trn2", BF16, BF16).ports == (Port.VECTOR_BUS,)
    assert copy("trn2", F32, F32, engine=GPSIMD).ports == (Port.VECTOR_BUS,)
    assert copy("trn2", BF16, F32, src_space=PSUM, engine=SCALAR).ports == ()


def binary(target, dtype, op, space=None, dst=None, view=None):
    tiles = {
        "dst": empty((128, 512), dst or dtype),
        "a": empty((128, 512), dtype, **({"space": space} if space else {})),
        "b": empty((128, 1024 if view else 512), dtype, view=view),
    }
    (cost,) = costs(tiles, lambda t: isa.tensor_tensor(t.dst, t.a, t.b, op), target)
    return cost.cycles


@pytest.mark.parametrize(
    ("target", "arguments", "cycles"),
    [
        ("trn1", (F32, nl.add), 2 * 512),
        ("trn1", (F32, nl.add, PSUM), 512),
        ("trn1", (BF16, nl.multiply), 512),
        ("trn1", (BF16, nl.maximum), 2 * 512),  # only add, subtract and multiply are faster
        ("trn1", (BF16, nl.multiply, None, None, every_other), 2 * 512),  # and only contiguous
        ("trn1", (BF16, nl.multiply, None, F32), 2 * 512),
        ("trn2", (F32, nl.add), 512 + 80),
        ("trn2", (BF16, nl.maximum), 256 + 80),
        ("trn2", (BF16, nl.maximum, PSUM), 512 + 80),
        ("trn2", ("int32", nl.add), 150 + 512),  # GpSimd, exact
        ("trn2", ("int32", nl.bitwise_or), 512 + 80),
    ],
)
def test_binary(target, arguments, cycles):
    assert binary(target, *arguments) == cycles


def scaled(target, dtype, op, **options):
    tiles = {"dst": empty((128, 512), dtype), "data": empty((128, 512), dtype)}
    (cost,) = costs(tiles, lambda t: isa.tensor_scalar(t.dst, t.data, op, **options), target)
    return cost.cycles


def test_tensor_scalar():
    assert scaled("trn1", BF16, nl.multiply, operand0=2.0) == 512
    assert scaled("trn2", BF16, nl.multiply, operand0=2.0) == 128 + 80
    two = {"operand0": 2.0, "op1": nl.add, "operand1": 1.0}
    assert (
        scaled("trn2", F32, nl.multiply, **two)
        == scaled("trn2", F32, nl.multiply, operand0=2.0)
        == 512 + 80
    )
    # nki.api.shared.rst:262: four times the time of Scalar, whose clock GpSimd shares.
    assert scaled("trn2", F32, nl.rsqrt, operand0=None) == 150 + 4 * 512


def test_scalar_tensor_tensor():
    def cycles(target, dtype, op0, op1, size=512):
        tiles = {n: empty((128, size), dtype) for n in ("dst", "a", "b")}
        run = lambda t: isa.scalar_tensor_tensor(t.dst, t.a, op0, 1.0, op1, t.b)  # noqa: E731
        (cost,) = costs(tiles, run, target)
        return cost.cycles

    assert cycles("trn1", F32, nl.subtract, nl.multiply) == 2 * 512
    assert cycles("trn1", BF16, nl.subtract, nl.multiply) == 512
    assert cycles("trn1", BF16, nl.subtract, nl.multiply, 511) == 2 * 511
    assert cycles("trn1", BF16, nl.multiply, nl.add) == 2 * 512
    assert cycles("trn2", F32, nl.multiply, nl.add) == 512 + 80


def test_memset_reciprocal_and_predicated():
    def fill(target, dtype, value, **options):
        run = lambda t: isa.memset(t.dst, value, **options)  # noqa: E731
        (cost,) = costs({"dst": empty((128, 512), dtype)}, run, target)
        return cost.cycles

    assert fill("trn1", BF16, 0) == 256
    assert fill("trn1", BF16, 1.0) == fill("trn1", F32, 0) == 512
    assert fill("trn1", F32, 0, engine=GPSIMD) == 150 + 512

    tiles = {"dst": empty((128, 512)), "data": empty((128, 512))}
    (cost,) = costs(tiles, lambda t: isa.reciprocal(t.dst, t.data), "trn2")
    assert cost.cycles == 8 * 512 + 80

    def choose(src, space=None):
        tiles = {"dst": empty((128, 512)), "mask": empty((128, 512), "uint8"),
                 "src": empty((128, 512), **({"space": space} if space else {}))}  # fmt: skip
        run = lambda t: isa.tensor_copy_predicated(t.dst, src or t.src, t.mask)  # noqa: E731
        (cost,) = costs(tiles, run, "trn2")
        return cost.cycles

    assert choose(None) == 2 * 512 + 80
    assert choose(None, PSUM) == 512 + 80
    assert choose(1.0) == 512 + 80


def test_activation():
    tiles = {"dst": empty((128, 512)), "data": empty((128, 512)), "sum": empty((128, 1))}
    (one,) = costs(tiles, lambda t: isa.activation(t.dst, nl.exp, t.data, scale=2.0), "trn1")
    assert (one.opcode, one.cycles, one.table) == ("ACTIVATE", 512, "exp")
    (copied,) = costs(tiles, lambda t: isa.activation(t.dst, nl.copy, t.data), "trn2")
    assert copied.table is None

    def summed(t):
        isa.activation(
            t.dst, nl.exp, t.data, reduce_op=nl.add, reduce_cmd=reduce_cmd.reset_reduce, reduce_res=t.sum
        )  # fmt: skip

    first, second = costs(tiles, summed, "trn1")
    assert (first.cycles, first.bytes_written) == (512, 128 * 512 * 4)
    assert (second.opcode, second.cycles, second.bytes_written) == ("ACT_READ_ACCUMULATOR", 64, 512)
    short = {"dst": empty((128, 2)), "data": empty((128, 2))}
    (cost,) = costs(short, lambda t: isa.activation(t.dst, nl.exp, t.data), "trn1")
    assert cost.cycles == 64


def test_reduction():
    def cycles(dtype, op, dst=None):
        tiles = {"dst": empty((128, 4), dst or dtype), "data": empty((128, 4, 256), dtype)}
        (cost,) = costs(tiles, lambda t: isa.tensor_reduce(t.dst, op, t.data, 2), "trn1")
        return cost.cycles

    assert cycles(F32, nl.add) == 1024
    assert cycles(BF16, nl.add) == cycles(BF16, nl.max) == 512
    assert cycles(BF16, nl.minimum) == cycles(BF16, nl.add, F32) == 1024
