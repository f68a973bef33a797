"""Checks that a kernel, with all it calls, is written in the Python of its dialect.

The text is read of the kernel, of every function that a call stack of the trace showed, and of the author's functions
and classes that these name: NKI's parser reads them all. A function is looked at once, whatever it emits.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import import_module
from types import CodeType, FunctionType, ModuleType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from nki_lab.compiler.check_arguments import is_internal_object, is_nki_class, parts_of, refused
from nki_lab.compiler.foreign_objects import attribute, is_a, module_of, name_of, written_attribute
from nki_lab.compiler.frontend import SourceKernel, unknown_names
from nki_lab.compiler.function_text import FunctionText, text_of
from nki_lab.dialects import NKI, Dialect, dialects_of
from nki_lab.dialects.construct import ACCEPTED, ERROR, Construct, Subset
from nki_lab.errors import MixedDialects, Needs, NkiError, NotAllowed, UnknownName, joined
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.building.findings import not_yet
from nki_lab.ir.program.nodes import Finding
from nki_lab.source import (
    Span,
    Stack,
    is_cell,
    is_hidden,
    is_internal,
    is_of_library,
    is_of_package,
    is_prebuilt,
    stack_of_traceback,
)
from nki_lab.versions import VERSIONS, Version, begun_with, named_since

Scope = Mapping[str, Any]
_DECORATORS = 8  # looked through, one in another
_ARRAYS = ("numpy", "ml_dtypes", "scipy", "torch", "jax")


@dataclass(frozen=True, eq=False)
class _Function:
    """A function to look at: `called` says that it certainly was called, from the places `callers`."""

    text: FunctionText
    code: CodeType
    scope: Scope
    callers: Stack
    version: Version
    called: bool = True

    @cached_property
    def dialects(self) -> dict[Dialect, str]:
        """The dialects its names come from, each with the first such name."""
        return dialects_of(self.code, self.scope)

    @property
    def subset(self) -> Subset:
        """The Python that its dialect has."""
        return next(iter(self.dialects), NKI).subset

    def row(self, key: str) -> Construct | None:
        """Return the row of its dialect's language table; None for what needs none."""
        if key == "yield" and (self.callers or not self.called):
            key = "yield in a helper"
        return self.subset.row(key, self.version)


def errors_of(source: SourceKernel, version: Version) -> list[NkiError]:
    """Return an error for everything in the kernel's own text that no front end of its version compiles."""
    source.restore_lines()
    function = _kernel(source, version)
    if function is None:
        return list(unknown_names(source.code, source.function.__globals__))
    return list(_errors(function))


def remarks_of(
    source: SourceKernel, version: Version, is_kernel: bool = True
) -> tuple[list[NkiError], list[Finding]]:
    """Return what the text of a function alone shows: errors, and findings about its constructs.

    Errors are those of `errors_of`, and names that modules of NKI do not have, wherever they stand. What a kernel may
    not do, but a function that it calls may, is reported only for a kernel.
    """
    function = _kernel(source, version)
    if function is None:
        return errors_of(source, version), []
    function = replace(function, called=is_kernel)
    errors = [*_errors(function), *_unknown_members(function)]
    errors += _newer(list(_dated_names(function)), version)
    grouped: dict[str, list[Any]] = {}
    for key, node in function.text.facts.constructs:
        grouped.setdefault(key, []).append(node)
    findings = []
    for key, nodes in grouped.items():
        row = function.row(key)
        if row is not None and row.level not in (ERROR, ACCEPTED):
            message, places = _said(row, "", function.text, nodes)
            findings.append(Finding("portability", message, (places[0],), row.instead))
    return errors, findings


def check_text(source: SourceKernel, version: Version) -> None:
    """Raise for everything in the kernel's own text that no front end of its version compiles, all at once."""
    errors = errors_of(source, version)
    if errors:
        raise joined(errors)


