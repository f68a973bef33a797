"""Looks at objects of the author's, which may be proxies, mocks or lazy modules; what they raise is not passed on."""

from __future__ import annotations

import inspect
from typing import Any


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Tell whether an object is of a type, by its type alone: `isinstance` asks it for `__class__`, too."""
    return issubclass(type(value), kinds)


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of an object; None where it has none, or where the object raises."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None


def written_attribute(kind: type, name: str) -> Any:
    """Return an attribute of a class as its text has it; None where there is none, or its metaclass raises."""
    try:
        return inspect.getattr_static(kind, name, None)
    except Exception:
        return None


def module_of(value: Any) -> str:
    """Return the name of the module that an object says it is from, or ""."""
    name = attribute(value, "__module__")
    return name if type(name) is str else ""


def name_of(value: Any) -> str:
    """Return the name of a module or class, or "" where it says none."""
    name = attribute(value, "__name__")
    return name if type(name) is str else ""
