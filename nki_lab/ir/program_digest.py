"""What tells a traced program from all others, in any process?

The digest covers all that `same_program` compares: two programs of one digest are the same for every pass, with the
same findings at the same places. Places count as file label, line and column, which is what a finding shows of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.ir.dynamic import Dynamic
from nki_lab.ir.instruction import Instruction
from nki_lab.ir.literals import value_text
from nki_lab.ir.nodes import Kernel, Loop
from nki_lab.ir.register import Register
from nki_lab.ir.tensor import NkiTensor
from nki_lab.source import Place, Span, Stack

_PLAIN = (bool, int, str, type(None))


class NoDigest(Exception):
    """An instruction has an argument that is known in this process only."""


def program_digest(kernel: Kernel) -> str:
    """Return the digest of a traced program, as hexadecimal digits.

    Raises NoDigest where an argument has no text that says everything about it.
    """
    found = hashlib.sha256()
    for part in _Texts(kernel).parts():
        found.update(part.encode("utf-8", "surrogatepass"))
        found.update(b"\n")
    for storage in kernel.storages:
        if storage.data is not None:
            found.update(storage.data.tobytes())
    return found.hexdigest()


class _Texts:
    """Writes each part of a program as a line; what occurs often is turned into text once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.stacks: dict[Stack, str] = {}
        self.places: dict[Place, str] = {}
        self.values: dict[Any, str] = {}

    def parts(self) -> Iterator[str]:
        kernel = self.kernel
        yield repr((kernel.name, kernel.target.name, kernel.program, kernel.registers))
        for s in kernel.storages:
            facts = (
                s.name,
                s.shape,
                str(s.dtype),
                s.buffer.name,
                s.address,
                s.origin,
                s.loop,
                s.named,
            )
            yield f"{facts} {s.data is not None} {self.stack(s.stack)}"
        for p in kernel.params:
            yield f"{p.name} {value_text(p.value)}"
        yield value_text(kernel.result)
        for view in kernel.outputs:
            yield self.value(view)
        for f in kernel.findings:
            yield f"{(f.kind, f.message, f.help, f.code)} {self.stack(f.stack)}"
        yield from self.block(kernel.body)

    def block(self, body: Iterable[Instruction | Loop]) -> Iterator[str]:
        for node in body:
            if isinstance(node, Loop):
                bounds = self.value((*node.bounds, node.register))
                yield f"{node.kind} {node.number} {bounds} {self.stack(node.stack)} {{"
                yield from self.block(node.body)
                yield "}"
            else:
                args = " ".join(map(self.value, node.args))
                after = [p.ident for p in node.after] if node.after else ""
                yield f"{node.ident} {node.definition.name} {args} {after} {self.stack(node.stack)}"

    def stack(self, stack: Stack) -> str:
        known = self.stacks.get(stack)
        if known is None:
            known = self.stacks[stack] = f"@{len(self.stacks)}"
            return f"{known} {' '.join(map(self.place, stack))}"  # in full where it comes first
        return known

    def place(self, place: Place) -> str:
        known = self.places.get(place)
        if known is None:
            s = Span.of(place)
            shown = s.file_label, s.line, s.column, s.end_line, s.end_column, s.function
            known = self.places[place] = repr(shown)
        return known

    def value(self, value: Any) -> str:
        kind = type(value)
        if kind is NkiTensor:
            text = f"%{value.storage.id}@{value.offset}{value.shape}{value.strides}{value.dtype}"
            return f"{text}{self.value(value.dynamic)}" if value.dynamic is not None else text
        if kind is tuple:
            return f"({','.join(map(self.value, value))})"
        if kind in _PLAIN:
            return repr(value)
        if kind is float:
            return value.hex()
        if kind is Register:
            return f"${value.id}"
        if kind is Dynamic:
            return f"{value.kind.name} {self.value(value.index)} {value.step} {value.limit}"
        known = self.values.get(value)
        if known is None:
            known = self.values[value] = _name_text(value)
        return known


def _name_text(value: Any) -> str:
    """Return the text of a dtype, a member of an enumeration, or an operator."""
    text = value_text(value)
    if not isinstance(value, (DType, Enum)) and text.startswith("<"):
        raise NoDigest(text)
    return text
