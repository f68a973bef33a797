"""The form of a call: whether a kernel was compiled for it, and the order of its arrays."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nki_lab.compiler.stored_source import AS_COMPILED, StoredSource
from nki_lab.compiler.trace import is_container, map_arguments
from nki_lab.errors import KernelArgument, NotOnTarget
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.text.literals import value_text
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.spec import Target

_ARRAY = object()  # stands for an array, whose values may differ from call to call
_ABSENT = object()


class CallForm:
    """What all calls of one compiled kernel have in common.

    Constants are part of the program: a call with others would silently compute with the ones compiled for.
    """

    def __init__(self, arguments: inspect.BoundArguments) -> None:
        self._leaves = {
            path: _ARRAY if _is_tensor(value) else value
            for path, value in _flat(arguments.arguments).items()
        }

    def arrays(self, arguments: inspect.BoundArguments, check: bool = True) -> list[np.ndarray]:
        """Return the arrays of a call, in the order of the kernel's inputs.

        Args:
            arguments: the call, with defaults, and with NumPy arrays in place of those of other libraries.
            check: raise KernelArgument where a constant is not the one compiled for.
        """
        leaves = _flat(arguments.arguments)
        if check:
            for path in {**self._leaves, **leaves}:
                self._check(path, leaves.get(path, _ABSENT))
        return [leaves[path] for path, value in self._leaves.items() if value is _ARRAY]

    def _check(self, path: str, value: Any) -> None:
        before = self._leaves.get(path, _ABSENT)
        if before is _ARRAY and _is_tensor(value):
            return
        if _ARRAY is not before and not _is_tensor(value) and _same(before, value):
            return
        raise KernelArgument(
            f"argument `{path}` is {_shown(value)}, the kernel was compiled for {_shown(before)}",
            help="compile it for these arguments: call the kernel itself instead of the compiled one",
        )


class StoredForm:
    """What all calls of a kernel that was loaded from a file have in common; constants are known as text."""

    def __init__(self, source: StoredSource, inputs: Sequence[Storage]) -> None:
        self._leaves = source.arguments
        self._inputs = inputs

    def arrays(self, arguments: inspect.BoundArguments, check: bool = True) -> list[np.ndarray]:
        """Return the arrays of a call, in the order of the kernel's inputs; constants may be left out.

        Raises KernelArgument where one is missing, or a constant is not the one compiled for.
        """
        leaves = _flat(arguments.arguments)
        for path, value in leaves.items():
            self._check(path, value)
        for storage in self._inputs:
            if not _is_tensor(leaves.get(storage.name)):
                raise KernelArgument(
                    f"argument `{storage.name}` is missing: an array {list(storage.shape)} of {storage.dtype}",
                    help=f"give it: {storage.name}=array",
                )
        return [leaves[storage.name] for storage in self._inputs]

    def _check(self, path: str, value: Any) -> None:
        before = self._leaves.get(path, "absent")
        if value is AS_COMPILED or (before is None and _is_tensor(value)):
            return
        now = "an array" if _is_tensor(value) else value_text(value)
        if before is None:
            return  # said to be missing
        if now != before:
            raise KernelArgument(
                f"argument `{path}` is {now}, the kernel was compiled for {before}",
                help="leave constants out: they are part of the compiled kernel",
            )
        if now.startswith("<"):
            raise KernelArgument(
                f"argument `{path}` is {now}, which cannot be compared with the one compiled for",
                help="leave it out: it is part of the compiled kernel",
            )


def _flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything in the arguments that holds nothing itself, by its path."""
    leaves: dict[str, Any] = {}

    def leaf(path: str, value: Any) -> Any:
        leaves[path] = value
        return value

    for name, value in arguments.items():
        map_arguments(name, value, leaf, lambda v: not is_container(v))
    return leaves


def _is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(a == b) or bool(a != a and b != b)  # NaN is the same constant as NaN
    except Exception:  # of a class that cannot be compared
        return False


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    return "an array" if value is _ARRAY or _is_tensor(value) else reprlib.repr(value)


def check_cores(kernel: str, cores: int, target: Target) -> None:
    """Raise NotOnTarget where a logical core of the target has fewer cores than a kernel is launched on."""
    if cores > target.lnc_max:
        with_both = ", ".join(chip.name for chip in ALL_TARGETS if chip.lnc_max >= cores)
        raise NotOnTarget(
            f"{kernel}[{cores}]: a logical core of {target.name} has {target.lnc_max} core",
            help=f"launch on one core, or choose a target with two: {with_both}",
        )
