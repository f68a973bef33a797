"""Printer: writes a program as text.

    nkir 1
    kernel scale on trn2 with addresses, engines, waits {
      param x = %x
      param factor = 2.0
      storage %x: float32[256x512] in shared_hbm, input
      storage %tile: float32[128x512] in sbuf, at (0, 0)  // cell, line 4
      storage %out: float32[256x512] in shared_hbm  // cell, line 3

      #0 dma_copy(dst=%tile, src=%x[128:256, 0:512]) on dma  // cell, line 5
      #1 tensor_scalar(dst=%tile, data=%tile, op0=nl.multiply, operand0=2.0) on vector waits #0  // cell, line 6
      return %out
    }

The text is the same on every machine and run. `parser.parse_kernel` reads it back; it ignores comments, so places in
the author's text and findings are for the reader only. Arguments that have their default are left out, and only
instructions that others wait for have a label. `literals` says how tensors and values are written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import Parameter
from typing import Any, NamedTuple

from nki_lab.ir.definition.instruction import Definition, Instruction
from nki_lab.ir.program.nodes import Kernel, Loop, OutputRef
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import (
    data_text,
    dims_text,
    leaf_text,
    name_text,
    value_text,
    view_text,
)
from nki_lab.source import Span, Stack, printable
from nki_lab.targets.spaces import SHARED_HBM

FORMAT = 1


class Line(NamedTuple):
    """One line of a program's text, and what it came from.

    Attributes:
        text: the line, without a comment on its place.
        stack: places in the author's text, innermost first.
        position: the instruction's place among `kernel.instructions`; None for other lines.
    """

    text: str
    stack: Stack = ()
    position: int | None = None


def print_kernel(kernel: Kernel, *, comments: bool = True) -> str:
    """Return the text form of a kernel; without `comments`, only what `parse_kernel` reads."""
    places: dict[Any, str] = {}

    def place(stack: Stack) -> str:
        if not comments or not stack:
            return ""
        shown = places.get(stack[0])
        if shown is None:
            shown = places[stack[0]] = f"  // {Span.of(stack[0])}"
        return shown

    lines = print_lines(kernel, findings=comments)
    return "".join(f"{line.text}{place(line.stack)}\n" for line in lines)


def print_lines(kernel: Kernel, *, findings: bool = True) -> list[Line]:
    """Return the text form line by line, each with its origin; findings stand at the end."""
    return _Printer(kernel).lines(findings)


def print_instruction(i: Instruction, *, comments: bool = True) -> str:
    """Return one instruction as text, e.g. `reciprocal(dst=%y, data=%x) on vector  // cell, line 7`."""
    runs = i.form is not None and not i.definition.observes
    engine = f" on {i.form.engine.name}" if runs else ""
    place = f"  // {Span.of(i.stack[0])}" if comments and i.stack else ""
    return _call_text(i, leaf_text) + engine + place


def _call_text(i: Instruction, leaf: Callable[[Any], str]) -> str:
    definition = i.definition
    parts = []
    for name, value, default in zip(
        definition.params, i.args, _default_texts(definition), strict=True
    ):
        shown = value_text(value, leaf)
        if shown != default:
            parts.append(f"{name}={shown}")
    return f"{definition.name}({', '.join(parts)})"


@cache
def _default_texts(definition: Definition) -> tuple[str | None, ...]:
    """Return the text of every parameter's default, None where it has none."""
    return tuple(
        None if p.default is Parameter.empty else value_text(definition.taken(p.name, p.default))
        for p in definition.signature.parameters.values()
    )


