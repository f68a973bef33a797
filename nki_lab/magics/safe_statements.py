"""Chooses the statements of a cell that may run when the cell is only checked.

Imports, definitions of functions and classes, and assignments of constants: what they call, in a decorator or as a
default, must be NKI's or one of a few functions of Python that only make something.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

# Functions and decorators, by the name or module they are usually called by, that do nothing but make a value.
_MAKERS = frozenset(
    "abc bool cache cached_property classmethod contextlib contextmanager dataclass dataclasses dict enum field float"
    " frozenset functools int jit len list lru_cache math max min namedtuple nisa nki nl partial property range round"
    " set sorted staticmethod str sum tuple typing wraps".split()
)
_ARRAYS = frozenset(
    "arange array asarray ascontiguousarray empty eye full linspace ones random zeros float16 float32 float64 int8"
    " int16 int32 int64 uint8 uint16 uint32 rng default_rng normal rand randn randint standard_normal".split()
)
_METHODS = frozenset("astype copy reshape transpose view ravel swapaxes squeeze".split())
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def defines(node: ast.stmt, scope: Mapping[str, Any]) -> bool:
    """Tell whether a statement only imports, defines or names a constant."""
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass)):
        return True
    if isinstance(node, _FUNCTION):
        makers = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        return all(map(_makes, makers)) and all(map(_decorates, node.decorator_list))
    if isinstance(node, ast.ClassDef):
        return (
            all(map(_decorates, node.decorator_list))
            and all(_makes(part) for part in (*node.bases, *(k.value for k in node.keywords)))
            and all(defines(inner, scope) for inner in node.body)
        )
    if isinstance(node, ast.Assign):
        plain = all(isinstance(t, (ast.Name, ast.Tuple)) for t in node.targets)
        return plain and _makes(node.value)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and (node.value is None or _makes(node.value))
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_safe_call(node: ast.expr, scope: Mapping[str, Any]) -> bool:
    """Tell whether an argument of --run can be computed without changing anything: a name, a slice, np.zeros(...)."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not _makes_array(part, scope):
            return False
        if isinstance(part, _RUNS):
            return False
    return True


_RUNS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda)


def _makes_array(call: ast.Call, scope: Mapping[str, Any]) -> bool:
    root, *names = _dotted(call.func)
    value = scope.get(root) if root else None
    if isinstance(value, ModuleType):
        return value in (np, math) and all(name in _ARRAYS or value is math for name in names)
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        return True
    return root in _MAKERS and not names and root not in scope


def _makes(node: ast.expr) -> bool:
    return all(
        _dotted(part.func)[0] in _MAKERS if isinstance(part, ast.Call) else not isinstance(part, _RUNS[:4])
        for part in ast.walk(node)
    )  # fmt: skip


def _decorates(node: ast.expr) -> bool:
    return _dotted(node.func if isinstance(node, ast.Call) else node)[0] in _MAKERS and _makes(node)


def _dotted(node: ast.expr) -> list[str]:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id if isinstance(node, ast.Name) else "", *names]


def written_names(tree: ast.Module) -> set[str]:
    """Return every name that statements at the outermost level bind, in branches and loops as well."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_FUNCTION, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {a.asname or a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        if not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp)):
            waiting += ast.iter_child_nodes(node)
    return names
