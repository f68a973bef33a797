"""Tests that sums start anew from the caller's arrays in every run, and that their time is that of copying each
source."""

from __future__ import annotations

import numpy as np

from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.nodes import Kernel
from nki_lab.isa import registry
from nki_lab.isa.operators import OPS
from nki_lab.simulator import Program
from nki_lab.targets import get_target
from nki_lab.targets.spaces import SBUF, SHARED_HBM
from tests.isa.case import Case, Traced, empty, isa, nl, tile

X = np.random.default_rng(1).integers(-50, 50, (64, 32)).astype(np.float32)


def kernel_of(fill):
    """Return a kernel of two arguments and one result, in HBM all three."""
    builder = Builder(get_target("trn2"))
    with builder.active():
        a, b = (builder.allocate((64, 32), "float32", SHARED_HBM, n, origin="input") for n in "ab")
        out = builder.allocate((64, 32), "float32", SHARED_HBM, "out")
        fill(builder, a, b, out)
    assert builder.errors == []
    return Kernel(
        "sums",
        builder.target,
        storages=tuple(builder.storages),
        body=tuple(builder.body),
        outputs=(out,),
        forms=builder.forms,
    )


def test_arguments_in_the_list_are_those_of_the_run():
    def fill(builder, a, b, out):
        held = builder.allocate((64, 32), "float32", SBUF, "held")
        registry["dma_copy"](held, b)
        registry["dma_compute"](out, [a, held, b, a], OPS["add"])

    program = Program(kernel_of(fill))
    for factor in (1, 3, -2):
        a, b = X * factor, X[::-1] + factor
        (found,) = program.run([a, b])
        np.testing.assert_array_equal(found, 2 * a + 2 * b)


def test_parts_of_arguments():
    def fill(builder, a, b, out):
        registry["dma_compute"](out[0:32], [a[32:64], b[0:64:2]], OPS["add"])
        registry["dma_compute"](out[32:64], [out[0:32], a[0:32], b[32:64]], OPS["add"])

    program = Program(kernel_of(fill))
    for factor in (1, 5):
        a, b = X * factor, X.T.reshape(64, 32) - factor
        (found,) = program.run([a, b])
        upper = a[32:] + b[::2]
        np.testing.assert_array_equal(found, np.concatenate([upper, upper + a[:32] + b[32:]]))


def test_each_source_is_copied():
    tiles = {
        "dst": empty((128, 64)),
        "a": tile(np.zeros((128, 64)), space=SHARED_HBM),
        "b": empty((128, 64)),
    }
    traced = Traced(
        Case("any", "cost", tiles, lambda t: isa.dma_compute(t.dst, [t.a, t.b], nl.add)), "trn2"
    )
    (i,) = traced.own
    (found,) = i.definition.cost_of(i, traced.builder.target)
    assert (found.descriptors, found.descriptor_bytes, found.partitions) == (256, 256, 128)
    assert (found.bytes_read, found.bytes_written, found.inputs) == (2 * 32768, 32768, 2)
    assert (found.source, found.destination, found.dge) == ("hbm", "sbuf", "none")