def check_called(
    source: SourceKernel, builder: Builder, bound: Mapping[str, Any], ended: NkiError | None = None
) -> list[NkiError]:
    """Return the errors of the functions that the traced kernel called, and record the findings of all.

    Errors in functions that the text only names, or that are in the arguments `bound`, are findings: they may never
    be called. Where an error `ended` the trace, names that modules of NKI do not have are errors also behind that
    place; in a kernel that was traced to its end, what it asks for in a branch not taken is its own affair.
    """
    errors: list[NkiError] = []
    dated: list[_Dated] = []
    classes: dict[type, tuple[str, Stack]] = {}
    dialect = source.dialect
    for function in _reached(source, builder, bound):
        if function.called and function.code is not source.code:
            if function.dialects and dialect not in function.dialects:
                if is_prebuilt(function.code) and _is_called_by_prebuilt(function):
                    continue  # under its official name, with tensors of its own dialect
                # What follows from a call between dialects helps nobody.
                return [_another_dialect(function, source)]
            errors += _errors(function)
        if function.called:
            dated += _dated_names(function)
        if ended is not None and function.called:
            errors += _unknown_members(function)
        for row, subject, nodes in _grouped(function):
            if row.level == ERROR and function.called:
                continue
            _find(builder, row, subject, function.text, nodes, function.callers)
        for kind, node in _classes_of(function):
            callers = (function.text.place(node), *function.callers)
            classes.setdefault(kind, (function.text.filename, callers))
    errors += _newer([d for d in dated if _is_at(d, ended)], builder.version)
    for part in _in(bound):
        classes.setdefault(type(part), (source.filename, (source.place,)))
    for kind, (near, callers) in classes.items():
        text = text_of_class(kind, near) if _is_own_class(kind) else None
        for key, node in () if text is None else constructs_of_class(text.node):
            assert text is not None
            if construct := dialect.subset.row(key, builder.version):
                _find(builder, construct, "", text, [node], callers)
    return errors


def _find(
    builder: Builder,
    row: Construct,
    subject: str,
    text: FunctionText,
    nodes: list[Any],
    callers: Stack,
) -> None:
    message, places = _said(row, subject, text, nodes)
    builder.find("portability", message, row.instead, stack=(places[0], *callers))


def _said(
    row: Construct, subject: str, text: FunctionText, nodes: list[Any]
) -> tuple[str, list[Span]]:
    """Return the message about a construct, and its places."""
    places = [text.place(node) for node in nodes]
    also = sorted({p.line for p in places} - {places[0].line})
    where = f" (also in line{'s' * (len(also) > 1)} {', '.join(map(str, also))})"
    return row.message(subject) + (where if also else ""), places


def meet(builder: Builder, source: SourceKernel, tb: TracebackType | None) -> None:
    """Note the functions that an exception went through: they were called, whatever they emitted."""
    stack = stack_of_traceback(tb, source.code)
    scopes = {}
    while tb is not None:
        scopes[tb.tb_frame.f_code] = tb.tb_frame.f_globals
        tb = tb.tb_next
    for depth, place in enumerate(stack):
        if isinstance(place, tuple):
            builder.met.setdefault(place[0], (scopes[place[0]], stack[depth + 1 :]))


# -- which functions ------------------------------------------------------------------------------------------------


def _kernel(source: SourceKernel, version: Version) -> _Function | None:
    text = source.function_text
    if text is None:
        return None
    return _Function(text, source.code, source.scope, (), version)


def _reached(
    source: SourceKernel, builder: Builder, bound: Mapping[str, Any]
) -> Iterator[_Function]:
    """Yield the kernel, the functions it called, those that their texts name, and the arguments, each once."""
    ranges: dict[str, list[FunctionText]] = {}

    def is_new(code: CodeType) -> bool:
        return not any(text.holds(code) for text in ranges.get(code.co_filename, ()))

    waiting: list[_Function] = []
    version = builder.version
    kernel = _kernel(source, version)
    if kernel is not None:
        waiting.append(kernel)
    for code, (scope, callers) in builder.met.items():
        if code is source.code or is_hidden(code):
            continue
        text = text_of(code)
        if text is not None:
            waiting.append(_Function(text, code, scope, callers, version))
    for part in _in(bound):
        for reached in _functions_of(part):
            if _is_authors(reached.__code__.co_filename) and (text := text_of(reached.__code__)):
                at = (source.place,)
                waiting.append(
                    _Function(
                        text, reached.__code__, reached.__globals__, at, version, called=False
                    )
                )
    # A function inside another one stands in that one's text: look at outer ones first.
    waiting.sort(key=lambda f: f.text is not (kernel and kernel.text) and f.code.co_firstlineno)
    while waiting:
        function = waiting.pop(0)
        if not is_new(function.code):
            continue
        ranges.setdefault(function.text.filename, []).append(function.text)
        yield function
        for code, names, node in _named(function):
            if is_new(code) and (text := text_of(code)) is not None:
                callers = (function.text.place(node), *function.callers)
                waiting.append(_Function(text, code, names, callers, version, called=False))


