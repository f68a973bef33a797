"""A version of NKI, and a form: a way of writing that versions treat differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

#: What becomes of a form: nothing is said; a finding, since a compiler refuses it; a finding, since a later version
#: refuses it; an error.
ACCEPTED, PORTABILITY, DEPRECATED, ERROR = "accepted", "portability", "deprecation", "error"


@dataclass(frozen=True, eq=False)
class Version:
    """A version of NKI, by what changed in it.

    Attributes:
        name: such as "0.6".
        sdk: the release of the Neuron SDK that it came with.
        adds: official module, or class in one -> names that are new in it, separated by spaces.
        operators: names of nki.language that its tables of operators have, and that are functions only later.
        before: official name -> its signature in the version before, where that is another one.
        removes: official name -> its signature in the version before, and what to write instead.
        deprecates: official name -> what is the same, and is to be written instead from this version on.
        unseen: official name -> what no page that was seen says of it; it is refused, or assumed in its docstring.
        traced_only: official names that a parser of kernels refuses, where the version has one besides the tracer.
        plain_python: kernels are specialised by running them as Python; before, a parser read their text.
    """

    name: str
    sdk: str
    adds: Mapping[str, str] = field(default_factory=dict)
    operators: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    removes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    deprecates: Mapping[str, str] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)
    traced_only: frozenset[str] = frozenset()
    plain_python: bool = False

    def __repr__(self) -> str:
        return f"NKI {self.name}"

    @cached_property
    def number(self) -> tuple[int, ...]:
        """The version as numbers, which compare."""
        return number_of(self.name)

    @cached_property
    def added(self) -> frozenset[str]:
        """The official names that are new in it, such as "nki.language.fori_loop"."""
        return frozenset(f"{owner}.{n}" for owner, text in self.adds.items() for n in text.split())


def number_of(name: str) -> tuple[int, ...]:
    """Return the number of a version, which compares."""
    return tuple(map(int, name.split(".")))


@dataclass(frozen=True, eq=False)
class Form:
    """A way of writing that versions of NKI treat differently.

    Attributes:
        what: the form, as the subject of a sentence.
        instead: what to write instead.
        source: page of the official documentation.
        levels: version -> what becomes of the form from that version on; it is accepted before the first.
        code: of the error that it is where a version refuses it; kernels may be allowed it by this code.
        parser_takes: what refuses it is that kernels are run as Python; a parser that the version still has takes it.
    """

    what: str
    instead: str
    source: str
    levels: Mapping[str, str]
    code: str = ""
    parser_takes: bool = False

    def level(self, version: Version) -> str:
        """Return what becomes of the form in a version."""
        levels = [v for name, v in self.levels.items() if number_of(name) <= version.number]
        if self.parser_takes and not version.plain_python and levels[-1:] == [ERROR]:
            levels.pop()
        return levels[-1] if levels else ACCEPTED

    @property
    def refused_since(self) -> str:
        """The first version that refuses it, or ""."""
        return next((name for name, level in self.levels.items() if level == ERROR), "")

    def fate(self, level: str) -> str:
        """Return what a version does with the form, as the rest of a sentence."""
        if level == ERROR:
            return f"is refused since NKI {self.refused_since}"
        since = next((name for name, other in self.levels.items() if other == level), "")
        if level == DEPRECATED:
            return f"is deprecated since NKI {since}"
        return "runs on NKI's simulator; NKI's compiler refuses it"
