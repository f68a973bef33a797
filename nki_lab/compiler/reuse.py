"""Finds what the passes made of an earlier trace of the same program.

A call traces the kernel unless it knows that nothing it reads has changed (runtime/unchanged.py). Where the trace is
the same as one seen before, for the same target and choices, so is everything that follows from it. Nothing is kept
alive here: programs live as long as a result, a compiled kernel or a kernel object holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from nki_lab.choices import Choices
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel, Loop
from nki_lab.ir.tensor.fields import Dynamic
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import value_text
from nki_lab.source import Span


@dataclass(frozen=True, eq=False)
class Programs:
    """What the passes made of one trace.

    Attributes:
        traced: the program of each core, before the passes.
        kernels: the program of each core, after them.
        stages: (pass name, program after it) of the first core, the traced program first.
    """

    traced: tuple[Kernel, ...]
    kernels: tuple[Kernel, ...]
    stages: tuple[tuple[str, Kernel], ...]


class Reuse:
    """The programs that are alive, by their traces.

    Attributes:
        hits: how often the programs of an equal trace were returned.
    """

    def __init__(self) -> None:
        self.hits = 0
        self._alive: WeakValueDictionary[Any, Programs] = WeakValueDictionary()

    def find(self, traced: Sequence[Kernel], options: Choices) -> Programs | None:
        """Return what was made of an equal trace, one kernel per core, under the same options."""
        programs = self._alive.get(_key(traced, options))
        if programs is None or not all(map(same_program, traced, programs.traced)):
            return None
        self.hits += 1
        return programs

    def note(self, programs: Programs, options: Choices) -> None:
        """Let programs be found by their trace while something else holds them."""
        self._alive[_key(programs.traced, options)] = programs

    def clear(self) -> None:
        """Forget everything."""
        self._alive.clear()


def _key(traced: Sequence[Kernel], options: Choices) -> Any:
    """Return what tells most programs apart at once; equality is looked at in full afterwards."""
    first = traced[0]
    shapes = tuple((s.shape, str(s.dtype)) for s in first.inputs)
    sizes = tuple((len(k.instructions), len(k.storages)) for k in traced)
    files = tuple(_files(k) for k in traced)
    return first.name, first.target, options.for_compiler, shapes, sizes, files


def _files(kernel: Kernel) -> tuple[tuple[str, ...], ...]:
    """Return the files of every place in the author's text; code objects of two files may be equal."""
    stacks = {id(i.stack): i.stack for i in kernel.instructions}
    return tuple(
        tuple(p.filename if isinstance(p, Span) else p[0].co_filename for p in stack)
        for stack in stacks.values()
    )


#: Of this process.
reuse = Reuse()


def same_program(a: Kernel, b: Kernel) -> bool:
    """Tell whether passes would make the same of two traced kernels, with the same errors and findings."""
    if a is b:
        return True
    return (
        (a.name, a.target, a.program, a.registers) == (b.name, b.target, b.program, b.registers)
        and (len(a.storages), len(a.params)) == (len(b.storages), len(b.params))
        and a.findings == b.findings
        and all(map(_same_storage, a.storages, b.storages))
        and value_text(a.result) == value_text(b.result)
        and all(map(_same_value, a.outputs, b.outputs))
        and all(
            p.name == q.name and value_text(p.value) == value_text(q.value)
            for p, q in zip(a.params, b.params, strict=True)
        )
        and _same_body(a.body, b.body)
    )


def _same_storage(a: Storage, b: Storage) -> bool:
    return (
        (a.name, a.shape, a.dtype, a.buffer, a.address, a.origin, a.loop, a.named, a.stack)
        == (b.name, b.shape, b.dtype, b.buffer, b.address, b.origin, b.loop, b.named, b.stack)
        and (a.data is None) == (b.data is None)
        and (a.data is None or _same_elements(a.data, b.data))
    )


def _same_elements(a: np.ndarray, b: Any) -> bool:
    return a.tobytes() == b.tobytes()  # bit for bit: NaN is NaN, and 0.0 is not -0.0


def _same_body(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if type(x) is not type(y):
            return False
        if type(x) is Loop:
            if (x.kind, x.number, x.stack) != (y.kind, y.number, y.stack):
                return False
            if not _same_value((x.bounds, x.register), (y.bounds, y.register)):
                return False
            if not _same_body(x.body, y.body):
                return False
        elif not _same_instruction(x, y):
            return False
    return True


def _same_instruction(a: Instruction, b: Instruction) -> bool:
    return (
        a.definition is b.definition
        and a.stack == b.stack
        and (not a.after or [i.ident for i in a.after] == [i.ident for i in b.after])
        and len(a.after) == len(b.after)
        and _same_value(a.args, b.args)
    )


def _same_value(a: Any, b: Any) -> bool:
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is NkiTensor:
        return (
            a.storage.id == b.storage.id
            and (a.offset, a.shape, a.strides, a.dtype) == (b.offset, b.shape, b.strides, b.dtype)
            and _same_value(a.dynamic, b.dynamic)
        )
    if kind is tuple:
        return len(a) == len(b) and all(map(_same_value, a, b))
    if issubclass(kind, Register):
        return a.id == b.id
    if kind is Dynamic:
        return (a.kind, a.step, a.limit) == (b.kind, b.step, b.limit) and _same_value(
            a.index, b.index
        )
    if kind is float:
        return a.hex() == b.hex()  # NaN is NaN, and 0.0 is not -0.0
    return a is b or bool(a == b)
