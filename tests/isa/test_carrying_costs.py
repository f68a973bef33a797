"""Tests that scans, statistics, fused reductions and random numbers take the published number of cycles.

Formulas as in test_engine_costs.py; every expected number is written out by hand.
"""

from __future__ import annotations

import pytest

from nki_lab.isa.enums import reduce_cmd
from nki_lab.targets.engines import GPSIMD, VECTOR
from tests.isa.case import empty, isa, nl
from tests.isa.test_engine_costs import GPSIMD_START, VECTOR_ISSUE, costs

RESET_REDUCE = reduce_cmd.reset_reduce


def tiles(**shapes):
    """Return written tiles; a number is their size per partition."""
    return {k: empty((128, n), "float32") if type(n) is int else n for k, n in shapes.items()}


def test_scans():
    run = lambda t: isa.tensor_tensor_scan(t.dst, t.a, t.b, 0.0, nl.multiply, nl.add)  # noqa: E731
    (cost,) = costs(tiles(dst=512, a=512, b=512), run, "trn2")
    assert cost.cycles == 2 * 512 + VECTOR_ISSUE["trn2"]
    run = lambda t: isa.tensor_scalar_cumulative(t.dst, t.a, nl.add, nl.add, 0.0)  # noqa: E731
    (cost,) = costs(tiles(dst=512, a=512), run, "trn2")
    assert cost.cycles == 2 * 512 + VECTOR_ISSUE["trn2"]


def test_statistics():
    (cost,) = costs(tiles(dst=6, a=512), lambda t: isa.bn_stats(t.dst, t.a), "trn1")
    assert (cost.cycles, cost.bytes_read, cost.bytes_written) == (512, 128 * 2048, 128 * 24)
    (cost,) = costs(tiles(dst=2, a=48), lambda t: isa.bn_aggr(t.dst, t.a), "trn1")
    assert cost.cycles == 13 * 16
    (cost,) = costs(tiles(dst=2, a=6), lambda t: isa.bn_aggr(t.dst, t.a), "trn1")
    assert cost.cycles == 64  # the minimum


def test_tensor_scalar_reduce_reads_the_accumulator_for_64_cycles():
    def run(t, result=True):
        isa.tensor_scalar_reduce(t.dst, t.a, nl.multiply, 2.0, nl.add, t.sum if result else None)

    first, second = costs(tiles(dst=512, a=512, sum=1), run, "trn1")
    assert (first.cycles, first.bytes_written) == (512, 128 * 2048)
    assert (second.cycles, second.bytes_written) == (64, 512)
    (only,) = costs(tiles(dst=512, a=512, sum=1), lambda t: run(t, False), "trn1")
    assert only == first


def test_functions_of_trn3():
    def activate(t):
        isa.activate2(t.dst, nl.exp, t.a, 2.0, 1.0, nl.multiply, nl.add, reduce_op=nl.add,
                      reduce_res=t.sum, reduce_cmd=RESET_REDUCE)  # fmt: skip

    first, second = costs(tiles(dst=512, a=512, sum=1), activate, "trn3")
    assert (first.cycles, first.table, second.cycles) == (512, "exp", 64)
    (cost,) = costs(tiles(dst=512, a=512), lambda t: isa.exponential(t.dst, t.a), "trn3")
    assert (
        cost.cycles == 512 / 4 + VECTOR_ISSUE["trn2"]
    )  # trainium3_arch.rst:179: four times Scalar's rate


@pytest.mark.parametrize(("target", "cycles"), [("trn1", 512), ("trn2", 512), ("trn3", 128)])
def test_random_numbers_of_vector(target, cycles):
    dst = empty((128, 512), "uint32")
    (cost,) = costs(tiles(dst=dst), lambda t: isa.rng(t.dst), target)
    assert cost.cycles == cycles + VECTOR_ISSUE[target]  # trainium3_arch.rst:206: four per cycle


def test_random_numbers_otherwise():
    words = empty((128, 512), "uint32")
    (cost,) = costs(tiles(dst=words), lambda t: isa.rng(t.dst, GPSIMD), "trn2")
    assert cost.cycles == GPSIMD_START + 512
    (cost,) = costs(tiles(dst=512), lambda t: isa.rand2(t.dst, 0.0, 1.0), "trn3")
    assert cost.cycles == 128 + VECTOR_ISSUE["trn2"]
    (cost,) = costs(tiles(dst=512, a=512), lambda t: isa.dropout(t.dst, t.a, 0.5), "trn2")
    assert cost.cycles == 512 + VECTOR_ISSUE["trn2"]
    state = empty((128, 24), "uint32")
    (cost,) = costs(tiles(dst=state), lambda t: isa.rand_get_state(t.dst, VECTOR), "trn3")
    assert (cost.cycles, cost.bytes_written) == (24 + 80, 128 * 96)


def test_over_partitions():
    run = lambda t: isa.tensor_partition_reduce(t.dst, nl.add, t.a)  # noqa: E731
    (cost,) = costs(tiles(dst=empty((1, 512)), a=512), run, "trn2")
    assert cost.cycles == GPSIMD_START + 512
