"""Builds objects of the classes that kernels define.

NKI builds them by rules of its own (nki/get-started/nki-language-guide.rst, "Class Support"): with or without
`@dataclass`, a class that defines `__init__` is built by it; for any other class the initializer takes every field,
and a field that is not given has its default, or None where it has none.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, ClassVar, get_origin

from nki_lab.errors import ObjectFields, close_matches
from nki_lab.source import Blame


class _Construction(type):
    """Metaclass of NKIObject: calls a class's own `__init__`, or fills in the fields."""

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any):
        super().__init__(name, bases, space, **options)
        # Recorded before a decorator runs: @dataclass adds an `__init__` that NKI does not use.
        initializer = space.get("__init__")
        if "__dataclass_fields__" in space:  # @dataclass(slots=True) makes the class a second time
            code = getattr(initializer, "__code__", None)
            initializer = None if code is None or code.co_filename == "<string>" else initializer
        cls._own_init = initializer is not None
        cls._fields: dict[str, bool] | None = None

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if any(_defines_init(base) for base in cls._bases()):
            return super().__call__(*args, **kwargs)
        instance = cls.__new__(cls)  # type: ignore[call-overload]
        _fill(instance, args, kwargs)
        after = getattr(instance, "__post_init__", None)
        if after is not None:
            after()
        return instance

    def _bases(cls) -> tuple[type, ...]:
        return cls.__mro__[: cls.__mro__.index(NKIObject)]

    def fields(cls) -> dict[str, bool]:
        """Return the names an initializer takes; True for annotated ones."""
        if cls._fields is None:
            fields: dict[str, bool] = {}
            for base in reversed(cls._bases()):
                space = base.__dict__
                annotations = space.get("__annotations__", {})
                fields |= {
                    n: True for n, kind in annotations.items() if not _is_class_variable(kind)
                }
                for name, value in space.items():
                    is_declared = name.startswith("_") or name in annotations or name in fields
                    if not is_declared and _is_data(value):
                        fields[name] = False
            declared = getattr(cls, "__dataclass_fields__", {})
            cls._fields = {n: a for n, a in fields.items() if n not in declared or declared[n].init}
        return cls._fields


class NKIObject(metaclass=_Construction):
    """Base of the classes that kernels use for configurations and state.

    Fields are the annotated names of a class and its class attributes. Arguments by position follow the order of the
    annotated ones; a list, dict or set that is a default is copied for each object. `__post_init__` is called at the
    end. A class that defines `__init__` is built by that, also under `@dataclass`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _fill(self, args, kwargs)

    def __eq__(self, other: object) -> bool:
        """Compare what two objects of one class hold, as NKI does (language guide, "Enumerations")."""
        if type(self) is not type(other):
            return NotImplemented
        return vars(self) == vars(other)

    __hash__ = object.__hash__  # not by value: kernels change their objects

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def _defines_init(cls: type) -> bool:
    return cls._own_init if isinstance(cls, _Construction) else "__init__" in cls.__dict__


def _fill(instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    cls = type(instance)
    fields = cls.fields()
    positions = [name for name, annotated in fields.items() if annotated]
    if len(args) > len(positions):
        raise ObjectFields(
            f"{cls.__name__} takes {len(positions)} values by position, found {len(args)}",
            notes=[f"its fields in order: {', '.join(positions)}"] if positions else [],
            help="give the fields by name",
        )
    given = dict(zip(positions, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise ObjectFields(
                f"{cls.__name__}: the field `{name}` is given twice",
                blame=Blame.of(name),
                help="give it once, by position or by name",
            )
        # A class that declares nothing takes what it is given, as NKIObject(**kwargs) does.
        if fields and name not in fields:
            raise ObjectFields(
                f"{cls.__name__} has no field `{name}`",
                notes=[f"its fields: {', '.join(fields)}"],
                help=close_matches(name, fields),
                blame=Blame.of(name),
            )
        given[name] = value
    for name in fields:
        if name not in given:
            object.__setattr__(instance, name, _default(cls, name))
        else:
            object.__setattr__(instance, name, given.pop(name))
    for name, value in given.items():
        object.__setattr__(instance, name, value)


def _default(cls: type, name: str) -> Any:
    declared = getattr(cls, "__dataclass_fields__", {}).get(name)
    value = declared if declared is not None else getattr(cls, name, None)
    if isinstance(value, dataclasses.Field):
        if value.default_factory is not dataclasses.MISSING:
            return value.default_factory()
        value = None if value.default is dataclasses.MISSING else value.default
    return copy.copy(value) if isinstance(value, (list, dict, set)) else value


def _is_data(value: Any) -> bool:
    # Methods, properties and nested classes are none; an operator such as nl.add, which can be called, is.
    return not (isinstance(value, type) or hasattr(type(value), "__get__"))


def _is_class_variable(kind: Any) -> bool:
    if isinstance(kind, str):
        return kind.replace("typing.", "").startswith("ClassVar")
    return kind is ClassVar or get_origin(kind) is ClassVar
