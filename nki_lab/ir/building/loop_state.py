"""Finds Python state that the body of a device loop changes, and that each pass sees unchanged.

The body is traced once: a counter that it increases, or a list that it appends to, has its first value in every pass.
The text of the body says what may be changed and is read again; values before and after the trace say what was.
Tensors are not such state: what instructions write is there in the next pass.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from types import (
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
)
from typing import Any, NamedTuple

import numpy as np

from nki_lab.ir.building.reach import Reach, reach_of_block, reach_of_body
from nki_lab.ir.building.values import (
    MISSING,
    MOST,
    PLAIN,
    attribute,
    contents,
    same,
    same_bytes,
    state_of_iterator,
)
from nki_lab.source import Span, Stack, is_internal, is_of_library
from nki_lab.versions import FORMS

# Names of attributes behind the name of a variable, or a _Root; _ITEM stands for every item of what is before it.
Path = tuple[Any, ...]
_ITEM = "[]"
_ADDS = frozenset("append appendleft extend extendleft insert add update".split())
_CHANGES = frozenset(
    "clear discard difference_update intersection_update pop popitem popleft remove reverse rotate sort"
    " symmetric_difference_update fill itemset partition put resize send __next__".split()
)
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


class _Root(NamedTuple):
    """A name in the text of a function that a body calls: of its closure or module, or a default of a parameter."""

    function: Any
    name: str

    def value(self) -> Any:
        given = inspect.signature(self.function).parameters.get(self.name)
        return _around(self.function, {}, self.name) if given is None else given.default


class _Reader:
    """Reads a text in the order in which Python runs it."""

    def __init__(self, code: CodeType, hidden: Iterable[str], renamed: Mapping[str, Path]) -> None:
        self.code = code
        self.hidden = set(hidden)  # its own names
        self.renamed = dict(renamed)  # parameters -> what was passed
        self.also: dict[str, Path] = {}  # names that the text gives to what stands elsewhere
        self.events: list[_Event] = []
        self.calls: list[tuple[Path, ast.Call]] = []

    def path(self, node: Any) -> Path | None:
        """Return the names of `a.b[0].c` whose first one is from outside the text."""
        names: list[str] = []
        whole = node
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            names.append(node.attr if isinstance(node, ast.Attribute) else _ITEM)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.also and node is not whole:
            return (*self.also[node.id], *reversed(names))
        if node.id in self.renamed:
            return (*self.renamed[node.id], *reversed(names))
        return None if node.id in self.hidden else (node.id, *reversed(names))

    def note(self, kind: str, node: Any, place: Any) -> None:
        path = self.path(node)
        if isinstance(node, ast.Name) and node.id in self.also:
            if kind == "store":
                del self.also[node.id]
            else:
                self.events.append(_Event(kind, self.also[node.id], place, self.code))
        if path is not None:
            if kind == "store" and _ITEM in path:  # an attribute of an item
                kind = "item"
            self.events.append(_Event(kind, path, place, self.code))
        elif kind == "load" and isinstance(node, ast.Attribute):
            self.visit(node.value)

    def rename(self, target: Any, value: Any, item: bool = False) -> None:
        """Note that a name is given to what stands at another place, or to an item of it."""
        if isinstance(target, (ast.Tuple, ast.List)):
            values: list[Any] = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                values = value.args if value.func.id == "zip" else [None, *value.args[:1]]
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                values = [None, value.func.value]
            for part, of in zip(target.elts, values, strict=False):
                self.rename(part, of, item)
            return
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value if value.func.attr == "values" else None
        path = None if value is None else self.path(value)
        if isinstance(target, ast.Name) and path is not None:
            self.also[target.id] = (*path, _ITEM) if item else path

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
            for target in node.targets if isinstance(node, ast.Assign) else (node.target,):
                self.rename(target, node.value)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self.visit(node.slice)
            self.note("item", node.value, node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.visit(node.iter)
            self.visit(node.target)
            self.rename(node.target, node.iter, item=True)
            for statement in (*node.body, *node.orelse):
                self.visit(statement)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(
            node, (*_COMPREHENSIONS, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            before, also = self.hidden, self.also
            names = set(_names_of(node))
            self.hidden = before | names
            self.also = {name: path for name, path in also.items() if name not in names}
            for part in ast.iter_child_nodes(node):
                self.visit(part)
            self.hidden, self.also = before, also
        else:
            for part in ast.iter_child_nodes(node):
                self.visit(part)

    def _augmented(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            self.visit(node.target.slice)
            self.note("change", node.target.value, node)
        else:
            self.note("load", node.target, node)
            if isinstance(node.target, ast.Name) and node.target.id in self.also:
                self.note(
                    "change", node.target, node
                )  # of a list or an array: what stands elsewhere
            self.note("store", node.target, node)

    def _call(self, node: ast.Call) -> None:
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(part)
        function = node.func
        path = self.path(function)
        if path is not None:
            self.calls.append((path, node))
        if path == ("next",) and node.args:
            self.note("change", node.args[0], node)
        if isinstance(function, ast.Attribute) and function.attr in (_ADDS | _CHANGES):
            self.note("add" if function.attr in _ADDS else "change", function.value, node)
        else:
            self.visit(function)


class LoopState:
    """The Python state around a device loop: made before its body is traced, and asked afterwards.

    What the text of the body changes and reads is told at once, with its place. Anything else that has changed is
    noted: where it matters, `rehearsal` tells it.

    Args:
        reach: what the body can reach.
        events: what the text of the body does; nothing where there is no text.
        value_of: returns what a name from outside stands for now.
    """

    def __init__(self, reach: Reach, events: list[_Event], value_of: Callable[[str], Any]) -> None:
        self._reach = reach
        self._value_of = value_of
        self._suspects = list(_suspects(events))
        self._suspects += [
            e._replace(path=e.path[:end])
            for e in events
            if e.kind == "load"
            for end in range(1, len(e.path) + 1)
            if self._advances(e.path[:end])
        ]
        self._made = {e.path for e in events if e.kind == "item"}
        self._before = [self._state(event.path) for event in self._suspects]

    def tell(self, builder: Any) -> None:
        """Record a finding in the builder for each thing that the body has changed, or note what to rehearse."""
        told: set[str] = set()
        stack = builder.body[-1].stack
        for event, before in zip(self._suspects, self._before, strict=True):
            name = _name_of(event.path)
            if name in told:
                continue
            after = self._state(event.path)
            keys = before if event.path[:-1] in self._made or _ITEM not in event.path else after
            by_items = event.kind == "item"
            changed = [
                key
                for key in keys
                if key in after
                and (key not in before or _changed(before[key], after[key], by_items))
            ]
            if not changed:
                continue
            told.add(name)
            value = before[changed[0]][0] if changed[0] in before else MISSING
            place = (Span.of_node(event.node, event.code), *_callers(event.code, stack))
            tell_change(builder, name, value, place)
        if told:
            builder.unsure[stack] = None
        elif builder.rehearsal is None and stack not in builder.unsure:
            changes = self._reach.changed()
            if changes or not self._reach.is_whole:
                builder.unsure[stack] = changes

    def _advances(self, path: Path) -> bool:
        return any(state_of_iterator(v) is not None for v in self._values(path).values())

    def _values(self, path: Path) -> dict[tuple[Any, ...], Any]:
        """Return what a path stands for now, by the keys of the items on the way."""
        root = path[0].value() if isinstance(path[0], _Root) else self._value_of(path[0])
        values: dict[tuple[Any, ...], Any] = {(): root}
        for name in path[1:]:
            if name == _ITEM:
                values = {
                    (*at, key): item for at, v in values.items() for key, item in _items(v).items()
                }
            else:
                values = {at: attribute(v, name) for at, v in values.items()}
        return {at: v for at, v in values.items() if v is not MISSING}

    def _state(self, path: Path) -> dict[tuple[Any, ...], tuple[Any, Any]]:
        """Return (value, its contents) of each value that a path stands for now."""
        return {at: (v, contents(v)) for at, v in self._values(path).items()}


def tell_change(
    builder: Any, name: str, value: Any, place: Stack, seen: str = "", others: str = ""
) -> None:
    """Record that a body changes what every pass sees unchanged.

    It is an error where the version makes it one: state that crosses passes lives in memory
    (nki/api/generated/nki.language.fori_loop.html).
    """
    what = f": {value!r}" if type(value) in PLAIN and len(repr(value)) < 40 else ""
    builder.find(
        "hazard",
        f"`{name}`{others} changes in the body of a device loop, which is traced once: every pass sees"
        f" its value from before the loop{what}{seen}",
        "keep what changes from pass to pass in a tensor in SBUF or HBM, or unroll the loop with range()",
        FORMS["loop state"].code,
        stack=place,
    )


def _name_of(path: Path) -> str:
    """Return a path as an author writes it."""
    root = path[0]
    first = f"{root.function.__name__}: {root.name}" if isinstance(root, _Root) else root
    names = ("[...]" if name == _ITEM else f".{name}" for name in path[1:])
    return "".join([first, *names]).removesuffix("[...]")


def _callers(code: CodeType, stack: Stack) -> Stack:
    """Return the places around one in the text of `code`, where `stack` is that of the loop."""
    inner = stack[0] if stack else None
    return stack[1:] if isinstance(inner, tuple) and inner[0] is code else stack


def state_of_block(loop: ast.For | ast.While | None, frame: FrameType) -> LoopState:
    """Return the state around a loop whose body stands in the function that runs in `frame`; None: without a text."""
    # Each look reads the names of the frame again, into a copy: the next look changes what the frame gives.
    value_of = functools.partial(_in_frame, frame)
    reach = reach_of_block(frame, loop is None)
    if loop is None:
        return LoopState(reach, [], value_of)
    target = _targets(loop.target) if isinstance(loop, ast.For) else ()
    reader = _Reader(frame.f_code, target, {})
    for statement in loop.body:
        reader.visit(statement)
    return LoopState(reach, [*reader.events, *_of_callees(reader, value_of)], value_of)


def state_of_body(body: Any) -> LoopState:
    """Return the state around a loop whose body is a function."""
    reach = reach_of_body(body)
    function, given = _function_of(body)
    if function is None:  # one of Python's own, which may hold what cannot be seen
        reach.is_whole = False
        return LoopState(reach, [], lambda name: MISSING)
    defaults = {
        p.name: p.default
        for p in inspect.signature(function).parameters.values()
        if p.default is not p.empty
    }
    given = {**defaults, **given}
    value_of = functools.partial(_around, function, given)
    node = _node_of(function.__code__)
    if node is None:
        return LoopState(reach, [], value_of)
    reader = _read(function, node, {name: (name,) for name in given})
    return LoopState(reach, [*reader.events, *_of_callees(reader, value_of)], value_of)


def carried_names(loop: ast.For, code: CodeType) -> dict[str, ast.AST]:
    """Return the variables that the body of a loop reads before it sets them, with the place where it does."""
    reader = _Reader(code, _targets(loop.target), {})
    for statement in loop.body:
        reader.visit(statement)
    stores = [
        event
        for event in _suspects(reader.events)
        if event.kind == "store" and len(event.path) == 1 and isinstance(event.path[0], str)
    ]
    return {event.path[0]: event.node for event in reversed(stores)}


# -- what may be state ------------------------------------------------------------------------------------------------


def _suspects(events: list[_Event]) -> Iterator[_Event]:
    """Yield what changes something that is read before the change.

    What is only added to a container is left to `rehearsal`: instructions for depends_on need not be meant for the
    next pass.
    """
    for at, event in enumerate(events):
        first = next(e for e in events if _reads(e.path, event.path))
        if first.kind == "store" and first is not event and len(first.path) <= len(event.path):
            continue  # made anew in each pass
        if event.kind == "change" or (
            event.kind in ("store", "item")
            and any(e.kind == "load" and _reads(e.path, event.path) for e in events[:at])
        ):
            yield event


def _reads(read: Path, changed: Path) -> bool:
    """Tell whether who reads a path may see what is at another: the same, something in it, or what holds it."""
    shorter = min(len(read), len(changed))
    return read[:shorter] == changed[:shorter]


def _changed(before: Any, after: Any, by_items: bool) -> bool:
    (old, old_items), (new, new_items) = before, after
    if old is not new:
        return not (same(old, new) or same_bytes(old, new))
    if old_items is None or new_items is None:
        return False
    if isinstance(old_items, dict):
        # A new key is how tiles are kept by name; nothing was there that a pass could miss.
        keys = old_items if by_items else (*old_items, *new_items)
        return any(not same(old_items.get(k, MISSING), new_items.get(k, MISSING)) for k in keys)
    return len(old_items) != len(new_items) or not all(map(same, old_items, new_items))


def _items(value: Any) -> dict[Any, Any]:
    """Return the items of a container by their keys; an array has all of its elements in itself."""
    if isinstance(value, np.ndarray):
        return {0: value}
    if isinstance(value, dict):
        return dict(islice(value.items(), MOST))
    return dict(enumerate(islice(value, MOST))) if isinstance(value, (list, tuple, deque)) else {}


# -- values -----------------------------------------------------------------------------------------------------------


def _in_frame(frame: FrameType, name: str) -> Any:
    values = frame.f_locals
    return values[name] if name in values else frame.f_globals.get(name, MISSING)


def _around(function: FunctionType, given: Mapping[str, Any], name: str) -> Any:
    """Return what a name of a function's text stands for outside of it."""
    if name in given:
        return given[name]
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return MISSING
    return function.__globals__.get(name, MISSING)


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
            function = attribute(function, name)
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
        given: dict[str, Path] = {
            n: p for n, a in passed if n is not None and (p := reader.path(a)) is not None
        }
        named = {n for n, _ in passed}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name not in named and parameter.default is not parameter.empty:
                given[parameter.name] = (_Root(function, parameter.name),)
        inner = _read(function, node, given)
        around = functools.partial(_around, function, {})
        for e in (*inner.events, *_of_callees(inner, around, depth + 1)):
            if e.kind == "store" and (len(e.path) > 1 or e.path in given.values()):
                continue
            name = e.path[0]
            if isinstance(name, _Root) or _given(e.path, given):
                events.append(e)
                continue
            here, there = value_of(name), around(name)
            if here is there:
                events.append(e)
            elif there is not MISSING:  # the name means something else here
                events.append(e._replace(path=(_Root(function, name), *e.path[1:])))
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
