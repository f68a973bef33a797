"""Finds the variables of Python loops that have a value at a place in the author's text."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

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


def _collect(node: ast.AST, place: _Range, found: list[LoopTarget]) -> None:
    for child in ast.iter_child_nodes(node):
        if not place.within(child):
            continue
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if any(map(place.within, child.body)):  # decorators and defaults are run outside
                found.clear()
        elif isinstance(child, ast.Lambda):
            if place.within(child.body):
                found.clear()
        elif isinstance(child, ast.For):
            if any(map(place.within, child.body)):
                found.append(_target([child.target], child.lineno))
        elif isinstance(child, _COMPREHENSIONS):
            bound = _bound(child, place)
            if bound:
                if not isinstance(child, _INLINED):
                    found.clear()
                found += [_target([g.target], g.target.lineno) for g in bound]
        _collect(child, place, found)


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
