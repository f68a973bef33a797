"""Takes down everything that tracing a kernel can read, so that a second call knows that nothing has changed.

A trace runs the author's Python, which may read globals, closures, defaults, classes and objects. `snapshot` follows
all of them from the kernel's code and arguments and returns a value that is equal as long as they are. Where it meets
something whose value it cannot take down, such as a clock, a random generator, a file or a class written in C, or
something that a trace does besides, such as printing, there is no snapshot, and the kernel is traced in every call.
"""

from __future__ import annotations

import abc
import builtins
import dis
import enum
import functools
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np

from nki_lab.compiler.frontend import KernelObject
from nki_lab.dialects.dialect import codes_of
from nki_lab.dtypes import DType
from nki_lab.ir.definition.instruction import Definition
from nki_lab.isa.operators import Op

_MOST = 20_000  # objects that are looked at
_MOST_BYTES = 1 << 20  # of an array
#: Modules whose functions give the same for the same arguments, keep nothing, and show nothing.
_PURE = frozenset(
    ("nki_lab", "nki", "numpy", "ml_dtypes", "math", "cmath", "operator", "_operator", "itertools", "functools",
     "collections", "_collections_abc", "dataclasses", "enum", "typing", "types", "abc", "numbers", "__future__",
     "string", "copy", "contextlib", "builtins")
)  # fmt: skip
#: What NumPy reads besides: generators of random numbers, files, and how it treats errors.
_IMPURE = frozenset(("random", "fromfile", "load", "loadtxt", "genfromtxt", "memmap", "geterr"))
#: Built-in functions that read or do something besides.
_DOES_MORE = frozenset(
    ("print", "input", "open", "exec", "eval", "compile", "globals", "locals", "vars", "dir", "id", "breakpoint",
     "__import__", "delattr", "setattr")
)  # fmt: skip
_ATOMS = (int, str, bytes, bool, type(None), type(...), type(NotImplemented))
_FIXED = (
    DType, Op, Definition, np.dtype, np.ufunc, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType,
    WrapperDescriptorType,
)  # fmt: skip
#: Classes of Python with contents of their own, and how to read these whatever a subclass overrides.
_CONTENTS: dict[type, Callable[[Any], Any]] = {
    list: lambda v: tuple(list.__iter__(v)), tuple: lambda v: tuple(tuple.__iter__(v)),
    set: lambda v: tuple(set.__iter__(v)), frozenset: lambda v: tuple(frozenset.__iter__(v)),
    dict: lambda v: tuple(dict.items(v)), int: int.__int__, float: float.__float__, str: str.__str__,
}  # fmt: skip
_METACLASSES = (type, enum.EnumMeta, abc.ABCMeta)
#: What Python adds to a class, and what does not take part in what it does.
_OF_CLASSES = frozenset(
    ("__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl")
)
#: Attributes that lead to what is not taken down; of what they are may not be seen.
_LEADS_ON = _IMPURE | {"__globals__", "__builtins__", "globals", "vars", "eval", "exec"}
_ABSENT = object()
_WORD = object.__basicsize__ // 2
_READING = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_NAMING = (*_READING, "IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")


class _Unsure(Exception):
    """Something was met that cannot be taken down."""


class _Names(NamedTuple):
    """What the code of a function, and of those inside it, names.

    Attributes:
        read: (a global or built-in name, the attributes that follow it), such as ("np", ("linalg", "norm")).
        imported: modules that it imports.
        binds: it binds or deletes globals.
        leads_on: it reads an attribute of `_LEADS_ON` of something that has another name than a global one.
    """

    read: frozenset[tuple[str, tuple[str, ...]]]
    imported: frozenset[str]
    binds: bool
    leads_on: bool


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> _Names:
    read: set[tuple[str, tuple[str, ...]]] = set()
    imported: set[str] = set()
    binds = leads_on = False
    for inner in codes_of(code):
        name: str = ""
        chain: tuple[str, ...] = ()
        for i in (*dis.get_instructions(inner), None):
            if i is not None and name and i.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                chain = (*chain, i.argval)
                continue
            if name:
                read.add((name, chain))
            name, chain = "", ()
            if i is not None and i.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"):
                leads_on |= i.argval in _LEADS_ON
            if i is None or i.opname not in _NAMING:
                continue
            if i.opname == "IMPORT_NAME":
                imported.add(i.argval)
            elif i.opname in _READING:
                name = i.argval
            else:
                binds = True
    return _Names(frozenset(read), frozenset(imported), binds, leads_on)


