"""Finds Python state that the body of a device loop changes, and that each pass sees unchanged.

The body is traced once: a counter that it increases, or a list that it appends to, has its first value in every pass.
The text of the body says what may be changed and is read again; values before and after the trace say what was.
Tensors are no such state: what instructions write is there in the next pass.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

from nki_lab.ir.tensor import NkiTensor
from nki_lab.source import Span, Stack, is_internal, is_of_library

if TYPE_CHECKING:
    from nki_lab.ir.builder import Builder

Path = tuple[str, ...]
_ADDS = frozenset("append appendleft extend extendleft insert add update".split())
_CHANGES = frozenset(
    "clear discard difference_update intersection_update pop popitem popleft remove reverse rotate sort"
    " symmetric_difference_update".split()
)
_CONTAINERS = (list, dict, set, deque)
_PLAIN = (bool, int, float, str, bytes, type(None), tuple)
_MISSING = object()
_DEEPEST = 3  # calls of the author's functions that are looked into
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Event(NamedTuple):
    """What a text does with a name, or with attributes of what a name stands for.

    `kind` is "load"; "store" of another value; "add" to a container; "item", a store to one; or "change", which also
    reads what is changed.
    """

    kind: str
    path: Path
    node: Any
    code: CodeType


class _Reader:
    """Reads a text in the order in which Python runs it."""

    def __init__(self, code: CodeType, hidden: Iterable[str], renamed: Mapping[str, Path]) -> None:
        self.code = code
        self.hidden = set(hidden)  # names of its own
        self.renamed = renamed  # parameters -> what was passed
        self.events: list[_Event] = []
        self.calls: list[tuple[Path, ast.Call]] = []

    def path(self, node: Any) -> Path | None:
        """Return the names of `a.b.c` whose first one is from outside the text."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.renamed:
            return (*self.renamed[node.id], *reversed(names))
        return None if node.id in self.hidden else (node.id, *reversed(names))

    def note(self, kind: str, node: Any, place: Any) -> None:
        path = self.path(node)
        if path is not None:
            self.events.append(_Event(kind, path, place, self.code))
        elif kind == "load" and isinstance(node, ast.Attribute):
            self.visit(node.value)

    def visit(self, node: Any) -> None:
        if isinstance(node, (ast.Name, ast.Attribute)):
            self.note("load" if isinstance(node.ctx, ast.Load) else "store", node, node)
        elif isinstance(node, ast.AugAssign):
            self.visit(node.value)
            self._augmented(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            if node.value is not None:
                self.visit(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else (node.target,):
                self.visit(target)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self.visit(node.slice)
            self.note("item", node.value, node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            for part in (node.iter, node.target, *node.body, *node.orelse):
                self.visit(part)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(
            node, (*_COMPREHENSIONS, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            before = self.hidden
            self.hidden = before | set(_names_of(node))
            for part in ast.iter_child_nodes(node):
                self.visit(part)
            self.hidden = before
        else:
            for part in ast.iter_child_nodes(node):
                self.visit(part)

    def _augmented(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            self.visit(node.target.slice)
            self.note("change", node.target.value, node)
        else:
            self.note("load", node.target, node)
            self.note("store", node.target, node)

    def _call(self, node: ast.Call) -> None:
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(part)
        function = node.func
        path = self.path(function)
        if path is not None:
            self.calls.append((path, node))
        if isinstance(function, ast.Attribute) and function.attr in (_ADDS | _CHANGES):
            self.note("add" if function.attr in _ADDS else "change", function.value, node)
        else:
            self.visit(function)


class LoopState:
    """The Python state around a device loop: made before its body is traced, and asked afterwards.

    Args:
        events: what the body does.
        value_of: returns what a name from outside stands for now.
        read_after: tells whether what follows the loop reads a name.
    """

    def __init__(
        self,
        events: list[_Event],
        value_of: Callable[[str], Any],
        read_after: Callable[[str], bool],
    ) -> None:
        self._value_of = value_of
        self._suspects = list(_suspects(events, read_after))
        self._before = [self._state(event.path) for event in self._suspects]

    def tell(self, builder: Builder) -> None:
        """Record a finding for each thing that the body has changed."""
        told: set[Path] = set()
        stack = builder.stack()
        for event, before in zip(self._suspects, self._before, strict=True):
            if event.path in told or before is _MISSING:
                continue
            after = self._state(event.path)
            if after is _MISSING or not _changed(before, after, event.kind == "item"):
                continue
            told.add(event.path)
            value = before[0]
            what = f": {value!r}" if type(value) in _PLAIN and len(repr(value)) < 40 else ""
            builder.find(
                "hazard",
                f"`{'.'.join(event.path)}` changes in the body of a device loop, which is traced once: every pass sees"
                f" what it was before the loop{what}",
                "keep what changes from pass to pass in a tensor in SBUF or HBM, or unroll the loop with range()",
                stack=(Span.of_node(event.node, event.code), *_callers(event.code, stack)),
            )

    def _state(self, path: Path) -> Any:
        """Return (value, its contents) of what a path stands for now."""
        value = self._value_of(path[0])
        for name in path[1:]:
            value = _attribute(value, name)
        if value is _MISSING:
            return value
        if type(value) is dict:
            return value, dict(value)
        return value, list(value) if isinstance(value, _CONTAINERS) else None


def _callers(code: CodeType, stack: Stack) -> Stack:
    """Return the places around one in the text of `code`, where `stack` is that of the loop."""
    inner = stack[0] if stack else None
    return stack[1:] if isinstance(inner, tuple) and inner[0] is code else stack


def state_of_block(loop: ast.For | ast.While, frame: FrameType) -> LoopState:
    """Return the state around a loop whose body stands in the text of the function that runs in `frame`."""
    target = _targets(loop.target) if isinstance(loop, ast.For) else ()
    # The frame is asked for its names anew each time; they are copied, as the next look changes what it gives.
    value_of = functools.partial(_in_frame, frame)
    reader = _Reader(frame.f_code, target, {})
    for statement in loop.body:
        reader.visit(statement)
    events = [*reader.events, *_of_callees(reader, value_of)]
    return LoopState(events, value_of, functools.partial(_read_after, frame.f_code, loop))


def state_of_body(body: Any) -> LoopState | None:
    """Return the state around a loop whose body is a function; None where its text cannot be read."""
    function, given = _function_of(body)
    node = None if function is None else _node_of(function.__code__)
    if function is None or node is None:
        return None
    value_of = functools.partial(_around, function, given)
    renamed = {name: (name,) for name in given}
    reader = _read(function, node, renamed)
    events = [*reader.events, *_of_callees(reader, value_of)]
    return LoopState(events, value_of, functools.partial(_read_after, function.__code__, node))


# -- what may be state ------------------------------------------------------------------------------------------------


def _suspects(events: list[_Event], read_after: Callable[[str], bool]) -> Iterator[_Event]:
    """Yield what changes something that is read before the change, in the next pass, or after the loop."""
    for at, event in enumerate(events):
        first = next(e for e in events if _reads(e.path, event.path))
        if first.kind == "store" and first is not event and len(first.path) <= len(event.path):
            continue  # made anew in each pass
        if event.kind == "change":
            yield event
        elif event.kind in ("store", "item"):
            if any(e.kind == "load" and _reads(e.path, event.path) for e in events[:at]):
                yield event
        elif event.kind == "add" and (
            any(e.kind == "load" and _reads(e.path, event.path) for e in events)
            or len(event.path) > 1
            or read_after(event.path[0])
        ):
            yield event


def _reads(read: Path, changed: Path) -> bool:
    """Tell whether who reads a path may see what is at another: the same, something in it, or what holds it."""
    shorter = min(len(read), len(changed))
    return read[:shorter] == changed[:shorter]


def _changed(before: Any, after: Any, by_items: bool) -> bool:
    (old, old_items), (new, new_items) = before, after
    if old is not new:
        return not (_same(old, new) or _same_bytes(old, new))
    if old_items is None:
        return False
    if isinstance(old_items, dict):
        # A new key is how tiles are kept by name; nothing was there that a pass could miss.
        keys = old_items if by_items else (*old_items, *new_items)
        return any(not _same(old_items.get(k, _MISSING), new_items.get(k, _MISSING)) for k in keys)
    return len(old_items) != len(new_items) or not all(map(_same, old_items, new_items))


def _same(old: Any, new: Any) -> bool:
    return old is new or (type(old) is type(new) and type(old) in _PLAIN and bool(old == new))


def _same_bytes(old: Any, new: Any) -> bool:
    """Tell whether two values are views of the same elements, such as a tile and its other shape."""
    return (
        type(old) is type(new) is NkiTensor
        and old.storage is new.storage
        and (old.offset, old.size, old.dynamic) == (new.offset, new.size, new.dynamic)
    )


# -- values -----------------------------------------------------------------------------------------------------------


def _in_frame(frame: FrameType, name: str) -> Any:
    values = frame.f_locals
    return values[name] if name in values else frame.f_globals.get(name, _MISSING)


def _around(function: FunctionType, given: Mapping[str, Any], name: str) -> Any:
    """Return what a name of a function's text stands for outside of it."""
    if name in given:
        return given[name]
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return _MISSING
    return function.__globals__.get(name, _MISSING)


def _attribute(value: Any, name: str) -> Any:
    """Return an attribute that is kept in an object, without running code of its class."""
    kept = getattr(value, "__dict__", None)
    if isinstance(kept, Mapping) and name in kept:
        return kept[name]
    slot = inspect.getattr_static(type(value), name, None)
    if isinstance(slot, MemberDescriptorType):
        try:
            return slot.__get__(value)
        except AttributeError:
            return _MISSING
    return _MISSING


def _function_of(body: Any) -> tuple[FunctionType | None, dict[str, Any]]:
    """Return the function that is called for a body, and what its first parameters are bound to."""
    values: list[Any] = []
    keywords: dict[str, Any] = {}
    while True:
        if isinstance(body, functools.partial):
            values, keywords = [*body.args, *values], {**body.keywords, **keywords}
            body = body.func
        elif isinstance(body, MethodType):
            values.insert(0, body.__self__)
            body = body.__func__
        elif isinstance(body, FunctionType):
            names = body.__code__.co_varnames[: body.__code__.co_argcount]
            return body, {**dict(zip(names, values, strict=False)), **keywords}
        elif isinstance(inner := getattr(body, "func", None), FunctionType):  # a kernel
            body = inner
        else:
            call = inspect.getattr_static(type(body), "__call__", None)
            if not isinstance(call, FunctionType):
                return None, {}
            body = MethodType(call, body)


# -- texts ------------------------------------------------------------------------------------------------------------


def _read(function: FunctionType, node: _Scope, renamed: Mapping[str, Path]) -> _Reader:
    """Read the body of a function, of which the parameters in `renamed` are from outside."""
    reader = _Reader(function.__code__, set(_names_of(node)) - set(renamed), renamed)
    for statement in [node.body] if isinstance(node, ast.Lambda) else node.body:
        reader.visit(statement)
    return reader


def _of_callees(reader: _Reader, value_of: Callable[[str], Any], depth: int = 0) -> list[_Event]:
    """Return what the author's functions that a text calls do to containers and to names of modules.

    Attributes that a callee sets are left out: many objects count what they have made, and no pass misses it.
    """
    events: list[_Event] = []
    for path, call in reader.calls:
        function = value_of(path[0])
        for name in path[1:]:
            function = _attribute(function, name)
        function = getattr(function, "func", function)
        if not isinstance(function, FunctionType) or depth == _DEEPEST:
            continue
        filename = function.__code__.co_filename
        node = None
        if not is_internal(function.__code__) and not is_of_library(filename):
            node = _node_of(function.__code__)
        if node is None:
            continue
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        passed = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
        given = {n: p for n, a in passed if n is not None and (p := reader.path(a)) is not None}
        inner = _read(function, node, given)
        around = functools.partial(_around, function, {})
        # Names of the callee's module that mean something else here cannot be told by their path.
        shared = [
            e
            for e in (*inner.events, *_of_callees(inner, around, depth + 1))
            if (e.kind != "store" or (len(e.path) == 1 and e.path not in given.values()))
            and (_given(e.path, given) or value_of(e.path[0]) is around(e.path[0]))
        ]
        events += shared
    return events


def _given(path: Path, given: Mapping[str, Path]) -> bool:
    return any(path[: len(p)] == p for p in given.values())


def _names_of(node: Any) -> Iterator[str]:
    """Yield the names that belong to a function or comprehension."""
    if isinstance(node, _COMPREHENSIONS):
        for generator in node.generators:
            yield from _targets(generator.target)
        return
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg
    for argument in (arguments.vararg, arguments.kwarg):
        if argument is not None:
            yield argument.arg
    if isinstance(node, ast.Lambda):
        return
    outside = {
        n for s in ast.walk(node) if isinstance(s, (ast.Nonlocal, ast.Global)) for n in s.names
    }
    yield from (n for statement in node.body for n in _targets(statement) if n not in outside)


def _targets(node: Any) -> Iterator[str]:
    """Yield the names that a statement or target assigns, functions and classes that it defines among them."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield part.name


def _read_after(code: CodeType, loop: Any, name: str) -> bool:
    """Tell whether the function around a loop, or around its body, reads a name behind it."""
    around = [
        node
        for node in ast.walk(_tree(code.co_filename) or ast.Module([], []))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node is not loop
        and node.lineno <= loop.lineno <= (node.end_lineno or 0)
    ]
    if not around:
        return True
    inner = max(around, key=lambda node: node.lineno)
    return any(
        isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and node.lineno > (loop.end_lineno or 0)
        for node in ast.walk(inner)
    )


@lru_cache(maxsize=256)
def _node_of(code: CodeType) -> _Scope | None:
    """Return the definition of a function in its text."""
    tree = _tree(code.co_filename)
    places = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if column or end_column  # those that Python adds have none
    ]
    for node in () if tree is None else ast.walk(tree):
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
            inside = [start <= first and last <= end for first, last in places]  # type: ignore[operator]
            if node.lineno == code.co_firstlineno and all(inside):
                return node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min(node.lineno, *(d.lineno for d in node.decorator_list), node.lineno)
            if node.name == code.co_name and first == code.co_firstlineno:
                return node
    return None


def _tree(filename: str) -> ast.Module | None:
    return _parsed("".join(linecache.getlines(filename)))


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None