def _in(bound: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what may bring functions and classes into a kernel: its arguments, and all that is in them."""
    for name, value in bound.items():
        for _, part in parts_of(name, value):
            yield part


def _named(function: _Function) -> Iterator[tuple[CodeType, Scope, Any]]:
    """Yield the author's functions that a text names: their code, global names, and where they are named."""
    values = [(_value(n, function.scope), at) for n, at in function.text.facts.reads.items()]
    for value, node in (*values, *_classes_of(function)):
        for found in _functions_of(value):
            code = found.__code__
            if not is_internal(code) and _is_authors(code.co_filename):
                yield code, found.__globals__, node


def _classes_of(function: _Function) -> Iterator[tuple[type, Any]]:
    """Yield the classes that a text names, alone or before a dot, with where it does."""
    for name, node in function.text.facts.reads.items():
        parts = name.split(".")
        for n in range(1, len(parts) + 1):
            value = _value(".".join(parts[:n]), function.scope)
            if is_a(value, type):
                yield value, node
                break


def _functions_of(value: Any) -> Iterator[FunctionType]:
    while is_a(value, functools.partial):
        value = value.func
    value = getattr(value, "func", value) if is_internal_object(value) else value  # a kernel
    if is_a(value, type):
        if not is_internal_object(value):
            for member in (attribute(value, "__dict__") or {}).values():
                yield from _functions_in(member)
    else:
        yield from _functions_in(value)


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield a function or method as it was written, and what decorators made of it."""
    if is_a(value, property):
        for part in (value.fget, value.fset):
            yield from _functions_in(part)
        return
    if is_a(value, (staticmethod, classmethod)):
        value = value.__func__
    elif is_a(value, functools.cached_property):
        value = value.func
    for _ in range(_DECORATORS):
        if is_a(value, FunctionType) and value.__code__.co_filename != "<string>":
            yield value
        value = attribute(value, "__wrapped__")


def _value(name: str, scope: Scope) -> Any:
    """Return what a dotted name stands for, without running any code of the author's; None if it is unknown."""
    first, *rest = name.split(".")
    value: Any = scope.get(first)
    for part in rest:
        if is_a(value, ModuleType):
            value = (attribute(value, "__dict__") or {}).get(part)
        elif is_a(value, type):
            value = written_attribute(value, part)
        else:
            return None
    return value


@functools.lru_cache(maxsize=4096)
def _is_authors(filename: str) -> bool:
    return not (is_of_library(filename) or is_of_package(filename) or filename == "<string>")


# -- what is in them ------------------------------------------------------------------------------------------------


def _errors(function: _Function) -> Iterator[NkiError]:
    scope = function.scope
    reads = {name.partition(".")[0] for name in function.text.facts.reads}
    # The names are first looked for in the text, which is cheap; the code says exactly which are global.
    if any(name not in scope and not hasattr(builtins, name) for name in reads):
        yield from unknown_names(function.code, scope, function.callers)
    if len(function.dialects) > 1:
        named = " and ".join(f"`{name}` of {d.title}" for d, name in function.dialects.items())
        yield MixedDialects(
            f"`{function.code.co_name}` uses two dialects: {named}",
            stack=(function.text.place(function.text.node), *function.callers),
            help="take all of its names from the modules of one dialect",
        )
    for key, node in function.text.facts.constructs:
        row = function.row(key)
        if row is not None and row.level == ERROR:
            yield NotAllowed(
                row.message(),
                stack=(function.text.place(node), *function.callers),
                help=row.instead,
                needs=_first_to_take(row, function),
            )


def _first_to_take(row: Construct, function: _Function) -> Needs | None:
    """Return what an error needs of a construct that later versions take."""
    later = [v for v in VERSIONS if v.number > function.version.number]
    taking = [v for v in later if row.level_in(v) != ERROR]
    return begun_with(row.what, taking[0].name) if taking else None


class _Dated(NamedTuple):
    """A name of NKI in a text, with the version that it is new in."""

    since: Version
    name: str
    stack: Stack


def _dated_names(function: _Function) -> Iterator[_Dated]:
    """Yield the names of NKI in a text that are newer than the first version."""
    for name, node in function.text.facts.reads.items():
        since = named_since(_official(name, function.scope))
        if since is not VERSIONS[0]:
            yield _Dated(since, name, (function.text.place(node), *function.callers))


def _official(name: str, scope: Scope) -> str:
    """Return the official name that a dotted name stands for; "" where it is none of NKI's."""
    first, *rest = name.split(".")
    value, official = scope.get(first), ""
    if is_a(value, ModuleType):
        official = _HOMES.get(name_of(value), "")
    elif value is not None:
        official = _by_identity().get(id(value), "")
    return ".".join([official, *rest]) if official else ""


_HOMES = {home: name for name, home in NKI.modules.items()}


@functools.cache
def _by_identity() -> dict[int, str]:
    """Return the official names of what is newer than the first version, by the identity of what they stand for."""
    names: dict[int, str] = {}
    for official in (n for version in VERSIONS for n in version.added):
        module, _, name = official.rpartition(".")
        value = (
            vars(import_module(NKI.modules[module])).get(name) if module in NKI.modules else None
        )
        if value is not None:
            names[id(value)] = official
    return names


def newer_names(version: Version) -> Mapping[int, str]:
    """Return the official names of what a version refuses by its name, by the identity of what they stand for."""
    refused = frozenset() if version.plain_python else version.traced_only
    return {
        key: n
        for key, n in _by_identity().items()
        if named_since(n).number > version.number or n in refused
    }


def _is_at(dated: _Dated, error: NkiError | None) -> bool:
    """Tell whether a name stands in the line where a missing name ended the trace; others may never be asked for."""
    if not isinstance(error, UnknownName) or error.span is None:
        return False
    place = Span.of(dated.stack[0])
    return (place.filename, place.line) == (error.span.filename, error.span.line)


def _newer(dated: list[_Dated], version: Version) -> Iterator[UnknownName]:
    """Yield an error for each name that a version does not have yet."""
    for since, name, stack in dated:
        if since.number > version.number:
            yield not_yet(name, since, version, stack)


def _unknown_members(function: _Function) -> Iterator[NkiError]:
    for name, node in function.text.facts.reads.items():
        module, _, member = name.rpartition(".")
        holder = _value(module, function.scope) if module else None
        where = name_of(holder) if is_a(holder, ModuleType) else ""
        if not where.startswith("nki_lab.") and not (
            is_a(holder, type) and is_internal_object(holder)
        ):
            continue
        try:
            getattr(holder, member)
        except UnknownName as error:
            error.stack = (function.text.place(node), *function.callers)
            yield error
        except AttributeError:  # of a module that is not part of NKI's surface
            continue


def _another_dialect(function: _Function, source: SourceKernel) -> MixedDialects:
    dialect, name = next(iter(function.dialects.items()))
    return MixedDialects(
        f"`{function.code.co_name}` is written in {dialect.title}, and the kernel {source.name} in"
        f" {source.dialect.title}: `{name}` belongs to the former",
        stack=function.callers or (source.place,),
        help="write a kernel and everything it calls in one dialect",
    )


def _is_called_by_prebuilt(function: _Function) -> bool:
    caller = function.callers[0] if function.callers else None
    return isinstance(caller, tuple) and is_prebuilt(caller[0])


def _grouped(function: _Function) -> Iterator[tuple[Construct, str, list[Any]]]:
    """Yield each construct that NKI's parser refuses once, with all of its nodes."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for key, node in function.text.facts.constructs:
        groups.setdefault((key, ""), []).append(node)
    for key, subject, node in _by_name(function):
        groups.setdefault((key, subject), []).append(node)
    for (key, subject), nodes in groups.items():
        if (row := function.row(key)) is not None:
            yield row, subject, nodes


def _by_name(function: _Function) -> Iterator[tuple[str, str, Any]]:
    """Yield what only the values of global names show."""
    facts, scope = function.text.facts, function.scope
    subset = function.subset
    local = function.code.co_freevars
    called = {name for name, _ in facts.calls}
    read = ((name, node) for name, node in facts.reads.items() if name not in called)
    for name, node in (*facts.calls, *read):
        if (
            name in facts.reads
            and name not in scope
            and name not in local
            and _is_builtin(name, subset)
        ):
            yield "builtin" if name in subset.looping else "other builtin", f"`{name}`", node
    for name, node in facts.reads.items():
        if _is_other_math(name, scope, subset):
            yield "other math", f"`{name}`", node
    for name, node in facts.calls:
        if name in facts.reads and _is_library(name, scope):
            yield "library", f"`{name}`", node
    for value, node in _classes_of(function):
        if not is_nki_class(value) and _is_own_class(value):
            what = (
                f"class `{_name_of_class(value)}`, whose base is not NKIObject, Enum or NamedTuple"
            )
            yield "class base", what, node
    for name, node in _globals(function):
        key, what = refused(scope[name])
        if key and key != "list argument":
            yield key, f"`{name}`, {what}", node
    for name, node in facts.decorators:
        is_exempt = name.split(".")[-1] in subset.decorators or is_internal_object(
            _value(name, scope)
        )
        if not is_exempt:
            yield "decorator", f"decorator `{name}`", node


def _globals(function: _Function) -> Iterator[tuple[str, Any]]:
    """Yield the values of the module that a text reads, each once."""
    seen = set()
    for name, node in function.text.facts.reads.items():
        first = name.partition(".")[0]
        if first in function.scope and first not in seen:
            seen.add(first)
            yield first, node


def _is_other_math(name: str, scope: Scope, subset: Subset) -> bool:
    module, _, member = name.rpartition(".")
    if module:
        return _value(module, scope) is math and member not in subset.math
    value = _value(name, scope)
    return module_of(value) == "math" and value.__name__ not in subset.math


def _is_library(name: str, scope: Scope) -> bool:
    """Tell whether a name is one of NumPy, PyTorch or Python's library, by its module or by where it comes from."""
    first, _, rest = name.partition(".")
    value, holder = _value(name, scope), _value(first, scope)
    if value is functools.partial or value is np.asarray:  # which shows values, in a debug run
        return False
    if rest and is_a(holder, ModuleType):
        module = name_of(holder)
    elif rest:
        return False  # a method of the author's object
    else:
        module = module_of(value)
    package = module.partition(".")[0]
    if package in ("math", "builtins", "typing", "__main__"):
        return False
    return package in _ARRAYS or package in sys.stdlib_module_names


def _is_builtin(name: str, subset: Subset) -> bool:
    value = getattr(builtins, name, None)
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    return callable(value) and not is_error and name not in subset.builtins


def _is_own_class(value: type) -> bool:
    """Tell whether a class was written with the kernels: not by Python, a package or nki_lab."""
    if is_internal_object(value) or issubclass(value, BaseException):
        return False
    module = module_of(value)
    if module.partition(".")[0] in sys.stdlib_module_names:
        return False
    filename = getattr(sys.modules.get(module), "__file__", None) or ""
    return _is_authors(filename)


# -- the text of a class ----------------------------------------------------------------------------------------------

_PLAIN = (ast.Pass, ast.Assert, ast.FunctionDef, ast.AsyncFunctionDef)


def text_of_class(kind: type, near: str) -> FunctionText | None:
    """Return the text of a class; None where there is none, or it is made by a call.

    Args:
        kind: the class.
        near: file or cell of a text that names it, where it may stand if its methods do not tell.
    """
    name = _name_of_class(kind)
    for filename in (*_files(kind), near, *_cells(kind)):
        lines = linecache.getlines(filename)
        node = _classes("".join(lines)).get(name)
        if node is not None:
            return FunctionText(node, [x.rstrip("\n") for x in lines], filename, 1, name)
    return None


def _name_of_class(kind: type) -> str:
    return str(type.__dict__["__qualname__"].__get__(kind)).split(".")[-1]


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
    for member in (attribute(kind, "__dict__") or {}).values():
        member = attribute(member, "__func__") or member
        if is_a(member, FunctionType) and not member.__code__.co_filename.startswith("<"):
            yield member.__code__.co_filename
    filename = getattr(sys.modules.get(module_of(kind)), "__file__", None)
    if filename:
        yield filename


def _cells(kind: type) -> list[str]:
    """Return the cells a class of a notebook may stand in, the latest first."""
    if module_of(kind) != "__main__":
        return []
    return [name for name in reversed(linecache.cache) if is_cell(name)]


@lru_cache(maxsize=64)
def _classes(text: str) -> dict[str, ast.ClassDef]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
