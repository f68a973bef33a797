"""Runs a kernel with other values of the globals it reads, which nobody else sees.

That is how a kernel is varied, and how it keeps the modules of its dialect when another cell has imported those of
another one under the same names.

The functions that read a global are copied, with their own dictionary of globals. The author's dictionary stays as
it is, also for a cell that runs meanwhile in another thread. A global that something reads which cannot be copied (a
method, a closure, an object) is not changed at all: half of a kernel with another tile size would be wrong.
"""

from __future__ import annotations

import copy
import dis
import functools
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nki_lab.compiler.frontend import KernelObject, SourceKernel
from nki_lab.errors import MixedDialects

_MOST = 2000  # objects that are looked at
_PLAIN = (int, float, str)
_ATOMS = (int, float, complex, str, bytes, type(None), np.ndarray, np.generic)
_READ = ("LOAD_GLOBAL", "LOAD_NAME")
_LIBRARIES = ("nki_lab", "nki", "neuronxcc", "numpy", "builtins", "ml_dtypes", "torch", "jax")


def globals_read(source: SourceKernel) -> dict[str, Any]:
    """Return the numbers, texts and dtypes among the globals of a kernel and its functions that can be changed."""
    if not isinstance(source.function, FunctionType):
        return {}
    readers = _Readers(source.function)
    values: dict[str, Any] = {}
    refused = set(readers.elsewhere)
    for function in readers.functions:
        for name in sorted(_names(function.__code__)[0]):
            value = function.__globals__.get(name)
            if not isinstance(value, _PLAIN):
                continue
            first = values.setdefault(name, value)
            if type(first) is not type(value) or first != value:
                refused.add(name)  # two modules call different things by one name
    return {name: value for name, value in values.items() if name not in refused}


def with_globals(source: SourceKernel, changes: Mapping[str, Any]) -> SourceKernel:
    """Return a kernel that reads other values of some globals, in all functions it calls."""
    if not changes:
        return source
    assert isinstance(source.function, FunctionType)
    return replace(source, function=_Copies(changes).function(source.function))


def as_defined(source: SourceKernel) -> SourceKernel:
    """Return a kernel that reads the modules of its dialect, whatever other cells have imported under their names."""
    changes = source.displaced
    if not changes:
        return source
    function: Any = source.function
    plain = getattr(function, "__func__", function)
    elsewhere = sorted(changes.keys() & _Readers(plain, plain.__globals__).elsewhere)
    if elsewhere:
        raise MixedDialects(
            f"`{source.name}` is written in {source.dialect.title}, but another cell has imported another dialect as"
            f" `{elsewhere[0]}`, which something that the kernel calls reads, too",
            stack=(source.place,),
            notes=(
                "functions keep the modules that they were written with; methods and what decorators return do not",
            ),
            help=f"import the other dialect under another name than `{elsewhere[0]}`, and run its cell again",
        )
    changed: Any = _Copies(changes, plain.__globals__).function(plain)
    if plain is not function:
        changed = MethodType(changed, function.__self__)
    return replace(source, function=changed)


