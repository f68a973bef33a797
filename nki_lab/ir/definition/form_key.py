"""Form keys: equal for instructions that have the same form.

Rules, roles, placement and cost are settled once per form. They see shapes, strides, element types, memories and
constants, but not which tensor it is: two instructions have one form when all that is equal.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from nki_lab.dtypes import DType
from nki_lab.errors import WrongOperand
from nki_lab.ir.tensor.fields import first_place, identity
from nki_lab.ir.tensor.view import NkiTensor

_BEYOND = 1 << 128  # what float32 cannot hold
#: Below it, numbers are finite when they are rounded to float32.
LARGEST = (2 - 2**-24) * 2.0**127
DEFAULT = object()  # in a form's key: the argument was left at its default
# Types whose values are keyed as they are; enums and operators join when they are first seen.
SIMPLE: set[type] = {str, type(None), DType}


def note_simple(value: Any) -> None:
    """Add the type of an enum's member or an operator to SIMPLE."""
    if isinstance(value, Enum) or type(value).__hash__ is object.__hash__:
        SIMPLE.add(type(value))


def check_integer(instruction: str, value: int) -> None:
    """Refuse an integer that no number of the chip comes near: NKI's have 32 bits, its floats end at 2**128."""
    if not -_BEYOND < value < _BEYOND:
        raise WrongOperand(
            f"{instruction}: an integer of {value.bit_length()} bits; NKI's integers have 32",
            help="write a float, such as float('inf')",
        )


def check_name(instruction: str, name: Any) -> None:
    """Refuse a name that is not a string; the form does not depend on it."""
    if name is not None and not isinstance(name, str):
        raise WrongOperand(
            f"{instruction}: `name` must be a string, found {type(name).__name__}",
            help="leave `name` out, or give each argument by its own name",
        )


def key_of(value: Any) -> Any:
    """Return what of an argument the form depends on."""
    if type(value) in (list, tuple):
        return tuple(key_of(v) for v in value)
    if type(value) is NkiTensor:
        return (
            value.shape,
            value.strides,
            value.dtype,
            value.storage.buffer,
            first_place(value),
            value.dynamic and value.dynamic.key,
        )
    if isinstance(value, (np.generic, float, int)):
        return (type(value), value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def alike(args: tuple[Any, ...]) -> tuple[int, ...]:
    """Return numbers of the views in `args` and of their tiles of indices, equal where they are the same.

    Empty where no address depends on the device.
    """
    views: list[NkiTensor] = []
    for value in args:
        views += [v for v in (value if type(value) is tuple else (value,)) if type(v) is NkiTensor]
    if all(v.dynamic is None for v in views):
        return ()
    numbers: dict[Any, int] = {}
    shown = [identity(v) for v in views]
    shown += [identity(v.dynamic.index) for v in views if v.dynamic is not None]
    return tuple(numbers.setdefault(place, len(numbers)) for place in shown)


def plain_value(value: Any) -> Any:
    """Return lists as tuples and NumPy scalars as Python numbers, so that no argument can change later.

    Raises WrongOperand for a NumPy array with axes.
    """
    if type(value) in (list, tuple):
        return tuple(plain_value(v) for v in value)
    if isinstance(value, np.ndarray) and value.ndim:
        raise WrongOperand(
            f"an argument is a NumPy array of shape {list(value.shape)}; instructions take tensors, numbers and names"
            " of nki.language",
            help="pass the array to the kernel, or make a tensor of it with nl.shared_constant",
        )
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value
