"""Traces each instruction back to its line, its calls and its iteration of loops.

The tables KernelInstructions, KernelStackFrames and KernelIterationVariables. An instruction is one of the program: in
a device loop it is executed many times.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.ir.program.execution import Iterations
from nki_lab.ir.program.nodes import Kernel
from nki_lab.profiler.columns import Strings, Texts
from nki_lab.source import Place, Span


def instruction_names(kernel: Kernel) -> Strings:
    """Return how profiles name each instruction of a program."""
    count = len(kernel.instructions)
    return Strings(np.arange(count), Texts(count, lambda n: f"inst.{n}:0"))


def source_locations(kernel: Kernel) -> Strings:
    """Return the author's line of each instruction of a program, such as `add.py:12`."""
    codes, spans = kernel_lines(kernel)
    texts = Strings.of([label_of(span) for span in spans])
    return Strings(texts.codes[codes], texts.values)


class Origins:
    """The tables about the author's text; the loop variables are read when somebody asks for them."""

    def __init__(
        self, kernel: Kernel, iterations: Callable[[], Iterations | None] | None = None
    ) -> None:
        self._kernel = kernel
        self._read = iterations

    @cached_property
    def _iterations(self) -> Iterations | None:
        return self._read() if self._read is not None else None

    def instructions(self) -> Mapping[str, Any]:
        """Make the table KernelInstructions."""
        codes, spans = kernel_lines(self._kernel)
        deepest, depth = self._frames[1:]
        variable, depths = self._innermost()
        return {
            "kernel_instruction_name": instruction_names(self._kernel),
            "stack_frame_id": _ids(deepest[codes]),
            "stack_frame_depth": depth[codes],
            "iteration_variables_id": variable,
            "iteration_variable_depth": depths,
            "pcore_idx": 0,
            "file_path": _taken([s.file_label if s else None for s in spans], codes),
            "line_number": np.ma.MaskedArray(
                np.array([s.line if s else 0 for s in spans], dtype=np.int64)[codes],
                np.array([s is None for s in spans], dtype=bool)[codes],
            ),
        }

    def _innermost(self) -> tuple[Any, Any]:
        """Return the innermost variable of every instruction, and how many there are."""
        iterations = self._iterations
        rows = len(self._kernel.instructions)
        if iterations is None:
            return [None] * rows, [None] * rows
        depths = np.array([iterations.depth(n) for n in range(len(iterations.entries))] + [0])
        innermost = [iterations.innermost[i.ident] for i in self._kernel.instructions]
        entry = np.array(innermost, dtype=np.int64)
        return _ids(entry), depths[entry]

    def variables(self) -> Mapping[str, Any]:
        """Make the table KernelIterationVariables: the value of a loop variable in one iteration."""
        entries = self._iterations.entries if self._iterations is not None else ()
        if not entries:
            return {}
        return {
            "iteration_variable_id": np.arange(1, len(entries) + 1),
            "variable_name": [e.name for e in entries],
            "variable_value": [e.value for e in entries],
            "parent_iteration_variable_id": _ids(np.array([e.parent for e in entries])),
            "pcore_idx": 0,
            "file_path": [Span(e.filename, e.line).file_label for e in entries],
            "line_number": [e.line for e in entries],
        }

    def frames(self) -> Mapping[str, Any]:
        """Make the table KernelStackFrames: the functions of every call stack, callers first."""
        frames = self._frames[0]
        if not frames:
            return {}
        places = [place for _, place in frames]
        spans = [Span.of(place) for place in places]
        return {
            "stack_frame_id": np.arange(1, len(frames) + 1),
            "fully_qualified_function_name": [_qualified(p) for p in places],
            "parent_stack_frame_id": _ids(np.array([parent for parent, _ in frames])),
            "pcore_idx": 0,
            "file_path": [span.file_label for span in spans],
            # A kernel from a file knows where its functions were called, not where they are defined.
            "line_number": [None if isinstance(p, Span) else p[0].co_firstlineno for p in places],
        }

    @cached_property
    def _frames(self) -> tuple[list[tuple[int, Place]], np.ndarray, np.ndarray]:
        """Every (caller, place in the function) once; per distinct stack its deepest frame and depth."""
        number: dict[Any, int] = {}
        frames: list[tuple[int, Place]] = []
        deepest, depth = [], []
        # One per stack, in the order of `kernel_lines`.
        stacks = {id(i.stack): i.stack for i in self._kernel.instructions}
        for stack in stacks.values():
            frame = -1
            for place in reversed(stack):
                function = (place.filename, place.function) if isinstance(place, Span) else place[0]
                index = number.setdefault((frame, function), len(frames))
                if index == len(frames):
                    frames.append((frame, place))
                frame = index
            deepest.append(frame)
            depth.append(len(stack))
        return frames, np.array(deepest, dtype=np.int64), np.array(depth, dtype=np.int64)


def _ids(positions: np.ndarray) -> np.ma.MaskedArray:
    """Return ids, which count from 1 on, of positions, of which -1 is none."""
    return np.ma.MaskedArray(positions + 1, positions < 0)


def _taken(texts: list[str | None], codes: np.ndarray) -> Strings:
    column = Strings.of(texts)
    return Strings(column.codes[codes], column.values)


def _qualified(place: Place) -> str:
    if isinstance(place, Span):
        return place.function
    module = inspect.getmodule(place[0])
    name = place[0].co_qualname
    return f"{module.__name__}.{name}" if module is not None else name


def kernel_lines(kernel: Kernel) -> tuple[np.ndarray, list[Span | None]]:
    """Return the kernel line of every instruction, as a number into a list of lines; None where there is no line."""
    # The builder keeps one object per distinct stack, so that identity is enough (and much cheaper).
    number: dict[int, int] = {}
    spans: list[Span | None] = []
    codes = []
    for i in kernel.instructions:
        code = number.get(id(i.stack))
        if code is None:
            code = number[id(i.stack)] = len(spans)
            spans.append(Span.of(i.stack[0]) if i.stack else None)
        codes.append(code)
    return np.array(codes, dtype=np.int64), spans


def label_of(span: Span | None) -> str | None:
    """Return a line as the profile's `nki_source_location` writes it, such as `add.py:42`."""
    return f"{span.file_label}:{span.line}" if span else None
