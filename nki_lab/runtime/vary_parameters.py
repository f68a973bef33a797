"""Finds the parameters of a kernel that can be changed without running it, and values worth a look.

tile_n, cfg.tile_n    numbers, texts, dtypes and members of enums among the arguments, also inside objects
dtype, x.dtype        of all floating-point arrays, or of one
target, lnc           the chip, and the cores of it
TILE_N                globals that the kernel and its functions read
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from nki_lab.choices import LNC, keywords_of, unknown_choice
from nki_lab.compiler.changed_globals import globals_read
from nki_lab.compiler.trace import TensorSpec, is_container, map_arguments
from nki_lab.dtypes import DType, bfloat16, dtype_of, float32
from nki_lab.errors import KernelArgument, UnknownOption, close_matches
from nki_lab.runtime.timing_only import TimedCall
from nki_lab.targets import get_target, target_names
from nki_lab.targets.spec import Target
from nki_lab.views.vary.variants import Parameter

TARGET, DTYPE, CORES = "target", "dtype", "lnc"
_OF_ARRAY = ".dtype"
_STEPS = 2  # powers of two below and above a number
_MEMBERS = 12  # of an enum


class Changeable:
    """Everything of a call that can be changed.

    Attributes:
        arguments: values in the arguments, by their path.
        arrays: the arrays' shapes and dtypes, by their path.
        globals: plain globals that the kernel reads.
    """

    def __init__(self, call: TimedCall) -> None:
        self.call = call
        leaves = dict(_leaves(call.arguments))
        self.arrays = {path: v for path, v in leaves.items() if isinstance(v, TensorSpec)}
        self.arguments = {path: v for path, v in leaves.items() if not isinstance(v, TensorSpec)}
        self.globals = {
            name: value
            for name, value in globals_read(call.source).items()
            if name not in self.arguments
        }

    @property
    def names(self) -> list[str]:
        """The names of everything that may be changed."""
        names = [name for name in (DTYPE, TARGET, CORES) if name not in self.arguments]
        arrays = [path + _OF_ARRAY for path in self.arrays]
        return [*self.arguments, *names, *arrays, *self.globals]

    def kind(self, name: str) -> str:
        """Return what a name stands for, one of the kinds of Parameter.

        Raises UnknownOption where it stands for nothing.
        """
        if name in self.arguments:
            return "argument"
        if name == TARGET:
            return "target"
        if name == CORES:
            return "cores"
        if name == DTYPE or name.removesuffix(_OF_ARRAY) in self.arrays:
            return "dtype"
        if name in self.globals:
            return "global"
        source = self.call.source
        if name in source.function.__globals__:
            raise UnknownOption(
                f"`{name}` of {source.name} is a global that cannot change for one kernel: it is not a number, or not"
                " only functions read it",
                stack=(source.place,),
                help="make it a parameter of the kernel",
            )
        if name.partition(".")[0] in source.signature.parameters:
            raise UnknownOption(
                f"`{name}` of {source.name} is not a parameter that can be changed",
                stack=(source.place,),
                help=close_matches(name, self.names) or f"there are {', '.join(self.names)}",
            )
        raise unknown_choice(name, keywords_of("nki_lab.vary"), "nki_lab.vary", self.names)

    def value(self, name: str) -> Any:
        """Return what a name stands at."""
        kind = self.kind(name)
        if kind == "argument":
            return self.arguments[name]
        if kind == "global":
            return self.globals[name]
        if kind == "target":
            return self.call.target.name
        if kind == "cores":
            return self.call.cores
        specs = self.arrays if name == DTYPE else {"": self.arrays[name.removesuffix(_OF_ARRAY)]}
        dtypes = [spec.dtype for spec in specs.values() if name != DTYPE or spec.dtype.is_float]
        return dtypes[0] if dtypes else None

    def proposed(self) -> tuple[list[Parameter], dict[str, Any]]:
        """Return the parameters with values worth a look, and the values of those that are left as they are."""
        floats = [spec.dtype for spec in self.arrays.values() if spec.dtype.is_float]
        names = list(self.arguments)
        if floats:
            alike = len(set(floats)) == 1 and DTYPE not in self.arguments
            names += [DTYPE] if alike else [p + _OF_ARRAY for p in self.arrays]
        if TARGET not in self.arguments:
            names.append(TARGET)
        names += [name for name in self.globals if name.isupper()]
        proposed, fixed = [], {}
        for name in dict.fromkeys(names):
            now = self.value(name)
            values = target_names() if self.kind(name) == "target" else proposals(now)
            if len(values) > 1:
                proposed.append(self.parameter(name, values))
            elif self.kind(name) != "dtype":
                fixed[name] = now
        return proposed, fixed

    def parameter(self, name: str, values: Sequence[Any]) -> Parameter:
        """Return a parameter with values; what it stands at is one of them."""
        kind, now = self.kind(name), self.value(name)
        values = [self.taken(name, value) for value in values]
        kept: list[Any] = []
        for value in values:
            if not any(_same(value, value_kept) for value_kept in kept):
                kept.append(value)
        if not any(_same(now, value) for value in kept):
            kept.insert(0, now)
            if all(type(value) in (int, float) for value in kept):
                kept.sort()
        start = next(n for n, value in enumerate(kept) if _same(now, value))
        return Parameter(name, kind, tuple(kept), start)

    def taken(self, name: str, value: Any) -> Any:
        """Return a value as the parameter of this name has it: a dtype for arrays, the name of a chip.

        Raises UnknownOption, UnknownTarget or KernelArgument where it cannot have it.
        """
        kind = self.kind(name)
        if kind == "target":
            return (value if isinstance(value, Target) else get_target(value)).name
        if kind == "cores":
            return LNC.take(value)
        if kind != "dtype":
            return value
        dtype = dtype_of(value)
        if dtype is None:
            raise KernelArgument(
                f"{name}={value!r} is not an NKI dtype",
                help="write for example nl.bfloat16 or 'float32'",
            )
        return dtype


def changed_arguments(
    arguments: Mapping[str, Any], changes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call with some values changed, and those changes that are about something else."""
    unused = dict(changes)
    every = unused.pop(DTYPE, None) if not any(p == DTYPE for p, _ in _leaves(arguments)) else None

    def leaf(path: str, value: Any) -> Any:
        if isinstance(value, TensorSpec):
            dtype = unused.pop(path + _OF_ARRAY, every if value.dtype.is_float else None)
            return value if dtype is None else TensorSpec(value.shape, dtype)
        return unused.pop(path, value)

    changed = {
        name: map_arguments(name, value, leaf, _is_leaf) for name, value in arguments.items()
    }
    return changed, unused


