"""Repeats a program: one kernel that does the work of several calls, one right behind the other."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel, Loop
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor


def repeated(kernel: Kernel, calls: int) -> Kernel:
    """Return one program that does what `calls` calls of a kernel do, in order.

    Every call has its own tensors, at the same addresses; only inputs and constants are those of all. Waits are left
    out: `insert_waits` finds those within and between the calls.
    """
    storages = list(kernel.storages)
    addresses = dict(kernel.addresses or {})
    overlaps = list(kernel.overlaps)
    body = list(kernel.body)
    idents = 1 + max((i.ident for i in kernel.instructions), default=-1)
    for number in range(1, calls):
        again = _FurtherCall(kernel, len(storages), idents * number)
        storages += again.storages.values()
        for key, storage in again.storages.items():
            if key in addresses:
                addresses[storage.id] = addresses[key]
        overlaps += [frozenset(again.id_of(key) for key in group) for group in kernel.overlaps]
        body += again.nodes(kernel.body)
    return kernel.with_(
        storages=tuple(storages),
        addresses=None if kernel.addresses is None else addresses,
        overlaps=tuple(overlaps),
        body=tuple(body),
        waits=None,
    )


class _FurtherCall:
    """Makes the parts of one further call."""

    def __init__(self, kernel: Kernel, first_storage: int, first_ident: int) -> None:
        self.storages: dict[int, Storage] = {}  # id in the kernel -> storage of this call
        self._first_ident = first_ident
        self._instructions: dict[int, Instruction] = {}
        for storage in kernel.storages:
            if storage.origin == "temporary":
                twin = copy.copy(storage)
                twin.id = first_storage + len(self.storages)
                self.storages[storage.id] = twin

    def id_of(self, key: int) -> int:
        """Return the id that a storage of the kernel has in this call."""
        return self.storages[key].id if key in self.storages else key

    def nodes(self, body: tuple[Instruction | Loop, ...]) -> list[Instruction | Loop]:
        """Return a body for this call."""
        return [
            replace(node, body=tuple(self.nodes(node.body)))
            if isinstance(node, Loop)
            else self._instruction(node)
            for node in body
        ]

    def _instruction(self, i: Instruction) -> Instruction:
        twin = Instruction(i.definition, tuple(map(self._argument, i.args)), i.stack)
        twin.form = i.form
        twin.ident = i.ident + self._first_ident
        twin.after = tuple(self._instructions.get(p.ident, p) for p in i.after)
        self._instructions[i.ident] = twin
        return twin

    def _argument(self, value: Any) -> Any:
        if type(value) is NkiTensor:
            return self._tensor(value)
        if type(value) is tuple:
            return tuple(map(self._argument, value))
        return value

    def _tensor(self, tensor: NkiTensor) -> NkiTensor:
        dynamic = tensor.dynamic
        if dynamic is not None and type(dynamic.index) is NkiTensor:
            dynamic = replace(dynamic, index=self._tensor(dynamic.index))
        storage = self.storages.get(tensor.storage.id)
        if storage is None and dynamic is tensor.dynamic:
            return tensor
        return NkiTensor._make(
            storage or tensor.storage, tensor.shape, tensor.strides, tensor.offset, tensor.dtype, dynamic
        )  # fmt: skip
