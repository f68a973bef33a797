"""Small instructions and kernels for the tests of the IR, outside the real registry."""

from __future__ import annotations

from nki_lab.dtypes import bfloat16, float32
from nki_lab.errors import RuleBroken
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import (
    READ,
    UPDATE,
    Instruction,
    Shape,
    instruction,
    reads,
    registry,
    rule,
    updates,
    writes,
)
from nki_lab.ir.program.nodes import Kernel, Loop, OutputRef, Param
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
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
    x = b.allocate((256, 512), float32, SHARED_HBM, "x", origin="input")
    with b.active():
        out = b.allocate((256, 512), float32, SHARED_HBM, "out")
        for row in range(0, 256, 128):
            part = b.allocate((128, 512), bfloat16, SBUF)
            probe_move(part, x[row : row + 128])
            probe_scale(part, part, scale=0.1 + row)
            probe_move(out[row : row + 128], part)
    return b


def kernel_of(b: Builder, name: str = "probe", **facts) -> Kernel:
    """Return the kernel that a builder holds."""
    return Kernel(
        name, b.target, storages=tuple(b.storages), forms=b.forms, findings=tuple(b.findings.values()),
        **{"body": tuple(b.body), **facts},
    )  # fmt: skip


def finished() -> Kernel:
    """Return `scaled` as a whole kernel, with what every pass adds."""
    b = scaled()
    x, out = whole_view(b.storages[0]), whole_view(b.storages[1])
    return kernel_of(
        b, "scale", params=(Param("x", x), Param("factor", 2.0)), outputs=(out,), result=OutputRef(0), placed=True,
        addresses={2: Address(0, 0), 3: Address(0, 1024)}, waits=((), (0,), (1,), (), (3,), (4,)),
    )  # fmt: skip


def facts(kernel: Kernel) -> dict[str, object]:
    """Return all that a kernel's text holds, in values that compare by content."""
    position = {i.ident: k for k, i in enumerate(kernel.instructions)}
    return {
        "name": kernel.name,
        "target": kernel.target,
        "params": [(p.name, _plain(p.value)) for p in kernel.params],
        "storages": [_storage(s) for s in kernel.storages],
        "body": [_node(n, position) for n in kernel.body],
        "outputs": _plain(kernel.outputs),
        "result": _plain(kernel.result),
        "passes": (
            kernel.addresses,
            kernel.overlaps,
            kernel.poisoned,
            kernel.tracked,
            kernel.placed,
            kernel.waits,
        ),
    }


def _storage(s: Storage) -> tuple[object, ...]:
    data = None if s.data is None else (s.data.shape, s.data.dtype, s.data.tobytes())
    return s.id, s.name, s.shape, s.dtype, s.buffer, s.address, s.origin, data


def _node(node: Instruction | Loop, position: dict[int, int]) -> tuple[object, ...]:
    if isinstance(node, Loop):
        inside = [_node(n, position) for n in node.body]
        return node.kind, _plain(node.bounds), _plain(node.register), inside
    after = tuple(position[p.ident] for p in node.after)
    form = node.form
    return node.definition, _plain(node.args), after, (form.engine, form.reads, form.writes)


def _plain(value):
    if isinstance(value, NkiTensor):
        dynamic = value.dynamic
        moved = dynamic and (dynamic.kind, _plain(dynamic.index), dynamic.step, dynamic.limit)
        return value.storage.id, value.shape, value.strides, value.offset, value.dtype, moved
    if isinstance(value, Register):
        return "register", value.name
    if isinstance(value, (tuple, list)):
        return type(value), [_plain(v) for v in value]
    if isinstance(value, dict):
        return [(_plain(k), _plain(v)) for k, v in value.items()]
    # 1, 1.0 and True are equal, as are the two zeros; NaN is not even itself.
    return (type(value), repr(value)) if isinstance(value, (bool, int, float)) else value
