"""Finds the constructs of the language table in a text."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Facts:
    """What a text says, as far as it matters to NKI.

    Attributes:
        constructs: (key of the language table, node), in the order of the text.
        reads: dotted name that is read and may be global -> where first.
        calls: (dotted name, node of the function) that are called.
        decorators: (dotted name, node) of decorators.
    """

    constructs: list[Found] = field(default_factory=list)
    reads: dict[str, Any] = field(default_factory=dict)
    calls: list[Found] = field(default_factory=list)
    decorators: list[Found] = field(default_factory=list)


# What the kind of a node says by itself.
_KINDS: dict[Any, str] = {
    ast.Try: "try",
    ast.TryStar: "try",
    ast.Raise: "raise",
    ast.Delete: "del",
    ast.Match: "match",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.AsyncFunctionDef: "async",
    ast.AsyncFor: "async",
    ast.AsyncWith: "async",
    ast.ClassDef: "nested class",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Lambda: "lambda",
    ast.ListComp: "list comprehension",
    ast.SetComp: "set comprehension",
    ast.DictComp: "dict comprehension",
    ast.GeneratorExp: "generator",
    ast.NamedExpr: "walrus",
    ast.Set: "set",
    getattr(ast, "TypeAlias", None): "type alias",
}
_LARGEST = 2**31 - 1
_RANGES = ("affine_range", "sequential_range", "static_range")
_LOOPS = ("fori_loop", "while_loop")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_BINDERS = (*_SCOPES, ast.alias, ast.MatchAs, ast.MatchStar)


def facts_of(root: Any) -> Facts:
    """Return what the text of a function says, functions inside it included."""
    facts = Facts()
    bound: set[str] = set()  # names that the function, or one inside it, gives a value
    bodies: set[Any] = set()  # names, and lambdas, given to a device loop as its body
    waiting: list[tuple[Any, bool]] = [
        (root, True)
    ]  # and whether it belongs to the function itself
    while waiting:
        node, scope = waiting.pop()
        kind = type(node)
        if kind is ast.Name:
            if type(node.ctx) is ast.Load:
                facts.reads.setdefault(node.id, node)
            else:
                bound.add(node.id)
            continue
        _note(node, root, scope, facts)
        if kind is ast.Attribute and (name := _dotted(node)) is not None:
            if type(node.ctx) is ast.Load:
                facts.reads.setdefault(name, node)
            else:
                facts.reads.setdefault(name.partition(".")[0], node)
            continue
        if kind is ast.Call:
            bodies.update(_loop_bodies(node))
        elif kind in _BINDERS:
            bound.update(_bound(node, root))
        inside = scope and (node is root or kind not in _SCOPES)
        waiting.extend((child, inside) for child in _children(node, root))
    facts.constructs = [
        (key, node)
        for key, node in (*facts.constructs, *constructs_of_values(root))
        if not (
            (key == "nested def" and node.name in bodies) or (key == "lambda" and node in bodies)
        )
    ]
    facts.reads = {n: at for n, at in facts.reads.items() if n.partition(".")[0] not in bound}
    return facts


def _children(node: Any, root: Any) -> list[Any]:
    """Return the parts of a node from last to first; types and the defaults of the function are not kernel code."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        outside = [] if node is root else [*node.decorator_list, *node.args.defaults]
        return [*reversed(node.body), *outside]
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value is not None else []
    if _is_negative(node):
        return []
    if isinstance(node, ast.JoinedStr):
        return [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
    return list(ast.iter_child_nodes(node))[::-1]


def _note(node: Any, root: Any, own: bool, facts: Facts) -> None:
    kind = type(node)
    key = _KINDS.get(kind)
    if key is not None:
        facts.constructs.append(("yield in a helper" if key == "yield" and not own else key, node))
    look = _LOOKS.get(kind)
    if look is not None:
        facts.constructs.extend(look(node))
    if kind is ast.FunctionDef and node is not root:
        facts.constructs.append(("nested def", node))
    if kind is ast.Call and (name := _dotted(node.func)):
        facts.calls.append((name, node.func))
    if kind in (ast.FunctionDef, ast.ClassDef):
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if name := _dotted(called):
                facts.decorators.append((name, decorator))


def _dotted(node: Any) -> str | None:
    """Return `a.b.c` of a name with attributes, None of any other expression."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def _last_name(node: Any) -> str:
    return (_dotted(node) or "").split(".")[-1]


def _bound(node: Any, root: Any) -> Iterator[str]:
    """Yield the names that a function, class or import gives a value, parameters included."""
    if isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(node, (ast.MatchAs, ast.MatchStar)):
        if node.name:
            yield node.name
    else:
        if node is not root and not isinstance(node, ast.Lambda):
            yield node.name
        if not isinstance(node, ast.ClassDef):
            arguments = node.args
            listed = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            for argument in (*listed, arguments.vararg, arguments.kwarg):
                if argument is not None:
                    yield argument.arg


def _loop_bodies(node: ast.Call) -> Iterator[Any]:
    """Yield the names and lambdas that the call of a device loop is given."""
    if _last_name(node.func) not in _LOOPS:
        return
    for given in (*node.args, *(k.value for k in node.keywords if k.arg == "body_fun")):
        if isinstance(given, ast.Name):
            yield given.id
        elif isinstance(given, ast.Lambda):
            yield given


# -- constructs that the parts of a node tell -----------------------------------------------------------------------


def _for(node: ast.For) -> Iterator[Found]:
    if not isinstance(node.target, ast.Name):
        yield "for target", node.target
    iterable = node.iter
    if (
        isinstance(iterable, ast.Call)
        and iterable.keywords
        and _last_name(iterable.func) in _RANGES
    ):
        yield "range keyword", iterable.keywords[0].value
    yield from _loop_else(node)


def _loop_else(node: Any) -> Iterator[Found]:
    if node.orelse:
        yield "loop else", node.orelse[0]


def _assign(node: ast.Assign) -> Iterator[Found]:
    if sum(isinstance(t, (ast.Subscript, ast.Attribute)) for t in node.targets) > 1:
        yield "chained mutation", node
    for part in (p for target in node.targets for p in ast.walk(target)):
        if isinstance(part, ast.Starred):
            yield "starred target", part


def _with(node: ast.With) -> Iterator[Found]:
    item = node.items[0]
    called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
    is_plain = len(node.items) == 1 and item.optional_vars is None and called is not None
    if not (is_plain and _last_name(called) == "no_reorder"):
        yield "with", item.context_expr


def _compare(node: ast.Compare) -> Iterator[Found]:
    sides = [node.left, *node.comparators]
    for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
        if isinstance(operator, (ast.Is, ast.IsNot)) and not (_is_none(left) or _is_none(right)):
            yield "is", node
    if len(node.ops) > 1 and any(isinstance(o, (ast.In, ast.NotIn)) for o in node.ops):
        yield "chained in", node


def _is_none(node: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _call(node: ast.Call) -> Iterator[Found]:
    yield from _starred(node.args)
    for keyword in node.keywords:
        if keyword.arg is None:
            yield "double star argument", keyword.value


def _starred(values: Iterable[Any]) -> Iterator[Found]:
    for value in values:
        if isinstance(value, ast.Starred):
            yield "star argument", value


def _display(node: Any) -> Iterator[Found]:
    if isinstance(node.ctx, ast.Load):  # as a target it is another construct
        yield from _starred(node.elts)


def _arguments(node: ast.arguments) -> Iterator[Found]:
    if node.vararg is not None:
        yield "varargs", node.vararg
    if node.kwarg is not None:
        yield "kwargs", node.kwarg
    for parameter in node.kwonlyargs:
        yield "keyword-only", parameter


def _function(node: Any) -> Iterator[Found]:
    yield from _arguments(node.args)


def _constant(node: ast.Constant) -> Iterator[Found]:
    value = node.value
    if type(value) is complex:
        yield "complex", node
    elif type(value) is bytes:
        yield "bytes", node
    elif type(value) is int and value > _LARGEST:
        yield "large integer", node


def _is_negative(node: Any) -> bool:
    """Tell whether a node is a literal such as -3, which Python reads as the negative of one."""
    return (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and type(node.operand.value) is int
    )


def _unary(node: ast.UnaryOp) -> Iterator[Found]:
    if _is_negative(node) and node.operand.value > _LARGEST + 1:  # type: ignore[attr-defined]
        yield "large integer", node


def _dict(node: ast.Dict) -> Iterator[Found]:
    for key, value in zip(node.keys, node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            yield "dict key", key or value


def _joined(node: ast.JoinedStr) -> Iterator[Found]:
    if any(isinstance(v, ast.FormattedValue) and v.format_spec is not None for v in node.values):
        yield "format spec", node


def _binary(node: ast.BinOp) -> Iterator[Found]:
    if isinstance(node.op, ast.MatMult):
        yield "matmul operator", node


_LOOKS: dict[Any, Callable[[Any], Iterator[Found]]] = {
    ast.For: _for,
    ast.While: _loop_else,
    ast.Assign: _assign,
    ast.With: _with,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.FunctionDef: _function,
    ast.Lambda: _function,
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.JoinedStr: _joined,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.List: _display,
    ast.Tuple: _display,
}


# -- lists, dicts and strings -----------------------------------------------------------------------------------------
# Only names are checked to which the text assigns values of one kind: an argument, or the result of a function, may be
# anything.

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
