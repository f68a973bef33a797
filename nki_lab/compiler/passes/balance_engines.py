"""Moves instructions off the busiest engine to another one that can run them.

Only where the documentation says that the compiler chooses by workload (`Definition.balanced`: tensor_copy,
nki/api/nki/isa/__init__.py:428) and the author left `engine` open. Where another engine, the DMA engines included, is
busier than the preferred one, or instructions have to follow each other anyway, moving work gains nothing and
everything stays. It also stays unless the program, in the order it is then given, takes less time by the timing model.
"""

from __future__ import annotations

from collections import Counter

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.dependences import dependences_of
from nki_lab.compiler.passes.estimate import Piece
from nki_lab.compiler.passes.schedule import edges_within, records_of, schedule
from nki_lab.compiler.passes.timed import fastest
from nki_lab.ir.definition.form_times import Queue, RingKey, record_of
from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.program.nodes import Dependences, Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import DMA, Engine
from nki_lab.targets.spec import Target

_GAIN = 0.01  # share of the kernel's time, as estimated, that has to be gained


@compiler_pass(skippable=True)
def balance_engines(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with some of the open instructions of its busiest engine on another one, evenly spread.

    Kernels with loops of the device are left as they are: how often those run is not known. So are those whose tiles
    lie on each other.
    """
    if kernel.has_loops or kernel.overlaps:
        return kernel
    if not any(form.definition.balanced for form in kernel.forms.values()):
        return kernel
    target = kernel.target
    counts = Counter(i.form for i in kernel.instructions)
    others = {form: _elsewhere(form, target) for form in counts}
    moved = {form: other for form, other in others.items() if other is not None}
    if not moved:
        return kernel
    # The same on whatever engines; nobody needs to look for them again.
    pairs = dependences_of(kernel)
    kernel = kernel.with_(dependences=pairs)
    busy: Counter[Queue] = Counter()
    for form, count in counts.items():
        if not form.definition.observes:
            record = record_of(form, target, 1.0)
            queue = DMA if isinstance(record.queue, RingKey) else record.queue
            busy[queue] += count * max(record.interval, record.work)
    for source, way in sorted({(f.engine, o.engine) for f, o in moved.items()}, key=str):
        open_forms = [f for f, o in moved.items() if (f.engine, o.engine) == (source, way)]
        here = sum(counts[f] * record_of(f, target, 1.0).interval for f in open_forms)
        there = sum(counts[f] * record_of(moved[f], target, 1.0).interval for f in open_forms)
        limit = max((time for queue, time in busy.items() if queue not in (source, way)), default=0)
        share = min((busy[source] - busy[way]) / (here + there), (busy[source] - limit) / here, 1.0)
        if share <= 0:  # the other engine, or a third one, is as busy
            continue
        shared = _with_share(kernel, {f: moved[f] for f in open_forms}, share)
        shared = shared.with_(dependences=pairs)
        if _estimate(shared, pairs) < _estimate(kernel, pairs) * (1 - _GAIN):
            before, after = (
                k if "schedule" in options.skip_passes else schedule(k, options)
                for k in (kernel, shared)
            )
            if fastest(before, [after]) is after:
                return shared
    return kernel


def _estimate(kernel: Kernel, pairs: Dependences) -> int:
    """Return about how long a kernel without loops takes, in picoseconds."""
    (edges,) = edges_within(kernel, [range(len(kernel.instructions))], pairs)
    return Piece(records_of(kernel), edges, kernel.target).order_by_readiness()[1]


def _with_share(kernel: Kernel, moved: dict[Form, Form], share: float) -> Kernel:
    """Return the kernel with this share of the instructions of some forms on the other engine."""
    credit = 0.0

    def change(i: Instruction) -> Instruction:
        nonlocal credit
        form = moved.get(i.form)
        if form is None:
            return i
        credit += share
        if credit < 1:
            return i
        credit -= 1
        rewritten = i.with_args(engine=form.engine)
        rewritten.form = form
        return rewritten

    return kernel.rewrite(change)


def _elsewhere(form: Form, target: Target) -> Form | None:
    """Return the form on the engine that could run it as well; None where there is none, or no gain by it.

    Floats only: an engine that computes in float32 copies them exactly, and no wide integers. An engine that shares a
    port with the preferred one would only make it wait.
    """
    definition, i = form.definition, form.example
    if not definition.balanced or i.args[definition.position["engine"]] is not Engine.unknown:
        return None
    if form.dynamic or not all(t.dtype.is_float for t in i.args if type(t) is NkiTensor):
        return None
    ports = {*record_of(form, target, 1.0).ports}
    for engine in definition.engines:
        if engine is form.engine:
            continue
        moved = Form(i.with_args(engine=engine), target)
        if not moved.broken and not ports & {*record_of(moved, target, 1.0).ports}:
            return moved
    return None
