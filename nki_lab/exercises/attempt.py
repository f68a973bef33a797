"""Runs a learner's kernel with one set of arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lab.compiler.program import CompiledKernel
from nki_lab.dtypes import dtype_of
from nki_lab.errors import CheckFailed, NkiError, UsageError
from nki_lab.exercises.draw import Draw
from nki_lab.exercises.problem import Sizes, Task
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.text.printer import print_kernel
from nki_lab.runtime import Comparison, KernelFunction, Result, run
from nki_lab.runtime.check import compare_arrays, difference_of, relative_tolerance
from nki_lab.views.difference import Difference


@dataclass(frozen=True)
class Attempt:
    """One run of a kernel, and what should have come out.

    Attributes:
        task: the exercise.
        sizes: the case.
        given: the arguments, as they are after the run.
        before: copies of them from before it.
        result: the run.
        found: arrays that came out, in order.
        expected: what should have, in float64 or integers.
    """

    task: Task
    sizes: Sizes
    given: tuple[Any, ...]
    before: tuple[Any, ...]
    result: Result
    found: tuple[Any, ...]
    expected: tuple[np.ndarray, ...]

    @property
    def arrays(self) -> list[tuple[int, str]]:
        """Number and name of each argument that is an array."""
        return [
            (k, name)
            for k, name in enumerate(self.task.parameters[: len(self.given)])
            if isinstance(self.given[k], np.ndarray)
        ]

    def want_dtype(self) -> str:
        """Return the dtype that the result is to have."""
        if self.task.dtype:
            return self.task.dtype
        arrays = [self.before[k] for k, _ in self.arrays]
        floats = [a for a in arrays if (d := dtype_of(a.dtype)) is not None and d.is_float]
        return str(dtype_of((floats or arrays)[0].dtype))

    def compare(self, output: int, expected: np.ndarray | None = None) -> Comparison:
        """Compare one array with its reference, or with something else."""
        reference = self.expected[output] if expected is None else expected
        return compare_arrays(self.found[output], reference, rtol=self.rtol(output))

    def difference(self) -> Difference | None:
        """Return where the first wrong array differs from its reference; None where no values can be compared."""
        for k in range(min(len(self.found), len(self.expected))):
            try:
                comparison = self.compare(k)
            except (CheckFailed, UsageError):  # of another shape, or no array
                return None
            if not comparison.ok:
                name = f"result {k}" if len(self.expected) > 1 else "the result"
                return difference_of(name, self.found[k], self.expected[k], comparison)
        return None

    def rtol(self, output: int) -> float:
        """Return the relative tolerance: that of the narrowest dtype, unless the exercise says another."""
        if self.task.rtol is not None:
            return self.task.rtol
        dtypes = [self.before[k].dtype for k, _ in self.arrays]
        dtype = self.found[output].dtype
        nki_dtype = dtype_of(dtype)
        return (
            relative_tolerance(dtype, *dtypes)
            if nki_dtype is not None and nki_dtype.is_float
            else 0.0
        )


def attempt(task: Task, kernel: KernelFunction, sizes: Sizes, draw: Draw) -> Attempt:
    """Run a kernel on arguments drawn for a case; the reference is computed afterwards, from its own copies.

    Raises the error of the kernel, with the case as a note.
    """
    given = task.arguments(draw, sizes)
    before = tuple(_copy(value) for value in given)
    try:
        # What an attempt is judged by, such as its instructions, only the simulator tells.
        result = run(_launched(task, kernel), *given, backend="simulator")
    except NkiError as error:
        error.notes += (f"exercise {task.id}, with {shown(sizes)}",)
        raise
    expected = reference_of(task.reference, before)
    return Attempt(task, sizes, tuple(given), before, result, _flat(result.value), expected)


def ignored_number(attempt: Attempt, kernel: KernelFunction) -> tuple[str, float, float] | None:
    """Return a number among the arguments, its value and another one with which the kernel traces the same program."""
    launched, traced = _launched(attempt.task, kernel), _traced(attempt.result.compiled)
    for k, name in enumerate(attempt.task.parameters[: len(attempt.given)]):
        value = attempt.given[k]
        if not isinstance(value, (int, float)) or not value:
            continue
        other = max(1, value // 2) if isinstance(value, int) else value / 2
        if other == value:
            continue
        changed = (*attempt.given[:k], other, *attempt.given[k + 1 :])
        try:
            compiled = launched.compile(*changed).compiled
        except NkiError:  # this number does something
            continue
        if _traced(compiled) == traced:
            return name, value, other
    return None


def _traced(compiled: CompiledKernel) -> str:
    lines = print_kernel(compiled.stages[0][1]).splitlines()
    return "\n".join(line for line in lines if not line.startswith("  param "))


def reference_of(reference: Any, arguments: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    """Return what a reference computes from copies of the arguments, floats in float64."""
    with np.errstate(all="ignore"):
        return tuple(np.asarray(part) for part in _flat(reference(*map(_wide, arguments))))


def programs(result: Result) -> tuple[Kernel, ...]:
    """Return the programs of a run: one for each core."""
    return (result.kernel, *result.compiled.others)


def shown(sizes: Sizes) -> str:
    """Return the sizes of a case as one line."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items()) or "its arguments"


def _launched(task: Task, kernel: KernelFunction) -> KernelFunction:
    return kernel if kernel.launched_on or task.cores == 1 else kernel[task.cores]


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _wide(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    dtype = dtype_of(value.dtype)
    return value.astype(np.float64) if dtype is not None and dtype.is_float else value.copy()


def _flat(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