def proposals(now: Any) -> list[Any]:
    """Return values worth a look beside the one of now; only that one where none suggest themselves."""
    if isinstance(now, bool):
        return [False, True]
    if isinstance(now, Enum):
        return list(dict.fromkeys([*list(type(now))[:_MEMBERS], now]))
    if isinstance(now, int):
        return _powers(now) if now > 0 else [now]
    dtype = dtype_of(now) if isinstance(now, (str, np.dtype, type)) else None
    if dtype is not None and dtype.is_float:
        if isinstance(now, str) and not isinstance(now, DType):
            return list(dict.fromkeys([now, str(float32), str(bfloat16)]))
        return list(dict.fromkeys([dtype, float32, bfloat16]))
    return [now]


def _powers(number: int) -> list[int]:
    """Return the number and the powers of two around it."""
    below = number.bit_length() - 1
    exact = number == 1 << below
    above = below + (not exact)
    powers = {1 << p for p in range(max(0, above - _STEPS), below + _STEPS + 1)}
    return sorted(powers | {number})


def _leaves(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []

    def leaf(path: str, value: Any) -> Any:
        if isinstance(value, TensorSpec) or _is_plain(value):
            leaves.append((path, value))
        return value

    for name, value in arguments.items():
        map_arguments(name, value, leaf, _is_leaf)
    yield from leaves


def _is_leaf(value: Any) -> bool:
    return isinstance(value, TensorSpec) or not is_container(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, type):
        return dtype_of(value) is not None
    return value is None or isinstance(value, (int, float, str, Enum, np.dtype))


def _same(one: Any, other: Any) -> bool:
    alike = type(one) is type(other) or {type(one), type(other)} <= {str, DType}
    return one is other or (alike and bool(one == other))
