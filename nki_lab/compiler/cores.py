"""Checks what must hold between the programs of the two cores of a logical core.

Each core is traced by itself and may issue other instructions. Their device loops must be the same, shared HBM tensors
pair by name, else by order of creation. What both touch without an order is a race (races.py).
"""

from __future__ import annotations

from typing import Any

from nki_lab.compiler.passes.find_uninitialized import look_at_shared
from nki_lab.compiler.races import find_races
from nki_lab.errors import CoresDiffer, LoopsDiffer
from nki_lab.ir.program.nodes import Kernel, Loop
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.spaces import SHARED_HBM


def pair_shared(first: Kernel, second: Kernel) -> list[tuple[Storage, Storage]]:
    """Return the shared HBM tensors that are one memory, as (of core 0, of core 1).

    Raises CoresDiffer where a pair does not agree in shape and dtype.
    """
    pairs = []
    mine, others = _shared(first), _shared(second)
    named = {s.name: s for s in others if s.named}
    unpaired = [s for s in mine if not (s.named and s.name in named)]
    pairs += [(s, named[s.name]) for s in mine if s.named and s.name in named]
    taken = {b.id for _, b in pairs}
    rest = [s for s in others if s.id not in taken]
    pairs += zip(
        [s for s in unpaired if not s.named], [s for s in rest if not s.named], strict=False
    )
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
    findings = {(f.kind, f.message, f.stack): f for k in (first, second) for f in k.findings}
    races = find_races(first, second, pairs).findings
    sharing = look_at_shared((first, second), pairs)
    first, second = (
        core.with_(tracked=core.tracked | tracked)
        for core, tracked in zip((first, second), sharing.tracked, strict=True)
    )
    # Core 0 makes the tensors that both have.
    theirs = frozenset(a.id for a, b in pairs if b.id in second.poisoned)
    if not theirs <= first.poisoned:
        first = first.with_(poisoned=first.poisoned | theirs)
    return first.with_(findings=(*findings.values(), *races, *sharing.findings)), second


def _check_results(first: Kernel, second: Kernel, pairs: list[tuple[Storage, Storage]]) -> None:
    """Refuse cores that return different parts of memory: only one of them could be given back."""
    same = {b.id: a.id for a, b in pairs} | {s.id: s.id for s in first.inputs}

    def place(view: NkiTensor, storage: int | None) -> object:
        return storage, view.shape, view.strides, view.offset, view.dtype

    for a, b in zip(first.outputs, second.outputs, strict=True):
        if place(a, a.storage.id) != place(b, same.get(b.storage.id)):
            raise CoresDiffer(
                f"core 0 returns {a.describe()}, core 1 returns {b.describe()}"
                + (
                    ", another part of it"
                    if same.get(b.storage.id) == a.storage.id
                    else ", another tensor"
                ),
                stack=b.storage.stack,
                help="return the same shared_hbm tensors on both cores; they pair in the order in which each core"
                " makes them, or by the name that you give them",
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
    both = at < min(len(a), len(b))
    raise LoopsDiffer(
        f"device loop {at + 1} runs {_told(a[at])} on core 0, and {_told(b[at])} on core 1"
        if both
        else f"core 0 has {len(a)} device loops, core 1 has {len(b)}",
        stack=longer.loops[at].loop.stack,
        help="let both cores run the same device loops; what they do in them may differ",
    )


def _told(control: tuple[Any, ...]) -> str:
    """Return how a loop runs, in words, from what _control gives."""
    kind, *bounds = control
    if kind == "while":
        return "while a register is not 0"
    start, stop, step = (b if type(b) is int else f"a {b}" for b in bounds)
    return f"from {start} to {stop} in steps of {step}"


def _control(loop: Loop) -> tuple[Any, ...]:
    """Return what must be alike in the loops of two cores; what registers hold is known only while they run."""
    return loop.kind, *(b if type(b) is int else "register" for b in loop.bounds)
