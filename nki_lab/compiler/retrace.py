"""Traces a kernel once more for the loop variables of each instruction.

Reading them costs more than tracing, so a kernel is traced once more, without a sound, when somebody asks. The
variables are those of every `for` and comprehension around an instruction, in each function of its call stack,
and the induction variables of device loops, whose values only the device knows. Around all of them are the numbers of
the program, where one core runs the programs of a launch grid one after the other.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.silence import silence
from nki_lab.compiler.trace import TensorSpec, map_arguments, trace
from nki_lab.dtypes import dtype_of
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Definition, Instruction
from nki_lab.ir.program.execution import Iteration, Iterations
from nki_lab.ir.program.nodes import Kernel
from nki_lab.language.loops import fori_loop
from nki_lab.profiler.analyses.loops import PROGRAM
from nki_lab.progress import doing
from nki_lab.source import Place, Span, is_internal
from nki_lab.targets.spec import Target


class Retrace:
    """Traces a kernel again, as it was called.

    Attributes:
        source: the kernel.
        args, kwargs: the arguments of the call; of arrays only shape and dtype are kept.
        target, options: what it was compiled with.
    """

    def __init__(
        self,
        source: SourceKernel,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Target,
        options: Choices,
    ) -> None:
        self.source = source
        self.args = tuple(forgotten(value) for value in args)
        self.kwargs = {name: forgotten(value) for name, value in kwargs.items()}
        self.target = target
        self.options = options

    @doing("reading loop variables")
    def iterations(self, compiled: Kernel) -> Iterations | None:
        """Return the loop variables of a compiled kernel's instructions.

        None where the kernel now does something else, because a global or an object it was given has changed.
        """
        readers: list[_LoopReader] = []

        def reader(*args: Any, **kwargs: Any) -> Builder:
            readers.append(_LoopReader(*args, **kwargs))
            return readers[0]

        try:
            with silence():
                trace(
                    self.source,
                    self.args,
                    self.kwargs,
                    self.target,
                    self.options.replace(strict=False),
                    compiled.program,
                    builder_of=reader,
                )
        except Exception:  # the author's code: what it raised the first time was told then
            return None
        return readers[0].found(compiled)


def forgotten(value: Any) -> Any:
    """Return an argument with shape and dtype in place of each array."""

    def leaf(name: str, array: np.ndarray) -> Any:
        dtype = dtype_of(array.dtype)
        return array if array.ndim == 0 or dtype is None else TensorSpec(array.shape, dtype)

    return map_arguments("", value, leaf, lambda v: isinstance(v, np.ndarray))


class _LoopReader(Builder):
    """A builder that reads the loop variables of every frame when an instruction is appended."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries: list[Iteration] = []
        self._numbers: dict[Any, int] = {}
        self._innermost: dict[int, int] = {}
        self._traced: dict[int, Instruction] = {}
        self._targets: dict[tuple[int, int], tuple[CodeType, tuple[LoopTarget, ...]]] = {}

    def emit(self, definition: Definition, args: tuple[Any, ...]) -> Instruction:
        """Append an instruction and note the values of all loop variables around it."""
        instruction = super().emit(definition, args)
        self._traced[instruction.ident] = instruction
        self._innermost[instruction.ident] = self._read(sys._getframe(1))
        return instruction

    def _read(self, frame: FrameType | None) -> int:
        frames = []
        while frame is not None:
            frames.append(frame)
            if frame.f_code is self.root:
                break
            frame = frame.f_back
        entry = -1
        for axis, number in enumerate(self.place):
            line = self.root.co_firstlineno
            name = f"{PROGRAM}{axis})"
            entry = self._entry(entry, (), name, number, self.root.co_filename, line)
        calls: tuple[
            Any, ...
        ] = ()  # where the functions around were called: a loop runs anew in each call
        for frame in reversed(frames):
            code = frame.f_code
            if code is fori_loop.__code__:
                body = frame.f_locals["body_fun"]
                name = next(iter(getattr(body, "__code__", code).co_varnames), "i")
                place = Span.of((frame.f_back.f_code, frame.f_back.f_lasti))  # type: ignore[union-attr]
                entry = self._entry(entry, calls, name, None, place.filename, place.line)
            if is_internal(code):
                continue
            for target in self._targets_at(code, frame.f_lasti):
                values = frame.f_locals
                for name in target.names:
                    if name in values:
                        entry = self._entry(
                            entry, calls, name, values[name], code.co_filename, target.line
                        )
            calls = (calls, id(code), frame.f_lasti)
        return entry

    def _targets_at(self, code: CodeType, offset: int) -> tuple[LoopTarget, ...]:
        targets = self._targets.get((id(code), offset))
        if targets is None:  # with the code, so that no other one gets its id
            targets = self._targets[id(code), offset] = (code, loop_targets(code, offset))
        return targets[1]

    def _entry(
        self, parent: int, calls: Any, name: str, value: Any, filename: str, line: int
    ) -> int:
        simple = isinstance(value, (int, float, str, np.number))
        key = (parent, calls, name, filename, line, value if simple else id(value))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._entries)
            whole = int(value) if isinstance(value, (int, np.integer)) else None
            if whole is not None and not -(2**63) <= whole < 2**63:
                whole = None
            self._entries.append(Iteration(name, whole, filename, line, parent))
        return number

    def found(self, compiled: Kernel) -> Iterations | None:
        """Return what was read, if every instruction of a compiled kernel was traced at the same place.

        The instructions lead back here through their tensors; they are given up.
        """
        traced, self._traced = self._traced, {}
        for i in compiled.instructions:
            again = traced.get(i.ident)
            if again is None or again.definition is not i.definition or not _same(again, i):
                return None
        return Iterations(tuple(self._entries), self._innermost)


