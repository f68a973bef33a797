"""The names and signatures of the official package, and how many of them can be used here.

`official_api.json` holds names, parameters, defaults and members: of NKI 0.6.0 from its stubs
(nki/api/nki/*/__init__.py), and of 0.7.0 from those of its pages that were seen (nki/api/generated/*.html).
Nothing here trusts our own lists: a name counts when the module has it and its signature is the official one.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from nki_lab.dialects import NKI
from nki_lab.errors import NkiError
from nki_lab.ir.definition.instruction import Definition
from nki_lab.isa.catalog import STARS
from nki_lab.versions import VERSIONS, Version, added_in, former_signature

API: dict[str, Any] = json.loads(
    Path(__file__).with_name("official_api.json").read_text(encoding="utf-8")
)
_ELIDED = "=..."  # the stub does not say the default


@dataclass(frozen=True)
class NameCount:
    """How much of one kind of names a module has.

    Attributes:
        module: official module.
        kind: what is counted.
        names: those that the official module has.
        missing: those of them that are absent or have another signature.
    """

    module: str
    kind: str
    names: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def total(self) -> int:
        """How many the official module has."""
        return len(self.names)

    @property
    def implemented(self) -> int:
        """How many can be used."""
        return self.total - len(self.missing)


def signature_of(function: Callable[..., Any]) -> str:
    """Return names and defaults as the data file writes them: `x axis dtype=None keepdims=False`."""
    words: list[str] = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not any(w.startswith("*") for w in words):
            words.append("*")
        word = STARS.get(p.kind, "") + p.name
        if p.default is not p.empty:
            word += f"={p.default!r}".replace("=nl.", "=").replace("=nisa.", "=")
        words.append(word)
    return " ".join(words)


def same_signature(function: Callable[..., Any], official: str) -> bool:
    """Tell whether a function has the official parameters; a default that the stub leaves out may be any."""
    actual, expected = signature_of(function).split(), official.split()
    return len(actual) == len(expected) and all(
        a == b or (b.endswith(_ELIDED) and a.startswith(b.removesuffix("...")))
        for a, b in zip(actual, expected, strict=True)
    )


def coverage() -> list[NameCount]:
    """Return what can be used of each module and kind of names, in the order of the data file."""
    return [c for c in _counted() if c.total]


COMPLETE, IN_PART, ABSENT = "complete", "seen in part", "absent"


class NameState(NamedTuple):
    """What a kernel can use of an official name, and why that is not all of it."""

    name: str
    state: str
    note: str = ""


def states(version: Version) -> list[NameState]:
    """Return the state of every official name of a version.

    "complete": what its pages say is there. "seen in part": a page was seen only in part, or its signature in the
    version is another one that calls are not bound by; the note says what is missing. "absent": it cannot be used.
    """
    found: dict[str, NameState] = {}
    for count in coverage():
        if count.kind in ("modules", "drop-in names"):
            continue
        owner, _, of_class = count.kind.partition(" ")
        prefix = (
            f"{count.module}.{owner}" if of_class in ("methods", "attributes") else count.module
        )
        for name in count.names:
            official = f"{prefix}.{name}"
            found[official] = _state(official, name in count.missing, version)
    for other in VERSIONS:
        for official in sorted(other.added - found.keys()):
            found[official] = NameState(official, ABSENT, "not modelled")
        for official, (_, instead) in other.removes.items():
            if version.number < other.number:
                found[official] = NameState(official, ABSENT, f"not modelled; write {instead}")
    ours = (s for name, s in found.items() if _since(name).number <= version.number)
    return sorted(ours, key=lambda s: s.name)


def _since(official: str) -> Version:
    """Return the version that first has a name; a member is not older than what it is a member of."""
    owners = official, official.rpartition(".")[0]
    return max((added_in(name) for name in owners), key=lambda version: version.number)


def _state(official: str, is_missing: bool, version: Version) -> NameState:
    if is_missing:
        return NameState(official, ABSENT, "absent, or with another signature")
    if official in version.unseen:
        return NameState(official, IN_PART, f"not seen: {version.unseen[official]}")
    module, _, name = official.rpartition(".")
    former = former_signature(official, version)
    value = _get(import_module(NKI.modules[module]), name) if module in NKI.modules else None
    if former is None or value is None or isinstance(value, Definition):
        return NameState(official, COMPLETE)
    words = [word.partition("=")[0] for word in former.split() if not word.startswith("*")]
    if words == [*inspect.signature(value).parameters][: len(words)] and "dtype=bool" not in former:
        return NameState(official, COMPLETE)
    return NameState(official, IN_PART, f"calls are bound as today; the version has ({former})")


def _counted() -> Iterator[NameCount]:
    names = dict.fromkeys([*API["functions"], *API["drop_in"]])
    modules = {name: import_module(NKI.modules[name]) for name in names if name in NKI.modules}
    yield _count("nki", "modules", {name: name in modules for name in names})
    for module, functions in API["functions"].items():
        room = modules[module]
        yield _count(module, "functions", {n: _usable(room, n, s) for n, s in functions.items()})
        enums = API["enums"].get(module, {})
        yield _count(module, "enums", {n: _has_members(room, n, m) for n, m in enums.items()})
        others = [n for n in API["names"][module] if n not in functions and n not in enums]
        yield _count(module, "constants and classes", {n: _there(room, n) for n in others})
        for cls, methods in API["methods"].get(module, {}).items():
            owner = _get(room, cls)
            usable = {n: _usable(owner, n, s) for n, s in methods.items()}
            yield _count(module, f"{cls} methods", usable)
        for owner_name, attributes in API["attributes"].get(module, {}).items():
            owner = _get(room, owner_name)
            usable = {n: _declared(owner, n) for n in attributes}
            yield _count(module, f"{owner_name} attributes", usable)
    for module, drop_in in API["drop_in"].items():
        yield _count(module, "drop-in names", {n: _there(modules[module], n) for n in drop_in})


def _count(module: str, kind: str, usable: dict[str, bool]) -> NameCount:
    return NameCount(module, kind, tuple(usable), tuple(n for n, yes in usable.items() if not yes))


def _get(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except NkiError:
        return None


def _there(owner: ModuleType, name: str) -> bool:
    return _get(owner, name) is not None


def _usable(owner: Any, name: str, official: str) -> bool:
    function = _get(owner, name)
    if not callable(function):
        return False
    if isinstance(function, Definition) and function.check_complete():
        return False
    return same_signature(function, official)


def _has_members(owner: ModuleType, name: str, members: dict[str, object]) -> bool:
    value = _get(owner, name)
    if not (isinstance(value, type) and issubclass(value, Enum)):
        return False
    return {m.name: m.value for m in value} == members


def _declared(owner: Any, name: str) -> bool:
    # Looked up on the class: an attribute of an object may only have a value inside a kernel.
    return hasattr(owner if isinstance(owner, type) else type(owner), name)
