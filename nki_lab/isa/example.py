"""Finds a typical call of an instruction, so that its cost can be shown.

The call is not written down anywhere: it is the first one, over a few usual shapes, element types
and values, that breaks none of the instruction's rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from nki_lab.dtypes import DType, bfloat16, float32, uint8, uint32
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import READ, Definition, Instruction, Operand, Rule, Shape
from nki_lab.ir.tensor.register import NkiScalar, Register
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.operators import OPS
from nki_lab.targets.spaces import PSUM, SBUF, SHARED_HBM
from nki_lab.targets.spec import Target

# The first that fits is taken, so the most usual ones come first.
_SHAPES = (
    (128, 512), (128, 128), (128, 1), (128, 8), (128, 32), (128, 513), (128, 2), (128, 6), (128, 24),
    (32, 32), (1, 512), (1, 2, 512), (1, 1), (512, 128), (3, 4), (3, 8),
)  # fmt: skip
_DTYPES = (bfloat16, float32, uint32)
_OPERATORS = tuple(OPS[name] for name in ("add", "multiply", "maximum", "exp", "less"))
# Values for parameters without default, by the name the official API gives them.
_VALUES: dict[str, tuple[Any, ...]] = {
    "axis": (1,),
    "channel_multiplier": (0,),
    "collective_dim": (0,),
    "cores": ((0, 1),),
    "imm": (0.0,),
    "iteration_id": (0,),
    "n": (512,),
    "on_false_value": (0.0,),
    "pattern": (((1, 512),),),
    "pipe_id": (0,),
    "recv_from_rank": (1,),
    "replica_group": ((tuple(range(4)),), (tuple(range(8)),)),
    "send_to_rank": (1,),
    "shuffle_mask": (tuple(range(32)),),
    "source_target_pairs": (((0, 1), (1, 0)),),
    "value": (0.0,),
}


def example_call(definition: Definition, target: Target) -> Instruction | None:
    """Return a call of `definition` that `target` accepts, or None when none was found."""
    if not target.features >= set(definition.requires):
        return None
    for dtype in _DTYPES:
        builder = Builder(target, program=(0, target.lnc_max))
        choices = _choices(definition, builder, dtype)
        arguments = next(_calls(definition, target, choices, ()), None)
        if arguments is not None:
            return builder.emit(definition, arguments)
    return None


def describe_call(call: Instruction) -> list[str]:
    """Return the arguments of a call that are not defaults, one line each."""
    lines = []
    for name, value in zip(call.definition.params, call.args, strict=True):
        tensors = value if isinstance(value, tuple) else (value,)
        if tensors and isinstance(tensors[0], NkiTensor):
            shown = (
                f"{' x '.join(map(str, t.shape))} {t.dtype} in {t.buffer.name}" for t in tensors
            )
            lines.append(f"{name}: {', '.join(shown)}")
        elif isinstance(value, Register):
            lines.append(f"{name}: a {'scalar' if isinstance(value, NkiScalar) else 'register'}")
        elif value != call.definition.signature.parameters[name].default:
            lines.append(f"{name}: {value!r}")
    return lines


def _calls(
    definition: Definition,
    target: Target,
    choices: list[tuple[Any, ...]],
    chosen: tuple[Any, ...],
) -> Iterator[tuple[Any, ...]]:
    """Yield complete arguments that begin with `chosen` and break no rule."""
    if len(chosen) == len(choices):
        if not definition.broken_rules(Instruction(definition, chosen), target):
            yield chosen
        return
    defaults = tuple(values[0] for values in choices[len(chosen) + 1 :])
    for value in choices[len(chosen)]:
        attempt = Instruction(definition, (*chosen, value, *defaults))
        if _may_hold(attempt, target, len(chosen)):
            yield from _calls(definition, target, choices, (*chosen, value))


def _may_hold(attempt: Instruction, target: Target, last: int) -> bool:
    """Return whether no rule about the arguments up to position `last` is broken for certain."""
    position = attempt.definition.position
    for rule in attempt.definition.all_rules():
        about = [position[name] for name in rule.about]
        if about and max(about) == last and not _holds(rule, attempt, target):
            return False
    return True


def _holds(rule: Rule, attempt: Instruction, target: Target) -> bool:
    try:
        return rule.holds(attempt, target)
    except Exception:  # it looks at arguments that are not chosen yet: the whole call decides
        return True


def _choices(definition: Definition, builder: Builder, dtype: DType) -> list[tuple[Any, ...]]:
    choices: list[tuple[Any, ...]] = []
    for name, parameter in definition.signature.parameters.items():
        operand = definition.operands.get(name)
        if parameter.default is not parameter.empty:
            choices.append((definition.taken(name, parameter.default),))
        elif name in definition.sets:
            choices.append(
                (builder.scalar(name=name) if definition.like else builder.register(name),)
            )
        elif operand is not None:
            choices.append(tuple(_tensors(builder, name, operand, dtype)))
        else:
            computed = (builder.register(name), builder.scalar(name=name))
            choices.append((*_VALUES.get(name, _OPERATORS), *computed))
    return choices


def _tensors(
    builder: Builder, name: str, operand: Operand, dtype: DType
) -> Iterator[NkiTensor | tuple[NkiTensor, ...] | float]:
    spaces = [space for space in (SBUF, PSUM, SHARED_HBM) if space in operand.spaces]
    if operand.role == READ and SHARED_HBM in spaces:
        spaces = [SHARED_HBM]
    shapes = ((128, 1),) if operand.shape is Shape.VECTOR else _SHAPES
    for space, shape in product(spaces, shapes):
        if space.on_chip and shape[0] > builder.target.partitions:
            continue
        # Sums in PSUM are float32, and so is what some engines take one of per partition.
        vector = shape == (128, 1) and operand.role == READ
        usual = (float32, dtype) if space is PSUM else (dtype, float32) if vector else (dtype,)
        for element in dict.fromkeys(usual):
            # A tensor in HBM is a kernel's argument; a tile never is, and would look as if in HBM.
            origin = "temporary" if space.on_chip else "input"
            tensor = builder.allocate(shape, _allowed(element, operand), space, name, origin=origin)
            yield (tensor,) if operand.many else tensor
    if operand.scalar:
        yield 1.0


def _allowed(dtype: DType, operand: Operand) -> DType:
    if operand.dtypes is None or dtype in operand.dtypes:
        return dtype
    return next((d for d in (float32, uint8) if d in operand.dtypes), min(operand.dtypes))