class _Printer:
    """Writes one kernel; views that occur often are turned into text once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.views: dict[Any, str] = {}
        # A pass that rewrites an instruction keeps its `ident`; what it removed needs no waiting for.
        self.position = {i.ident: k for k, i in enumerate(kernel.instructions)}
        waited = {k for positions in kernel.waits or () for k in positions}
        followed = {self.position.get(p.ident, -1) for i in kernel.instructions for p in i.after}
        self.labelled = waited | followed
        self.written = 0

    def lines(self, findings: bool) -> list[Line]:
        kernel = self.kernel
        passes_run = {
            "addresses": kernel.addresses,
            "engines": kernel.placed or None,
            "waits": kernel.waits,
        }
        passes = ", ".join(what for what, value in passes_run.items() if value is not None)
        heading = f"kernel {name_text(kernel.name)} on {name_text(kernel.target.name)}"
        core, cores = kernel.program
        if cores > 1:
            heading += f", core {core} of {cores}"
        heading = f"{heading} with {passes} {{" if passes else f"{heading} {{"
        lines = [Line(f"nkir {FORMAT}"), Line(heading)]
        lines += [
            Line(f"  param {name_text(p.name)} = {value_text(p.value)}") for p in kernel.params
        ]
        for storage in kernel.storages:
            lines += self.storage(storage)
        for group in kernel.overlaps:
            names = (name_text(kernel.storages[k].name) for k in sorted(group))
            lines.append(Line(f"  overlap {', '.join(f'%{name}' for name in names)}"))
        if kernel.body:
            lines += [Line(""), *self.block(kernel.body, "  ")]
        if kernel.result is not None:
            lines.append(Line(f"  return {value_text(kernel.result, self.leaf)}"))
        lines.append(Line("}"))
        if findings:
            for f in kernel.findings:
                message = f"{f.kind}: {f.message}{f' ({f.help})' if f.help else ''}"
                lines.append(Line(printable(f"// {' '.join(message.split())}"), f.stack))
        return lines

    def storage(self, s: Storage) -> list[Line]:
        facts = f"storage %{name_text(s.name)}: {s.dtype}[{dims_text(s.shape)}] in {s.buffer.name}"
        if s.origin != "temporary":
            facts += f", {s.origin}"
        if s.address is not None:
            facts += f", requested ({s.address.partition}, {s.address.byte})"
        shared = s.buffer is SHARED_HBM and s.origin == "temporary"
        if s.named and shared:  # cores find each other's tensors by the name
            facts += ", named"
        if s.loop:
            facts += f", loop {s.loop}"
        given = (self.kernel.addresses or {}).get(s.id)
        if s.id in self.kernel.poisoned:
            facts += ", poisoned"
        if s.id in self.kernel.tracked:
            facts += ", tracked"
        if given is not None:
            facts += f", at ({given.partition}, {given.byte})"
        if s.data is None:
            return [Line(f"  {facts}", s.stack)]
        return [Line(f"  {facts}, data", s.stack), *(Line(f"    {d}") for d in data_text(s.data))]

    def block(self, body: tuple[Instruction | Loop, ...], indent: str) -> list[Line]:
        lines = []
        for node in body:
            if isinstance(node, Loop):
                bounds = f" in {value_text(node.bounds)}" if node.kind == "for" else ""
                opening = f"{node.kind} {value_text(node.register)}{bounds} {{"
                lines.append(Line(f"{indent}{opening}", node.stack))
                lines += self.block(node.body, indent + "  ")
                lines.append(Line(f"{indent}}}"))
            else:
                position = self.written
                lines.append(Line(f"{indent}{self.instruction(node)}", node.stack, position))
        return lines

    def instruction(self, i: Instruction) -> str:
        position, waits = self.written, self.kernel.waits
        self.written += 1
        text = f"#{position} " if position in self.labelled else ""
        text += _call_text(i, self.leaf)
        if self.kernel.placed and not i.definition.observes:
            text += f" on {i.form.engine.name}"
        after = [self.position[p.ident] for p in i.after if p.ident in self.position]
        if after:
            text += f" after {', '.join(f'#{k}' for k in after)}"
        if waits is not None and position < len(waits) and waits[position]:
            text += f" waits {', '.join(f'#{k}' for k in waits[position])}"
        return text

    def leaf(self, value: Any) -> str:
        if type(value) is OutputRef:
            value = self.kernel.outputs[value.index]
        return self.view(value) if type(value) is NkiTensor else leaf_text(value)

    def view(self, t: NkiTensor) -> str:
        key = (t.storage.id, t.shape, t.strides, t.offset, t.dtype, t.dynamic)
        shown = self.views.get(key)
        if shown is None:
            shown = self.views[key] = view_text(t)
        return shown
