"""Tests the cost of addresses that the device computes."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nlang
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.tensor.view import DynamicSlice
from nki_lab.isa.control import register_alloc
from nki_lab.isa.enums import dge_mode, reduce_cmd
from nki_lab.runtime import jit, run
from nki_lab.targets import ALL_TARGETS, get_target
from nki_lab.targets.engines import GPSIMD, SCALAR, SYNC
from nki_lab.targets.spaces import PSUM, SBUF, SHARED_HBM
from tests.isa.case import Traced, isa, nl
from tests.isa.cases.dma_dynamic import ADDED, COPIES, TRANSPOSES

RESET = reduce_cmd.reset_reduce


def cost(target, program):
    """Return the cost of the instruction that `program(allocate)` emits last."""
    builder = Builder(get_target(target))
    with builder.active():
        program(lambda shape, space=SBUF, dtype="float32": builder.allocate(shape, dtype, space))
    assert not builder.errors
    i = builder.body[-1]
    return i.definition.cost_of(i, builder.target)


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("size", [1, 200, 5000])
def test_an_address_in_a_register_takes_600_cycles_at_least(target, size):
    """Source: nki/api/nki/isa/__init__.py@1db4d74e:1438, max(600, N)."""

    def copy(at):
        return lambda new: isa.tensor_copy(new((128, size)), new((128, 9000))[:, at(size)])

    (dynamic,) = cost(target, copy(lambda n: DynamicSlice(register_alloc(3), n)))
    (static,) = cost(target, copy(lambda n: slice(3, 3 + n)))
    assert dynamic.cycles == max(600, static.cycles)
    assert dynamic.opcode == static.opcode


def test_every_compute_engine_pays_for_it_once():
    def activation(new):
        tile = new((128, 64))[:, DynamicSlice(register_alloc(0), 8)]
        result = new((128, 1))
        isa.activation(tile, nl.exp, tile, reduce_cmd=RESET, reduce_res=result, reduce_op=nl.add)

    def product(new):
        tiles = [new((128, 64), dtype="bfloat16") for _ in range(2)]
        isa.nc_matmul(
            new((64, 64), PSUM), tiles[0], tiles[1][:, DynamicSlice(register_alloc(0), 64)]
        )

    def numbers(new):
        isa.iota(new((128, 64), dtype="int32")[:, DynamicSlice(register_alloc(0), 8)], [[1, 8]])

    assert [s.cycles for s in cost("trn2", activation)] == [600, 64]
    load, pass_ = cost("trn2", product)
    assert load.cycles < 64 and pass_.cycles == 600
    assert [s.cycles for s in cost("trn2", numbers)] == [600]


def transfers(cases, name, target="trn2"):
    case = next(c for c in cases if c.name == name)
    i = Traced(case, target).subject
    return i.definition.cost_of(i, get_target(target))


@pytest.mark.parametrize(
    ("name", "descriptors", "size"),
    [
        ("gathers rows", 20, 24 * 4),
        ("gathers into HBM", 20, 24 * 4),
        ("gathers parts of rows", 20 * 5, 4),
        ("scatters rows", 20, 24 * 4),
        ("gathers and scatters", 20, 24 * 4),
    ],
)
def test_a_gather_has_a_descriptor_for_each_row_and_run(name, descriptors, size):
    (move,) = transfers(COPIES, name)
    assert (move.descriptors, move.descriptor_bytes) == (descriptors, size)
    assert (move.dge, move.issuer) == ("swdge", GPSIMD)
    assert move.bytes_read == move.bytes_written == descriptors * size


def test_rows_of_a_plain_copy_within_hbm_are_one_run():
    (move,) = cost(
        "trn2", lambda new: isa.dma_copy(new((20, 24), SHARED_HBM), new((60, 24), SHARED_HBM)[0:20])
    )
    assert (move.descriptors, move.descriptor_bytes) == (1, 20 * 24 * 4)


def test_other_gathers_are_made_by_software_too():
    for cases, name in ((TRANSPOSES, "gathers"), (ADDED, "gathers"), (ADDED, "scatters")):
        (move,) = transfers(cases, name)
        assert (move.dge, move.issuer) == ("swdge", GPSIMD), name
    (plain,) = cost("trn2", lambda new: isa.dma_compute(new((8, 4)), [new((8, 4))], nl.add))
    assert (plain.dge, plain.issuer) == ("none", SYNC)


@pytest.mark.parametrize(
    ("target", "mode", "maker", "issuer"),
    [
        ("trn1", dge_mode.unknown, "swdge", GPSIMD),
        ("trn1", dge_mode.none, "none", SYNC),
        ("trn2", dge_mode.unknown, "hwdge", SYNC),
        ("trn2", dge_mode.swdge, "swdge", GPSIMD),
        ("trn2", dge_mode.hwdge, "hwdge", SCALAR),
    ],
)
def test_who_makes_descriptors_of_an_address_in_a_register(target, mode, maker, issuer):
    def copy(new):
        engine = {"engine": SCALAR} if issuer is SCALAR else {}
        row = new((60, 24), SHARED_HBM).select(0, register_alloc(4))
        isa.dma_copy(new((1, 24)), row, dge_mode=mode, **engine)

    (move,) = cost(target, copy)
    assert (move.dge, move.issuer) == (maker, issuer)
    assert move.descriptors == 1 and move.descriptor_bytes == 24 * np.float32().itemsize


def words_of(kernel, *arrays, target="trn3"):
    table = run(kernel, *arrays, target=target).profile.table("Warning")
    return {
        (c, m.split(":")[0].split(";")[0][:40])
        for c, m in zip(table["category"], table["message"], strict=True)
    }


def test_the_profile_says_what_is_assumed_of_dynamic_addresses(capsys):
    def loaded(x):
        tile = nlang.ndarray(x.shape, dtype=x.dtype, buffer=nlang.sbuf)
        isa.dma_copy(tile, x)
        return tile

    def plain(x, index):
        isa.dma_copy(x, loaded(x))
        return x

    def dynamic(x, index):
        tile, held = loaded(x), loaded(index)
        isa.dma_copy(tile, x.vector_select(0, held))
        isa.tensor_copy(tile[:, 0:8], tile[:, DynamicSlice(register_alloc(1), 8)])
        isa.tensor_copy(tile[:, 0:16], tile.indirect(held))
        nlang.device_print("tile", tile)
        isa.dma_copy(x, tile)
        return x

    arrays = np.zeros((16, 40), np.float32), np.arange(16, dtype=np.int32).reshape(16, 1)
    found = words_of(jit(dynamic), *arrays) - words_of(jit(plain), *arrays)
    starts = (
        "an instruction whose address is in a register takes",
        "elements that .indirect()",
        "GpSimd takes the time of one copy",
    )
    assert all(any(m.startswith(start[:40]) for _, m in found) for start in starts)
    assert ("not modelled", "nl.device_print takes no time here") in found
