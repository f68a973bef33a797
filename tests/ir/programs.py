"""Which instructions and kernels do the tests of the IR use?  Small ones of their own, on no real registry."""

from __future__ import annotations

import numpy as np

from nki_lab.errors import RuleBroken
from nki_lab.ir.builder import Builder
from nki_lab.ir.cost import MicroOp
from nki_lab.ir.instruction import (
    READ,
    UPDATE,
    Shape,
    instruction,
    reads,
    registry,
    rule,
    updates,
    writes,
)
from nki_lab.ir.nodes import Kernel
from nki_lab.targets import TRN2
from nki_lab.targets.engines import DMA, GPSIMD, TENSOR, VECTOR, Engine
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM

EVERYWHERE = (SBUF, PSUM, PRIVATE_HBM, SHARED_HBM)


class Mode:
    """A choice with the repr of an official name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"nl.{self.name}"


add, multiply = Mode("add"), Mode("multiply")
NAMES = {repr(mode): mode for mode in (add, multiply)}


@rule(
    "`dst` and `data` must have the same free size",
    "dst",
    "data",
    help="slice the larger one",
)
def _same_free_size(i, hw):
    return i.dst.free_size == i.data.free_size


@rule("`scale` must not be negative", "scale", error=RuleBroken)
def _positive(i, hw):
    return i.scale >= 0


@instruction(
    engine=(DMA,), any_start=("dst", "src"), dst=writes(*EVERYWHERE), src=reads(*EVERYWHERE)
)
def probe_move(dst, src, name=None):
    """Move bytes."""


@instruction(
    engine=(VECTOR, GPSIMD), dst=writes(SBUF, PSUM), data=reads(SBUF, PSUM),
    bias=reads(SBUF, shape=Shape.VECTOR, optional=True, scalar=True), rules=(_same_free_size, _positive),
)  # fmt: skip
def probe_scale(
    dst, data, op=multiply, scale=1.0, bias=None, axes=(1,), engine=Engine.unknown, name=None
):
    """Scale what is there."""


@instruction(
    engine=(TENSOR,), stationary=reads(SBUF), moving=reads(SBUF),
    dst=updates(PSUM, role=lambda i: UPDATE if i.accumulate else READ),
)  # fmt: skip
def probe_product(dst, stationary, moving, accumulate=None, name=None):
    """Multiply."""


@instruction(engine=(GPSIMD,), dst=writes(SBUF), parts=reads(SBUF, many=True))
def probe_join(dst, parts, labels=None, name=None):
    """Join several tensors."""


for _made in (probe_move, probe_scale, probe_product, probe_join):

    @_made.semantics
    def _(out, dst):
        out[...] = dst

    @_made.cost
    def _(i, hw):
        yield MicroOp("PROBE", cycles=64)


#: The instructions above, taken out of the registry that kernels see.
DEFINITIONS = {
    made.name: registry.pop(made.name)
    for made in (probe_move, probe_scale, probe_product, probe_join)
}


def scaled() -> Builder:
    """Return a builder that holds a small kernel: load, scale, store."""
    b = Builder(TRN2)
    x = b.allocate((256, 512), "float32", SHARED_HBM, "x", origin="input")
    with b.active():
        out = b.allocate((256, 512), "float32", SHARED_HBM, "out")
        for row in range(0, 256, 128):
            tile = b.allocate((128, 512), "bfloat16", SBUF)
            probe_move(tile, x[row : row + 128])
            probe_scale(tile, tile, scale=0.1 + row)
            probe_move(out[row : row + 128], tile)
    return b


def kernel_of(b: Builder, name: str = "probe", **facts) -> Kernel:
    """Return the kernel that a builder holds."""
    return Kernel(
        name, b.target, storages=tuple(b.storages), body=tuple(b.body), forms=b.forms,
        findings=tuple(b.findings.values()), **facts,
    )  # fmt: skip


def same_bits(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    """Tell whether two constants hold the same bytes in the same form."""
    if a is None or b is None:
        return a is b
    return (a.shape, a.dtype) == (b.shape, b.dtype) and a.tobytes() == b.tobytes()
