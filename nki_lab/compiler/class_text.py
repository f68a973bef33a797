"""The text of a class: where it stands, and what in it is neither a field nor a method."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import FunctionType
from typing import Any

from nki_lab.compiler.function_text import FunctionText
from nki_lab.source import is_cell

_PLAIN = (ast.Pass, ast.Assert, ast.FunctionDef, ast.AsyncFunctionDef)


def text_of_class(kind: type, near: str) -> FunctionText | None:
    """Return the text of a class; None where there is none, or it is made by a call.

    Args:
        kind: the class.
        near: file or cell of a text that names it, where it may stand if its methods do not tell.
    """
    name = kind.__qualname__.split(".")[-1]
    for filename in (*_files(kind), near, *_cells(kind)):
        lines = linecache.getlines(filename)
        node = _classes("".join(lines)).get(name)
        if node is not None:
            return FunctionText(node, [x.rstrip("\n") for x in lines], filename, 1, name)
    return None


def constructs_of_class(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    """Yield (key of the language table, node) of what NKI's parser does not take in a class."""
    if node.keywords:
        yield "class keyword", node.keywords[0].value
    for statement in node.body:
        if isinstance(statement, _PLAIN):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if len(targets) != 1 or not isinstance(targets[0], ast.Name):
            yield "class body", statement


def _files(kind: type) -> Iterator[str]:
    for member in vars(kind).values():
        member = getattr(member, "__func__", member)
        if isinstance(member, FunctionType) and not member.__code__.co_filename.startswith("<"):
            yield member.__code__.co_filename
    filename = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if filename:
        yield filename


def _cells(kind: type) -> list[str]:
    """Return the cells a class of a notebook may stand in, the latest first."""
    if kind.__module__ != "__main__":
        return []
    return [name for name in reversed(linecache.cache) if is_cell(name)]


@lru_cache(maxsize=64)
def _classes(text: str) -> dict[str, ast.ClassDef]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
