"""Drafts: copies of a traced program in which advice makes its change, to be compiled and timed again.

A draft changes instructions as an author would, before any pass has run. A change that the instructions' rules or the
order of their accesses forbid raises `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.ir.definition.form_key import alike, key_of
from nki_lab.ir.definition.form_times import Record, record_of
from nki_lab.ir.definition.instruction import Definition, Form, Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.footprint import footprint, overlap
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.timing.origins import kernel_lines, label_of

#: Accesses of one tensor that are compared pair by pair; a tensor with more is left alone.
MOST_ACCESSES = 1_000


class Refused(Exception):
    """The program does not allow a change."""


class Draft:
    """A traced program that is being changed.

    Attributes:
        kernel: the program as it was traced.
        instructions: those of the program, by position.
        labels: line of each instruction, such as `add.py:12`.
    """

    def __init__(self, kernel: Kernel) -> None:
        if kernel.has_loops or any(i.after for i in kernel.instructions):
            raise Refused
        self.kernel = kernel
        self.instructions = kernel.instructions
        codes, spans = kernel_lines(kernel)
        labels = [label_of(span) or "" for span in spans]
        self.labels = [labels[code] for code in codes.tolist()]
        self.storages = list(kernel.storages)
        self._forms: dict[Any, Form] = {}
        self._ident = max((i.ident for i in self.instructions), default=0)

    def at(self, lines: Iterable[str]) -> list[int]:
        """Return the positions of the instructions of some lines."""
        chosen = set(lines)
        return [n for n, label in enumerate(self.labels) if label in chosen]

    def record(self, n: int) -> Record:
        """Return the costs of an instruction."""
        return record_of(self.instructions[n].form, self.kernel.target, 1.0)

    def formed(self, i: Instruction) -> Instruction:
        """Give an instruction its form; Refused where it breaks a rule."""
        definition = i.definition
        key = (definition, key_of(i.args), alike(i.args) if definition.identities else ())
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = Form(i, self.kernel.target)
        if form.broken:
            raise Refused
        i.form = form
        return i

    def added(self, definition: Definition, like: Instruction, **args: Any) -> Instruction:
        """Return another instruction at the place of one."""
        signature = definition.signature.parameters
        values = tuple(args.get(name, p.default) for name, p in signature.items())
        i = Instruction(definition, values, like.stack)
        self._ident += 1
        i.ident = self._ident
        return self.formed(i)

    def with_views(self, i: Instruction, change: Callable[[NkiTensor], NkiTensor]) -> Instruction:
        """Return an instruction with other views of tensors; itself where all stay."""
        changed = i.with_views(change)
        if changed is i:
            return i
        if i.form.dynamic:
            raise Refused
        return self.formed(changed)

    def tile(self, like: Storage, **changes: Any) -> NkiTensor:
        """Return a new tensor, as one that exists but for some changes."""
        names = "name", "shape", "dtype", "buffer", "stack", "loop", "owner"
        facts = {name: getattr(like, name) for name in names}
        storage = Storage(len(self.storages), **(facts | changes))
        self.storages.append(storage)
        shape = storage.shape
        return NkiTensor._make(storage, shape, contiguous_strides(shape), 0, storage.dtype)

    def retyped(self, ids: set[int], dtype: DType) -> dict[int, Storage]:
        """Replace storages by such of another dtype, and return those by id."""
        new = {}
        for k in ids:
            old = self.storages[k]
            if old.address is not None or old.data is not None:
                raise Refused
            new[k] = self.storages[k] = Storage(
                k, old.name, old.shape, dtype, old.buffer, origin=old.origin, stack=old.stack,
                owner=old.owner, loop=old.loop, named=old.named,
            )  # fmt: skip
        return new

    def done(
        self,
        instructions: Iterable[Instruction],
        change: Callable[[NkiTensor], NkiTensor] | None = None,
    ) -> Kernel:
        """Return the program with these instructions; `change` gives the views of parameters and results."""
        kernel = self.kernel.with_(body=tuple(instructions), storages=tuple(self.storages))
        if change is not None:
            params = tuple(
                replace(p, value=change(p.value)) if type(p.value) is NkiTensor else p
                for p in kernel.params
            )
            kernel = kernel.with_(params=params, outputs=tuple(map(change, kernel.outputs)))
        return kernel

    def reordered(self, instructions: Sequence[Instruction], order: Sequence[int]) -> Kernel:
        """Return the program with instructions in another order; Refused where accesses forbid it."""
        place = {n: k for k, n in enumerate(order)}
        if any(place[a] > place[b] for a, b in conflicts(instructions)):
            raise Refused
        return self.done(instructions[n] for n in order)


def conflicts(instructions: Sequence[Instruction]) -> set[tuple[int, int]]:
    """Return the pairs of instructions, by position, that touch the same bytes and must keep their order.

    Raises Refused where hidden registers, meetings or too many accesses of one tensor stand against looking at it.
    """
    uses: dict[int, list[tuple[int, NkiTensor, bool]]] = {}
    pairs: set[tuple[int, int]] = set()
    users: dict[Any, int] = {}
    for n, i in enumerate(instructions):
        if i.definition.waits_for_others or i.form.registers or i.form.registers_set:
            raise Refused
        for state, _ in i.form.state:
            if state in users:
                pairs.add((users[state], n))
            users[state] = n
        for views, writes in ((i.read(), False), (i.written(), True)):
            for view in views:
                uses.setdefault(view.storage.id, []).append((n, view, writes))
    for accesses in uses.values():
        if not any(writes for _, _, writes in accesses):
            continue
        if len(accesses) > MOST_ACCESSES:
            raise Refused
        for k, (n, view, writes) in enumerate(accesses):
            for m, other, also in accesses[:k]:
                if m != n and (writes or also) and _meet(view, other):
                    pairs.add((m, n))
    return pairs


def _meet(one: NkiTensor, other: NkiTensor) -> bool:
    if one.dynamic is not None or other.dynamic is not None:
        return True
    return overlap(footprint(one), footprint(other))
