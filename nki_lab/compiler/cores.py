"""What must hold between the programs of the two cores of a logical core?

Each core is traced by itself and may issue other instructions. Their device loops must be the same, shared HBM tensors
pair by name, else by order of creation, and what both touch between two meetings without an order is a race.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nki_lab.compiler.passes.find_uninitialized import look_at_shared
from nki_lab.errors import CoresDiffer
from nki_lab.ir.footprint import footprint, overlap
from nki_lab.ir.instruction import Instruction
from nki_lab.ir.nodes import Finding, Kernel, Loop
from nki_lab.ir.storage import Storage
from nki_lab.ir.tensor import NkiTensor
from nki_lab.source import Span
from nki_lab.targets.spaces import SHARED_HBM

#: How the message of a race begins; other hazards begin otherwise.
RACE = "race: "


def pair_shared(first: Kernel, second: Kernel) -> list[tuple[Storage, Storage]]:
    """Return the shared HBM tensors that are one memory, as (of core 0, of core 1).

    Raises CoresDiffer where a pair does not agree in shape and dtype.
    """
    pairs = []
    mine, others = _shared(first), _shared(second)
    named = {s.name: s for s in others if s.named}
    left = [s for s in mine if not (s.named and s.name in named)]
    pairs += [(s, named[s.name]) for s in mine if s.named and s.name in named]
    taken = {b.id for _, b in pairs}
    rest = [s for s in others if s.id not in taken]
    pairs += zip([s for s in left if not s.named], [s for s in rest if not s.named], strict=False)
    for a, b in pairs:
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise CoresDiffer(
                f"the shared tensor {a.describe()} of core 0 is {b.describe()} on core 1",
                stack=b.stack,
                help="make shared_hbm tensors in the same order on both cores, or give each a name",
            )
    return pairs


def _shared(kernel: Kernel) -> list[Storage]:
    return [s for s in kernel.storages if s.buffer is SHARED_HBM and s.origin == "temporary"]


def join_cores(first: Kernel, second: Kernel) -> tuple[Kernel, Kernel]:
    """Check that both programs fit together and return them, the first with the findings on both."""
    check_loops(first, second)
    if first.result != second.result or len(first.outputs) != len(second.outputs):
        raise CoresDiffer(
            "the cores return different results",
            help="return the same shared_hbm tensors on both cores; what each core writes to them may differ",
        )
    pairs = pair_shared(first, second)
    _check_results(first, second, pairs)
    found = {(f.kind, f.message, f.stack): f for k in (first, second) for f in k.findings}
    races = find_races(first, second, pairs)
    sharing = look_at_shared((first, second), pairs)
    first, second = (
        core.with_(tracked=core.tracked | tracked)
        for core, tracked in zip((first, second), sharing.tracked, strict=True)
    )
    # Core 0 makes the tensors that both have.
    theirs = frozenset(a.id for a, b in pairs if b.id in second.poisoned)
    if not theirs <= first.poisoned:
        first = first.with_(poisoned=first.poisoned | theirs)
    return first.with_(findings=(*found.values(), *races, *sharing.findings)), second


def _check_results(first: Kernel, second: Kernel, pairs: list[tuple[Storage, Storage]]) -> None:
    """Refuse cores that return different parts of memory: only one of them could be given back."""
    same = {b.id: a.id for a, b in pairs} | {s.id: s.id for s in first.inputs}

    def place(view: NkiTensor, storage: int | None) -> object:
        return storage, view.shape, view.strides, view.offset, view.dtype

    for a, b in zip(first.outputs, second.outputs, strict=True):
        if place(a, a.storage.id) != place(b, same.get(b.storage.id)):
            raise CoresDiffer(
                f"core 0 returns {a.describe()}, core 1 returns {b.describe()}"
                + (", another part of it" if same.get(b.storage.id) == a.storage.id else ""),
                stack=b.storage.stack,
                help="return the same shared_hbm tensors on both cores; what each core writes to them may differ",
            )


def check_loops(first: Kernel, second: Kernel) -> None:
    """Refuse cores whose device loops differ: they could never meet in them."""
    a, b = ([_control(loop) for loop, _, _ in kernel.loops] for kernel in (first, second))
    if a == b:
        return
    at = next(
        (n for n, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]),
        min(len(a), len(b)),
    )
    longer = first if len(a) > at else second
    raise CoresDiffer(
        f"core 0 has {len(a)} device loops and core 1 has {len(b)}, or they have other bounds or are of another kind",
        stack=longer.loops[at].loop.stack,
        help="let both cores run the same device loops; what they do in them may differ",
    )


def _control(loop: Loop) -> tuple[Any, ...]:
    """Return what must be alike in the loops of two cores; what registers hold is known only while they run."""
    return loop.kind, *(b if type(b) is int else "register" for b in loop.bounds)


@dataclass(frozen=True)
class _Access:
    view: NkiTensor
    written: bool
    i: Instruction


def find_races(
    first: Kernel, second: Kernel, pairs: list[tuple[Storage, Storage]]
) -> list[Finding]:
    """Return a finding for each pair of accesses to shared HBM that nothing orders.

    Meetings (barriers, sendrecv) divide both programs into spans; span n of one core runs beside span n of the other.
    A collective, in which the cores of a rank act as one, divides the uses of its own tensors only. Addresses known
    only while running are not looked at.
    """
    same = {b.id: a.id for a, b in pairs}
    same.update({s.id: s.id for s in first.inputs})
    shared = set(same.values())
    spans_a = _spans(first, {key: key for key in shared})
    spans_b = _spans(second, same)
    findings: dict[tuple[object, object], Finding] = {}
    for key in sorted(shared):
        for accesses_a, accesses_b in zip(spans_a[key], spans_b[key], strict=False):
            for a in accesses_a:
                for b in accesses_b:
                    places = (a.i.stack, b.i.stack)
                    if (
                        (a.written or b.written)
                        and places not in findings
                        and overlap(footprint(a.view), footprint(b.view))
                    ):
                        findings[places] = _race(a, b)
    return list(findings.values())


def _spans(kernel: Kernel, same: dict[int, int]) -> dict[int, list[list[_Access]]]:
    """Return, per shared tensor, its accesses between one meeting and the next."""
    spans: dict[int, list[list[_Access]]] = {key: [[]] for key in same.values()}
    for i in _order(kernel.body):
        if i.definition.meets:
            for span in spans.values():
                span.append([])
            continue
        if i.definition.groups is not None:
            used = {same[v.storage.id] for v in (*i.read(), *i.written()) if v.storage.id in same}
            for key in used:
                spans[key].append([])
            continue
        for views, written in ((i.read(), False), (i.written(), True)):
            for view in views:
                if view.storage.id in same and view.dynamic is None:
                    spans[same[view.storage.id]][-1].append(_Access(view, written, i))
    return spans


def _order(body: Iterable[Instruction | Loop]) -> list[Instruction]:
    """Return instructions as they run, those of a loop with meetings twice: one pass runs beside the next."""
    order: list[Instruction] = []
    for node in body:
        if not isinstance(node, Loop):
            order.append(node)
            continue
        inner = _order(node.body)
        meets = any(i.definition.meets or i.definition.groups is not None for i in inner)
        order += inner * (2 if meets and _may_repeat(node) else 1)
    return order


def _may_repeat(loop: Loop) -> bool:
    """Tell whether a loop can make a second pass."""
    if loop.kind != "for" or not all(type(bound) is int for bound in loop.bounds):
        return True
    return len(range(*loop.bounds)) > 1


def _race(a: _Access, b: _Access) -> Finding:
    def place(access: _Access) -> str:
        what = "writes" if access.written else "reads"
        where = f" at {Span.of(access.i.stack[0])}" if access.i.stack else ""
        return f"{what} {access.view.describe()}{where}"

    return Finding(
        "hazard",
        f"{RACE}core 0 {place(a)} while core 1 {place(b)}: nothing orders them",
        a.i.stack,
        help="let each core write a part of its own, chosen by nl.program_id(0), or put"
        " nisa.core_barrier(data=tensor, cores=(0, 1)) between them on both cores",
        code="",
    )