@lru_cache(maxsize=1024)
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the globals that a function reads, functions inside it included, and all its names with attributes."""
    read = {i.argval for i in dis.get_instructions(code) if i.opname in _READ}
    named = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_read, inner_named = _names(constant)
            read |= inner_read
            named |= inner_named
    return frozenset(read), frozenset(named)


class _Readers:
    """What a kernel reaches through globals.

    Attributes:
        functions: plain functions, which can be copied; the kernel's own first.
        elsewhere: names that something else reads as globals, or as attributes of modules; where there is a `home`,
            only as globals of that.
    """

    def __init__(self, function: FunctionType, home: Mapping[str, Any] | None = None) -> None:
        self._home = home
        self.functions: list[FunctionType] = []
        self.elsewhere: set[str] = set()
        self._seen: set[int] = set()
        self._look(function, copied=True)

    def _look(self, value: Any, copied: bool = False) -> None:
        """Look at a value; `copied` says that a copy of what reads it would take its place."""
        if id(value) in self._seen or len(self._seen) > _MOST or isinstance(value, _ATOMS):
            return
        self._seen.add(id(value))
        if isinstance(value, KernelObject):
            self._look(value.func, copied)
        elif isinstance(value, (list, tuple, dict)):
            for part in value.values() if isinstance(value, dict) else value:
                self._look(part)
        elif isinstance(value, (staticmethod, classmethod, MethodType)):
            self._look(value.__func__)
        elif isinstance(value, property):
            self._look((value.fget, value.fset))
        elif isinstance(value, functools.partial):
            self._look((value.func, value.args, value.keywords))
        elif _is_library(value):
            return
        elif isinstance(value, FunctionType):
            self._function(value, copied)
        elif isinstance(value, type):
            for kind in value.__mro__:
                if not _is_library(kind):
                    self._look(dict(vars(kind)))
        else:
            self._look((type(value), getattr(value, "__dict__", {})))

    def _function(self, function: FunctionType, copied: bool) -> None:
        read, named = _names(function.__code__)
        copied = copied and not _holds_functions(function)
        if copied:
            self.functions.append(function)
        elif self._home is None or self._home is function.__globals__:
            self.elsewhere |= read
        for cell in function.__closure__ or ():
            self._look(_contents(cell))
        for name in read & function.__globals__.keys():
            value = function.__globals__[name]
            if isinstance(value, ModuleType) and not _is_library_name(value.__name__):
                used = named & vars(value).keys()
                self.elsewhere |= used if self._home is None else set()
                self._look([vars(value)[name] for name in used])
            elif not isinstance(value, ModuleType):
                self._look(value, copied)


def _holds_functions(function: FunctionType) -> bool:
    """Tell whether a function keeps others in its closure, as what a decorator returns does."""
    return any(callable(_contents(cell)) for cell in function.__closure__ or ())


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _is_library(value: Any) -> bool:
    """Tell whether a function, a class or an object's class is of a library, which reads no global of a kernel."""
    owner = value if isinstance(value, (FunctionType, type)) else type(value)
    return _is_library_name(str(getattr(owner, "__module__", "")))


def _is_library_name(module: str) -> bool:
    first = module.partition(".")[0]
    return first in _LIBRARIES or (first in sys.stdlib_module_names and first != "__main__")


class _Copies:
    """Copies functions with changed globals, each once; where there is a `home`, only this has the changes."""

    def __init__(self, changes: Mapping[str, Any], home: Mapping[str, Any] | None = None) -> None:
        self._changes = changes
        self._home = home
        self._functions: dict[int, FunctionType] = {}
        self._scopes: dict[int, dict[str, Any]] = {}

    def function(self, function: FunctionType) -> FunctionType:
        copied = self._functions.get(id(function))
        if copied is not None:
            return copied
        scope = self._scopes.get(id(function.__globals__))
        if scope is None:
            scope = dict(function.__globals__)
            self._scopes[id(function.__globals__)] = scope
            if self._home is None or self._home is function.__globals__:
                scope |= {name: v for name, v in self._changes.items() if name in scope}
        changed = FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
        )
        changed.__kwdefaults__ = function.__kwdefaults__
        changed.__qualname__, changed.__module__ = function.__qualname__, function.__module__
        changed.__dict__.update(function.__dict__)
        self._functions[id(function)] = self._functions[id(changed)] = changed
        for name in _names(function.__code__)[0] & scope.keys():
            scope[name] = self._value(scope[name])
        return changed

    def _value(self, value: Any) -> Any:
        if isinstance(value, KernelObject) and isinstance(value.func, FunctionType):
            changed = copy.copy(value)
            changed.func = self._value(value.func)
            changed.source = replace(value.source, function=changed.func)
            return changed
        if isinstance(value, FunctionType) and not _is_library(value):
            return value if _holds_functions(value) else self.function(value)
        return value
