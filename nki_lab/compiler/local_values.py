"""Finds uses of lists, dicts and strings that NKI's parser does not know.

Only names are looked at that a function gives nothing but values of one kind, as the text shows: an argument, or what a
function returned, may be anything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

Found = tuple[str, Any]
# The methods that the parser knows (KLR/Trace/Python.lean); its `pop` of a list takes no argument.
_METHODS = {
    "list": frozenset("append clear copy count extend index pop remove reverse".split()),
    "dict": frozenset("clear copy get items keys pop setdefault values".split()),
}
_MADE = {
    ast.List: "list",
    ast.ListComp: "list",
    ast.Dict: "dict",
    ast.DictComp: "dict",
    ast.JoinedStr: "str",
}
_OTHER = ""


def constructs_of_values(root: Any) -> Iterator[Found]:
    """Yield (key of the language table, node) of what the parser refuses, in the order of the text."""
    nodes = list(ast.walk(root))
    kinds = _kinds(nodes)
    constructs: list[Found] = []
    for node in nodes:
        if isinstance(node, ast.Call):
            constructs += _of_method(node, kinds)
        elif isinstance(node, ast.Subscript):
            constructs += _of_element(node, kinds)
        elif isinstance(node, ast.Attribute):
            if _kind(node.value, kinds) == "str":
                constructs.append(("string method", node))
        elif isinstance(node, ast.For) and _kind(node.iter, kinds) in ("str", "dict"):
            constructs.append(("for over text", node.iter))
    yield from sorted(constructs, key=lambda pair: (pair[1].lineno, pair[1].col_offset))


def _of_method(call: ast.Call, kinds: dict[str, str]) -> Iterator[Found]:
    method = call.func
    if not isinstance(method, ast.Attribute):
        return
    kind = _kind(method.value, kinds)
    methods = _METHODS.get(kind)
    if methods is None:
        return
    if method.attr not in methods or (kind, method.attr, bool(call.args)) == ("list", "pop", True):
        yield f"{kind} method", method


def _of_element(node: ast.Subscript, kinds: dict[str, str]) -> Iterator[Found]:
    kind = _kind(node.value, kinds)
    if kind == "str":
        yield "string method", node
    key = node.slice
    negative = isinstance(key, ast.UnaryOp)
    if kind == "dict" and (negative or _kind(key, {}) not in ("str", _OTHER)):
        yield "dict key", key


def _kinds(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return what each name is that only has values of one kind."""
    given: dict[str, set[str]] = {}
    plain: set[ast.AST] = set()  # targets whose value the text shows
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    plain.add(target)
                    given.setdefault(target.id, set()).add(_made(node.value))
        elif isinstance(node, ast.AugAssign):
            plain.add(node.target)  # leaves a list a list
        elif isinstance(node, ast.arg):
            given.setdefault(node.arg, set()).add(_OTHER)
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in plain:
            given.setdefault(node.id, set()).add(_OTHER)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            given.update({name: {_OTHER} for name in node.names})
    return {name: next(iter(kinds)) for name, kinds in given.items() if len(kinds) == 1}


def _kind(node: Any, kinds: dict[str, str]) -> str:
    return kinds.get(node.id, _OTHER) if isinstance(node, ast.Name) else _made(node)


def _made(node: Any) -> str:
    """Return the kind of value that an expression makes: list, dict, str or a number; "" where that is not known."""
    if isinstance(node, ast.Constant):
        return type(node.value).__name__
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id if node.func.id in ("list", "dict", "str") else _OTHER
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        return "list" if "list" in (_made(node.left), _made(node.right)) else _OTHER
    return _MADE.get(type(node), _OTHER)