def _same(a: Instruction, b: Instruction) -> bool:
    return len(a.stack) == len(b.stack) and all(map(_same_place, a.stack, b.stack))


def _same_place(a: Place, b: Place) -> bool:
    if isinstance(a, Span) or isinstance(b, Span):
        return a == b
    return a[1] == b[1] and (a[0] is b[0] or a[0] == b[0])


# -- variables of Python loops at a place -----------------------------------------------------------------------------

#: Python runs them in the frame of the function since 3.12.
_INLINED = (ast.ListComp, ast.SetComp, ast.DictComp) if sys.version_info >= (3, 12) else ()
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class LoopTarget(NamedTuple):
    """The variables of one loop and the line it stands on."""

    names: tuple[str, ...]
    line: int


class _Range(NamedTuple):
    first: tuple[int, int]
    last: tuple[int, int]

    def within(self, node: Any) -> bool:
        if not hasattr(node, "lineno"):  # arguments, the generators of a comprehension
            return any(self.within(child) for child in ast.iter_child_nodes(node))
        start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return start <= self.first and self.last <= end


def loop_targets(code: CodeType, offset: int) -> tuple[LoopTarget, ...]:
    """Return the loops whose body holds an instruction of a code object, outermost first.

    Only loops of that function count, not those around its definition or its call.
    """
    positions = list(code.co_positions())
    line, end_line, column, end_column = positions[offset // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return ()
    tree = _parsed("".join(linecache.getlines(code.co_filename)))
    targets: list[LoopTarget] = []
    if tree is not None:
        _collect(tree, _Range((line, column), (end_line, end_column)), targets)
    return tuple(targets)


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _collect(node: ast.AST, place: _Range, targets: list[LoopTarget]) -> None:
    for child in ast.iter_child_nodes(node):
        if not place.within(child):
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(map(place.within, child.body)):  # decorators and defaults are run outside
                targets.clear()
        elif isinstance(child, ast.Lambda):
            if place.within(child.body):
                targets.clear()
        elif isinstance(child, ast.For):
            if any(map(place.within, child.body)):
                targets.append(_target([child.target], child.lineno))
        elif isinstance(child, _COMPREHENSIONS):
            bound = _bound(child, place)
            if bound:
                if not isinstance(child, _INLINED):
                    targets.clear()
                targets += [_target([g.target], g.target.lineno) for g in bound]
        _collect(child, place, targets)


def _bound(node: Any, place: _Range) -> list[ast.comprehension]:
    """Return the `for` parts of a comprehension whose variables have a value at a place."""
    results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    if any(map(place.within, results)):
        return list(node.generators)
    for n, generator in enumerate(node.generators):
        if n and place.within(generator.iter):
            return list(node.generators[:n])
        if any(map(place.within, generator.ifs)):
            return list(node.generators[: n + 1])
    return []


def _target(targets: Iterable[ast.expr], line: int) -> LoopTarget:
    return LoopTarget(tuple(_names(targets)), line)


def _names(targets: Iterable[ast.expr]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, (ast.Tuple, ast.List)):
            yield from _names(target.elts)
