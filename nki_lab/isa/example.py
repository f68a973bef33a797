"""What does a typical call of an instruction look like, so that its cost can be shown?

The call is not written down anywhere: it is the first one, over a few usual shapes, element types
and values, that breaks none of the instruction's rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import Any

from nki_lab.dtypes import DType, bfloat16, float32, uint8
from nki_lab.ir.builder import Builder
from nki_lab.ir.instruction import READ, Definition, Instruction, Operand, Shape
from nki_lab.ir.tensor import NkiTensor
from nki_lab.isa.operators import OPS
from nki_lab.targets.spaces import PSUM, SBUF, SHARED_HBM
from nki_lab.targets.spec import Target

_SHAPES = ((128, 512), (128, 128), (128, 1), (512, 128))
_DTYPES = (bfloat16, float32)
_TRIED = 5000
_OPERATORS = tuple(OPS[name] for name in ("add", "multiply", "maximum", "exp", "less"))
# Values for parameters without default, by the name the official API gives them.
_VALUES: dict[str, tuple[Any, ...]] = {
    "axis": (1,),
    "channel_multiplier": (0,),
    "on_false_value": (0.0,),
    "pattern": (((1, 512),),),
    "value": (0.0,),
}


def example_call(definition: Definition, target: Target) -> Instruction | None:
    """Return a call of `definition` that `target` accepts, or None when none was found."""
    for dtype in _DTYPES:
        for builder, args in islice(_calls(definition, target, dtype), _TRIED):
            made = Instruction(definition, args)
            if not definition.broken_rules(made, builder.target):
                return builder.emit(definition, args)
    return None


def describe_call(made: Instruction) -> list[str]:
    """Return the arguments of a call that are not defaults, one line each."""
    lines = []
    for name, value in zip(made.definition.params, made.args, strict=True):
        if isinstance(value, NkiTensor):
            shape = " x ".join(map(str, value.shape))
            lines.append(f"{name}: {shape} {value.dtype} in {value.buffer.name}")
        elif value != made.definition.signature.parameters[name].default:
            lines.append(f"{name}: {value!r}")
    return lines


def _calls(
    definition: Definition, target: Target, dtype: DType
) -> Iterator[tuple[Builder, tuple[Any, ...]]]:
    builder = Builder(target)
    choices: list[tuple[Any, ...]] = []
    for name, parameter in definition.signature.parameters.items():
        operand = definition.operands.get(name)
        if parameter.default is not parameter.empty:
            choices.append((parameter.default,))
        elif operand is not None:
            choices.append(tuple(_tensors(builder, name, operand, dtype)))
        else:
            choices.append(_VALUES.get(name, _OPERATORS))
    for args in product(*choices):
        yield builder, args


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
        for element in dict.fromkeys((float32, dtype) if space is PSUM else (dtype,)):
            made = builder.allocate(shape, _allowed(element, operand), space, name, origin="input")
            yield (made,) if operand.many else made
    if operand.scalar:
        yield 1.0


def _allowed(dtype: DType, operand: Operand) -> DType:
    if operand.dtypes is None or dtype in operand.dtypes:
        return dtype
    return next((d for d in (float32, uint8) if d in operand.dtypes), min(operand.dtypes))
