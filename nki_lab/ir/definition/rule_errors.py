"""Errors of an instruction that breaks a rule, or uses what belongs elsewhere."""

from __future__ import annotations

from types import FrameType
from typing import Any

from nki_lab.errors import InstructionError, LoopTensor, Needs, NkiError
from nki_lab.ir.definition.author_text import values_of_arguments
from nki_lab.ir.definition.instruction import Instruction, Rule, is_binding
from nki_lab.ir.tensor.fields import first_partition
from nki_lab.ir.tensor.register import NkiScalar, Register
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Blame, is_internal
from nki_lab.versions import ended_with


def rule_error(
    rule: Rule, i: Instruction, frame: FrameType | None = None, needs: Needs | None = None
) -> NkiError:
    """Return the error of a broken rule, describing what the rule is about.

    Args:
        rule: the rule that does not hold.
        i: the instruction that breaks it.
        frame: the author's, where their line calls the instruction itself: its arguments can be marked there, and what
            names in them stand for is reported.
        needs: the versions of NKI that take what breaks it, where the rule itself does not tell.
    """
    definition = i.definition
    notes = []
    for name in rule.about:
        value = i.args[definition.position[name]]
        for v in (
            value if type(value) is tuple and value and type(value[0]) is NkiTensor else (value,)
        ):
            notes.append(f"{name} = {_shown(v)}")
    advice = rule.help(i) if callable(rule.help) else rule.help
    about = tuple((name, definition.position[name]) for name in rule.about)
    blame = None
    if frame is not None:
        blame = Blame(definition.name, about)
        values = [v for v in values_of_arguments(i.stack, blame, frame) if v not in notes]
        notes += [f"here {', '.join(values)}"] if values else []
    message = f"{definition.name}: {rule.text}"
    if rule.since:
        needs = ended_with(message, rule.since)
    return rule.error(message, stack=i.stack, notes=notes, help=advice, blame=blame, needs=needs)


def _shown(value: Any) -> str:
    if type(value) is NkiTensor:
        first = first_partition(value) if value.storage.on_chip else 0
        return value.describe() + (f", from partition {first} on" if first else "")
    shown = repr(value)
    if " at 0x" in shown:  # an address differs from run to run; errors do not
        return f"{getattr(value, '__name__', '')} ({type(value).__name__})".strip()
    return shown


def foreign_tensor(i: Instruction, tensor: NkiTensor, builder: Any) -> NkiError:
    """Return the error of an operand of another trace than `builder`'s, of a loop that is over, or without values."""
    definition = i.definition
    holding = ((name, n) for n, name in enumerate(definition.params) if i.args[n] is tensor)
    blame = Blame(definition.name, tuple(holding))
    owner = tensor.storage.owner
    if owner is builder:
        return LoopTensor(
            f"{definition.name}: {tensor.describe()} was made in a device loop that has ended",
            stack=i.stack,
            help="make the tensor before the loop, so that it lives on after it",
            blame=blame,
        )
    if isinstance(owner, Instruction):
        return InstructionError(
            f"{definition.name}: {tensor.describe()} holds nothing: {owner.definition.name} writes into"
            f" {owner.dst.describe()} instead",
            stack=i.stack,
            help="use the tensor that it writes into",
            blame=blame,
        )
    return InstructionError(
        f"{definition.name}: {tensor.describe()} was made by another kernel call",
        stack=i.stack,
        help="make every tensor inside the kernel that uses it",
        blame=blame,
    )


def foreign_register(what: str, register: Register) -> InstructionError:
    """Return the error of a register of another trace."""
    is_scalar = isinstance(register, NkiScalar)
    return InstructionError(
        f"{what}: {'scalar' if is_scalar else 'register'} `{register.name}` was made by another kernel call",
        help="load it inside the kernel with nisa.scalar_load(tile)"
        if is_scalar
        else "allocate it inside the kernel with nisa.register_alloc()",
    )


def author_frame(frame: Any) -> FrameType | None:
    """Return the frame that calls an instruction, seen from `emit`'s caller, where that is the author's."""
    while frame is not None and is_binding(frame.f_code):
        frame = frame.f_back
    return None if frame is None or is_internal(frame.f_code) else frame