def snapshot(kernel: KernelObject, arguments: Mapping[str, Any]) -> Any:
    """Return what is equal while a trace of `kernel` for these arguments reads the same; None where nothing tells.

    Args:
        kernel: the kernel.
        arguments: parameter -> value; of arrays a trace sees shape and dtype only.
    """
    try:
        return _Snapshot().of_call(kernel, arguments)
    except Exception:  # `_Unsure`, or what an author's object raises where it is looked at
        return None


class _Snapshot:
    """The objects met for one snapshot.

    An identity tells which object is meant only as long as that lives. Those in the snapshot live as long as it does,
    so it must not name the kernel, which holds it; the others live until it is made.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._met: list[Any] = []
        self._meant: list[Any] = []

    def of_call(self, kernel: KernelObject, arguments: Mapping[str, Any]) -> Any:
        values = tuple((name, self._argument(value)) for name, value in arguments.items())
        return _Taken((self._of(kernel), values), self._meant)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim:
            return value.shape, value.dtype
        if type(value) in (list, tuple):
            return type(value), tuple(map(self._argument, value))
        if type(value) is dict:
            return dict, tuple((self._of(k), self._argument(v)) for k, v in value.items())
        return self._of(value)

    def _of(self, value: Any) -> Any:
        kind = type(value)
        if kind in (float, complex):
            return kind, repr(value)  # NaN is NaN, and 0.0 is not -0.0
        if kind in _ATOMS:
            return kind, value
        if kind in (range, slice):  # which are equal where what they were made of is not
            return kind, *map(self._of, (value.start, value.stop, value.step))
        number = self._numbers.get(id(value))
        if number is not None:
            return "again", number
        if len(self._numbers) >= _MOST:
            raise _Unsure
        self._numbers[id(value)] = len(self._numbers)
        self._met.append(value)
        return self._anew(value, kind)

    def _id(self, value: Any) -> int:
        self._meant.append(value)
        return id(value)

    def _anew(self, value: Any, kind: type) -> Any:
        """Return what is taken down of an object that is met for the first time."""
        if kind is np.ndarray or issubclass(kind, np.generic):
            if value.nbytes > _MOST_BYTES or value.dtype.hasobject:
                raise _Unsure
            return kind, value.dtype, value.shape, value.tobytes()
        if issubclass(kind, KernelObject):
            source = value.source
            place = source.text, source.filename, source.first_line, source.nki
            choices = self._of(value.choices_made), self._of(source.configuration)
            return place, self._of(value.func), choices
        if kind in (list, tuple, set, frozenset):
            return kind, tuple(map(self._of, value))
        if kind in (dict, MappingProxyType):
            return kind, tuple((self._of(k), self._of(v)) for k, v in value.items())
        if kind is np.ufunc and vars(np).get(value.__name__) is not value:
            raise _Unsure  # around a function of the author's
        if issubclass(kind, _FIXED):
            return self._id(value)
        if issubclass(kind, enum.Enum):
            return self._id(value), self._of(kind), self._of(vars(value))
        if issubclass(kind, ModuleType):
            return self._module(value)
        if issubclass(kind, type):
            return self._class(value)
        if kind is FunctionType:
            return self._function(value)
        if issubclass(kind, BuiltinFunctionType):
            return self._builtin(value)
        if issubclass(kind, (staticmethod, classmethod, MethodType)):
            return kind, self._of(value.__func__), self._of(getattr(value, "__self__", None))
        if kind is property:
            return kind, *map(self._of, (value.fget, value.fset, value.fdel))
        if kind is functools.partial:
            return kind, self._of(value.func), self._of(value.args), self._of(value.keywords)
        return self._object(value, kind)

    def _object(self, value: Any, kind: type) -> Any:
        """Take down an object of a class written in Python: its class, its attributes and what it contains."""
        if not _is_python(kind):
            raise _Unsure
        contents = tuple(self._of(_CONTENTS[b](value)) for b in kind.__mro__ if b in _CONTENTS)
        held = [
            (slot, self._of(slot.__get__(value)))
            for base in kind.__mro__
            for slot in _slots(base)
            if _is_set(slot, value)
        ]
        with_dict = any("__dict__" in vars(base) for base in kind.__mro__)
        held += self._of(object.__getattribute__(value, "__dict__")) if with_dict else ()
        return self._of(kind), contents, tuple(held)

    def _class(self, value: type) -> Any:
        if _is_pure(value.__module__):
            return self._id(value)
        if type(value) not in _METACLASSES or not _is_python(value):
            raise _Unsure
        inside = {n: v for n, v in vars(value).items() if n not in _OF_CLASSES}
        above = tuple(map(self._of, value.__bases__))
        return self._id(value), value.__name__, self._of(inside), above

    def _module(self, value: ModuleType) -> Any:
        if not _is_pure(value.__name__):
            raise _Unsure  # who reads what of it is not looked for; `_read` looks at what follows its name
        return self._id(value)

    def _builtin(self, value: Any) -> Any:
        owner = value.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            return value.__name__, self._of(owner)
        if value.__name__ in _DOES_MORE or not _is_pure(value.__module__ or "", value.__name__):
            raise _Unsure
        return self._id(value)

    def _function(self, function: FunctionType) -> Any:
        home = function.__globals__.get("__name__", "")
        pure = _is_pure(home)
        if pure and not _is_pure(home, function.__name__):
            raise _Unsure
        if pure and _is_pure(function.__module__ or "", function.__name__):
            return self._id(function)
        name = function.__name__, function.__qualname__, function.__doc__
        given = name, function.__defaults__, function.__kwdefaults__, vars(function)
        held = self._of(given), tuple(map(self._cell, function.__closure__ or ()))
        if pure:  # a library's, around one of the author's
            return self._id(function.__code__), held
        names = _names(function.__code__)
        if names.binds or names.leads_on or not all(map(_is_pure, names.imported)):
            raise _Unsure
        read = tuple(self._read(function, *name) for name in sorted(names.read))
        return self._id(function.__code__), held, read

    def _cell(self, cell: CellType) -> Any:
        try:
            value = cell.cell_contents
        except ValueError:
            return _ABSENT
        return self._of(value)

    def _read(self, function: FunctionType, name: str, attributes: tuple[str, ...]) -> Any:
        """Take down what a function reads by a name and the attributes that follow it."""
        value = function.__globals__.get(name, _ABSENT)
        if value is _ABSENT:
            value = getattr(builtins, name, _ABSENT)
        for n, attribute in enumerate(attributes):
            if not isinstance(value, ModuleType):
                if _LEADS_ON.intersection(attributes[n:]):
                    raise _Unsure
                break
            if attribute not in vars(value):
                raise _Unsure  # the module makes it when it is asked for
            value = vars(value)[attribute]
        return name if value is _ABSENT else self._of(value)


def _is_pure(module: str, name: str = "") -> bool:
    first, _, inner = module.partition(".")
    return first in _PURE and not (first == "numpy" and _IMPURE & {name, inner.partition(".")[0]})


def _is_python(kind: type) -> bool:
    """Tell whether nothing of an object of a class is held where only code in C can see it."""
    seen = next(base for base in kind.__mro__ if base in _CONTENTS or base is object)
    words = sum(len(_slots(base)) for base in kind.__mro__)
    others = sum(n in vars(base) for base in kind.__mro__ for n in ("__dict__", "__weakref__"))
    spare = kind.__basicsize__ - seen.__basicsize__ - words * _WORD
    return 0 <= spare <= others * _WORD and all(
        base in _CONTENTS
        or base is object
        or type(vars(base).get("__new__", _ABSENT)) in (object, staticmethod, FunctionType)
        for base in kind.__mro__
    )


def _slots(kind: type) -> list[MemberDescriptorType]:
    if kind in _CONTENTS or "__slots__" not in vars(kind):
        return []
    return [value for value in vars(kind).values() if isinstance(value, MemberDescriptorType)]


def _is_set(slot: MemberDescriptorType, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


class _Taken:
    """A snapshot: equal to another one whose values are equal."""

    def __init__(self, values: Any, meant: list[Any]) -> None:
        self.values = values
        self._meant = meant  # the objects whose identities are in `values`

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Taken) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]
