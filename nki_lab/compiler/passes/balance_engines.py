"""Moves instructions off the busiest engine to another one that can run them.

Only where the documentation says that the compiler chooses by workload (`Definition.balanced`: tensor_copy,
nki/api/nki/isa/__init__.py:428) and the author left `engine` open. Where another engine, the DMA engines included, is
busier than the preferred one, or instructions have to follow each other anyway, moving work gains nothing and
everything stays. It also stays unless the program, in the order it is then given, takes less time by the timing model.

In the older dialect it chose the engine of tensor_scalar, too (nki/api/nki/isa/__init__.py@0521004c:1405, 1698), and
Scalar ran copies on every chip (line 1382). Profiles show them there: in one kernel, all but whose copies are products
and transfers, Scalar is busy for 37 % of the time and Vector for 0 % (github.com/zhang677/AccelOpt 47e29a7c, bmm). So
of the instructions that an activation can stand for with the same values, all, half or none are on Scalar, whichever an
estimate finds fastest.
"""

from __future__ import annotations

from collections import Counter

from nki_lab.choices import BETA1, Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.dependences import dependences_of
from nki_lab.compiler.passes.estimate import Piece
from nki_lab.compiler.passes.schedule import edges_within, records_of, schedule
from nki_lab.compiler.passes.timed import fastest
from nki_lab.ir.definition.form_times import Queue, RingKey, record_of
from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.program.nodes import Dependences, Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import DMA, SCALAR, Engine
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
    older = options.nki == BETA1
    if not any(_is_open(form, older) for form in kernel.forms.values()):
        return kernel
    target = kernel.target
    counts = Counter(i.form for i in kernel.instructions)
    others = {form: _elsewhere(form, target, older) for form in counts}
    moved = {form: other for form, other in others.items() if other is not None}
    if not moved:
        return kernel
    # The same on whatever engines; nobody needs to look for them again.
    pairs = dependences_of(kernel)
    kernel = kernel.with_(dependences=pairs)
    if older:
        tried = [_with_share(kernel, moved, share).with_(dependences=pairs) for share in (1, 0.5)]
        return min((*tried, kernel), key=lambda each: _estimate(each, pairs))
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
        rewritten = _moved(i, form.engine, form.definition is not i.definition)
        assert rewritten is not None
        rewritten.form = form
        return rewritten

    return kernel.rewrite(change)


def _is_open(form: Form, older: bool) -> bool:
    """Tell whether the compiler may choose the engine of a form, in the older dialect or in today's."""
    definition = form.definition
    if not ("on_scalar" in definition.facets if older else definition.balanced):
        return False
    i = form.example
    return (
        i.args[definition.position["engine"]] is Engine.unknown
        and not form.dynamic
        and all(t.dtype.is_float for t in i.args if type(t) is NkiTensor)
    )


def _moved(i: Instruction, engine: Engine, as_activation: bool) -> Instruction | None:
    """Return what gives the same values on another engine, or None; it needs a form."""
    if as_activation:
        return i.definition.facets["on_scalar"](i)
    return i.with_args(engine=engine)


def _elsewhere(form: Form, target: Target, older: bool) -> Form | None:
    """Return the form on the engine that could run it as well; None where there is none, or no gain by it.

    Floats only: an engine that computes in float32 copies them exactly, and no wide integers. An engine that shares a
    port with the preferred one would only make it wait; in the older dialect all that Scalar can run is tried.
    """
    if not _is_open(form, older):
        return None
    definition = form.definition
    engines = (SCALAR,) if older else definition.engines
    ways = [(engine, False) for engine in engines if engine is not form.engine]
    if older:
        ways.append((SCALAR, True))
    ports = {*record_of(form, target, 1.0).ports}
    for engine, as_activation in ways:
        i = _moved(form.example, engine, as_activation)
        if i is None:
            continue
        moved = Form(i, target)
        if not moved.broken and (older or not ports & {*record_of(moved, target, 1.0).ports}):
            return moved
    return None
