"""Checks what a kernel is called with against the arguments that its dialect takes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

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
            if isinstance(part, NKIObject):
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
    if isinstance(value, (tuple, list)):
        yield from enumerate(value)
    elif isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, functools.partial):
        yield from _inside(value.args)
        yield from value.keywords.items()
    elif isinstance(value, NKIObject):
        yield from vars(value).items()


def is_nki_class(value: type) -> bool:
    """Tell whether a class has the one base that NKI allows: NKIObject, Enum or NamedTuple."""
    bases = value.__bases__
    if bases == (tuple,):  # a NamedTuple
        return hasattr(value, "_fields")
    return bases in ((NKIObject,), (Enum,))


def is_internal_object(value: Any) -> bool:
    """Tell whether a value, or its class, is one of NKI's own."""
    kind = value if isinstance(value, (type, FunctionType)) else type(value)
    return str(getattr(kind, "__module__", "")).partition(".")[0] == "nki_lab"


def refused(value: Any) -> tuple[str, str]:
    """Return the row of the language table that a value falls under, and what it is; two empty strings for none."""
    kind = type(value)
    if kind is int:
        large = not -(2**31) <= value < 2**31
        return ("large argument", "an integer of more than 32 bits") if large else ("", "")
    if kind in _PLAIN or is_internal_object(value):
        return "", ""
    if kind is list:
        return "list argument", "a list"
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return "dtype argument", "a dtype of NumPy"
    if isinstance(value, np.generic):
        return "number argument", f"a {kind.__name__} of NumPy"
    if kind is dict:
        plain = all(isinstance(k, str) for k in value)
        return ("", "") if plain else ("key argument", "a dict with keys that are not strings")
    if isinstance(value, (set, frozenset, bytes, bytearray, complex)):
        return "value argument", f"a {kind.__name__}"
    if kind is tuple or isinstance(value, type) or callable(value) or is_nki_class(kind):
        return "", ""
    return "object argument", f"a {kind.__name__}, which is not an NKIObject"
