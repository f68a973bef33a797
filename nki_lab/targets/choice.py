"""The class of named choices such as `nisa.engine` and `nl.MemoryRegion`."""

from __future__ import annotations

from enum import Enum, EnumMeta
from typing import Any

from nki_lab.errors import UnknownName, close_matches


class _Named(EnumMeta):
    """Answers a member that does not exist with those that do."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        members = list(cls.__members__)
        raise UnknownName(
            f"{cls.official_name()} has no `{name}`",
            notes=(f"members: {', '.join(members)}",),
            help=close_matches(name, members),
        )

    def official_name(cls) -> str:
        """Return the name kernels write the class by."""
        return f"nisa.{cls.__name__}"


class NamedChoice(Enum, metaclass=_Named):
    """Base of the named choices; each of them prints as kernels write it."""

    def __repr__(self) -> str:
        return f"{type(self).official_name()}.{self.name}"

    __hash__ = object.__hash__  # members are singletons; Enum's hash costs a Python call
