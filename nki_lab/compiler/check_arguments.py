"""Checks what a kernel is called with against the arguments that its dialect takes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from nki_lab.compiler.foreign_objects import is_a, module_of, name_of
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.ir.building.builder import Builder
from nki_lab.language.nkiobject import NKIObject

_PLAIN = (type(None), bool, float, str, np.ndarray, slice, type(...), FunctionType, ModuleType)
_DEEPEST = 20


def find_arguments(builder: Builder, source: SourceKernel, bound: Mapping[str, Any]) -> None:
    """Record what NKI's compiler does not take as an argument of a kernel, or inside one."""
    subset = source.dialect.subset
    for name, value in bound.items():
        kept: list[str] = []  # objects, whose fields may be lists
        for path, part in parts_of(name, value):
            if is_a(part, NKIObject):
                kept.append(f"{path}.")
            key, subject = refused(part)
            if key and not (key == "list argument" and path.startswith(tuple(kept))):
                row = subset.row(key, builder.version)
                if row is None:
                    continue
                message = row.message(f"argument `{path}` of {source.name}, {subject}")
                builder.find("portability", message, row.instead, stack=(source.place,))


def parts_of(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield an argument and everything in its containers and objects, with the path to it."""
    yield name, value
    if depth == _DEEPEST:
        return
    for key, part in _inside(value):
        yield from parts_of(f"{name}.{key}", part, depth + 1)


def _inside(value: Any) -> Iterator[tuple[Any, Any]]:
    if is_a(value, (tuple, list)):
        yield from enumerate(value)
    elif is_a(value, dict):
        yield from value.items()
    elif is_a(value, functools.partial):
        yield from _inside(value.args)
        yield from value.keywords.items()
    elif is_a(value, NKIObject):
        yield from vars(value).items()


def is_nki_class(value: type) -> bool:
    """Tell whether a class has the one base that NKI allows: NKIObject, Enum or NamedTuple."""
    (base, *others) = type.__dict__["__bases__"].__get__(value) or (object,)
    if base is tuple:
        return not others and hasattr(value, "_fields")  # a NamedTuple
    return not others and (base is NKIObject or base is Enum)


def is_internal_object(value: Any) -> bool:
    """Tell whether a value, or its class, is one of NKI's own."""
    kind = value if is_a(value, (type, FunctionType)) else type(value)
    return module_of(kind).partition(".")[0] == "nki_lab"


def refused(value: Any) -> tuple[str, str]:
    """Return the row of the language table that a value falls under, and what it is; two empty strings for none."""
    kind = type(value)
    if kind is int:
        large = not -(2**31) <= value < 2**31
        return ("large argument", "an integer of more than 32 bits") if large else ("", "")
    if any(kind is plain for plain in _PLAIN) or is_internal_object(value):
        return "", ""
    if kind is list:
        return "list argument", "a list"
    if is_a(value, np.dtype) or (is_a(value, type) and issubclass(value, np.generic)):
        return "dtype argument", "a dtype of NumPy"
    if is_a(value, np.generic):
        return "number argument", f"a {kind.__name__} of NumPy"
    if kind is dict:
        plain = all(is_a(k, str) for k in value)
        return ("", "") if plain else ("key argument", "a dict with keys that are not strings")
    if is_a(value, (set, frozenset, bytes, bytearray, complex)):
        return "value argument", f"a {kind.__name__}"
    if kind is tuple or is_a(value, type) or callable(value) or is_nki_class(kind):
        return "", ""
    return "object argument", f"a {name_of(kind) or 'value'}, which is not an NKIObject"
