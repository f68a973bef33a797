"""The names and signatures of the official packages, and how many of them can be used here.

`official_api.json` holds names, parameters, defaults and members: of NKI 0.6.0 from its stubs
(nki/api/nki/*/__init__.py), and of 0.7.0 from those of its pages that were seen (nki/api/generated/*.html);
`beta1_api.json` those of the older dialect from its stubs (general/nki/api/nki).
Nothing here trusts our own lists: a name counts when the module has it and its signature is the official one.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from nki_lab.dialects import DIALECTS
from nki_lab.dtypes import dtype_of
from nki_lab.errors import NkiError
from nki_lab.ir.definition.instruction import Definition
from nki_lab.isa.catalog import STARS
from nki_lab.versions import VERSIONS, Version, named_since


def _read(file: str) -> dict[str, Any]:
    text: dict[str, Any] = json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return text


API = _read("official_api.json")
#: The names of the older dialect: `pages` says which file of the documentation each module's come from, `prebuilt`
#: names its finished kernels.
BETA1_API = _read("beta1_api.json")


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
    words = ((name, p.default) for name, p in _parameters(function))
    return " ".join(n if d is inspect.Parameter.empty else f"{n}={_text(d)}" for n, d in words)


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield the parameters as the data file names them: `*rest`, and a `*` before those given by name alone.

    `*_` takes only what an error of ours refuses, and is none of them.
    """
    before = ""
    for p in inspect.signature(function).parameters.values():
        if p.name == "_" and p.kind is p.VAR_POSITIONAL:
            continue
        if p.kind is p.KEYWORD_ONLY and not before:
            yield "*", inspect.Parameter("_", p.VAR_POSITIONAL)
        before = before or STARS.get(p.kind, "") or ("*" if p.kind is p.KEYWORD_ONLY else "")
        yield STARS.get(p.kind, "") + p.name, p


def _text(default: Any) -> str:
    return repr(default).removeprefix("nl.").removeprefix("nisa.")


def same_signature(
    function: Callable[..., Any], official: str, names: Mapping[str, Any] = MappingProxyType({})
) -> bool:
    """Tell whether a function has the official parameters; a default that the stub leaves out may be any.

    Args:
        function: ours.
        official: its parameters as the data file writes them.
        names: what the names in defaults stand for, such as `reduce_cmd` in `reduce_cmd.idle`.
    """
    actual, expected = [*_parameters(function)], official.split()
    return len(actual) == len(expected) and all(
        _same_parameter(name, p.default, word, names)
        for (name, p), word in zip(actual, expected, strict=True)
    )


def _same_parameter(name: str, default: Any, word: str, names: Mapping[str, Any]) -> bool:
    official, has_default, text = word.partition("=")
    if name != official or bool(has_default) != (default is not inspect.Parameter.empty):
        return False
    return not has_default or text in (_text(default), "...") or _stands_for(text, default, names)


def _stands_for(text: str, default: Any, names: Mapping[str, Any]) -> bool:
    """Tell whether a name in a stub, such as `reduce_cmd.idle` or `np.float32`, stands for a default."""
    name, *attributes = text.split(".")
    value = {"np": np, "bool": bool, **names}.get(name)
    for attribute in attributes:
        value = getattr(value, attribute, None)
    if isinstance(value, type) and issubclass(value, np.generic):
        value = dtype_of(value)
    return value is not None and type(value) is type(default) and bool(value == default)


def coverage(api: Mapping[str, Any] = API) -> list[NameCount]:
    """Return what can be used of each module and kind of names, in the order of a data file."""
    return [c for c in _counted(api) if c.total]


COMPLETE, IN_PART, ABSENT = "complete", "seen in part", "absent"


class NameState(NamedTuple):
    """What a kernel can use of an official name, and why that is not all of it."""

    name: str
    state: str
    note: str = ""


def states(version: Version) -> list[NameState]:
    """Return the state of every official name of a version.

    "complete": what its pages say is there. "seen in part": its page was seen only in part; the note says what is
    missing. "absent": it cannot be used.
    """
    found: dict[str, NameState] = {}
    homes = _homes()
    for official, is_missing in _official(API):
        found[official] = _state(official, is_missing, version)
    for other in VERSIONS:
        for official in sorted(other.added - found.keys()):
            owner, _, name = official.rpartition(".")
            room = _room(owner, homes)
            found[official] = (
                NameState(official, ABSENT, "not modelled")
                if room is None or not _there(room, name)
                else _state(official, False, version)
            )
        for official, (_, instead) in other.removes.items():
            if version.number < other.number:
                found[official] = NameState(official, ABSENT, f"not modelled; write {instead}")
    ours = (s for name, s in found.items() if _since(name).number <= version.number)
    return sorted(ours, key=lambda s: s.name)


def beta1_states() -> list[NameState]:
    """Return the state of every official name of the older dialect, prebuilt kernels included."""
    found = [
        NameState(official, ABSENT, "absent, or with another signature") if is_missing
        else NameState(official, COMPLETE)
        for official, is_missing in _official(BETA1_API)
    ]  # fmt: skip
    for module, names in BETA1_API["prebuilt"].items():
        room = _room(module, _homes())
        found += [
            NameState(f"{module}.{n}", COMPLETE) if _there(room, n)
            else NameState(f"{module}.{n}", ABSENT, "a prebuilt kernel")
            for n in names
        ]  # fmt: skip
    return sorted(found, key=lambda s: s.name)


def _official(api: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each official name with its module, and whether it is missing."""
    for count in coverage(api):
        if count.kind in ("modules", "drop-in names"):
            continue
        owner, _, of_class = count.kind.partition(" ")
        inside = of_class in ("methods", "attributes")
        prefix = f"{count.module}.{owner}" if inside else count.module
        for name in count.names:
            yield f"{prefix}.{name}", name in count.missing


def _since(official: str) -> Version:
    """Return the version that first has a name; a member is not older than what it is a member of."""
    owners = official, official.rpartition(".")[0]
    return max((named_since(name) for name in owners), key=lambda version: version.number)


def _state(official: str, is_missing: bool, version: Version) -> NameState:
    if is_missing:
        return NameState(official, ABSENT, "absent, or with another signature")
    if official in version.unseen:
        return NameState(official, IN_PART, f"not seen: {version.unseen[official]}")
    return NameState(official, COMPLETE)


def _counted(api: Mapping[str, Any]) -> Iterator[NameCount]:
    homes = _homes()
    names = dict.fromkeys([*api["functions"], *api["drop_in"]])
    rooms = {name: _room(name, homes) for name in names}
    root = next(iter(names))
    yield _count(root, "modules", {name: room is not None for name, room in rooms.items()})
    for module, functions in api["functions"].items():
        room = rooms[module]
        space = vars(room) if isinstance(room, ModuleType) else {}
        usable = {n: _usable(room, n, s, space) for n, s in functions.items()}
        yield _count(module, "functions", usable)
        enums = api["enums"].get(module, {})
        yield _count(module, "enums", {n: _has_members(room, n, m) for n, m in enums.items()})
        others = [n for n in api["names"][module] if n not in functions and n not in enums]
        yield _count(module, "constants and classes", {n: _there(room, n) for n in others})
        for cls, methods in api["methods"].get(module, {}).items():
            owner = _get(room, cls)
            usable = {n: _usable(owner, n, s, space) for n, s in methods.items()}
            yield _count(module, f"{cls} methods", usable)
        for owner_name, attributes in api["attributes"].get(module, {}).items():
            owner = _get(room, owner_name)
            usable = {n: _declared(owner, n) for n in attributes}
            yield _count(module, f"{owner_name} attributes", usable)
    for module, drop_in in api["drop_in"].items():
        yield _count(module, "drop-in names", {n: _there(rooms[module], n) for n in drop_in})


def _homes() -> dict[str, str]:
    return {name: home for dialect in DIALECTS for name, home in dialect.modules.items()}


def _room(name: str, homes: Mapping[str, str]) -> Any:
    """Return what stands for an official module: a module, or an object that is a member of one; None without it."""
    if name in homes:
        return import_module(homes[name])
    owner, _, member = name.rpartition(".")
    return _get(import_module(homes[owner]), member) if owner in homes else None


def _count(module: str, kind: str, usable: dict[str, bool]) -> NameCount:
    return NameCount(module, kind, tuple(usable), tuple(n for n, yes in usable.items() if not yes))


def _get(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except NkiError:
        return None


def _there(owner: Any, name: str) -> bool:
    return _get(owner, name) is not None


def _usable(owner: Any, name: str, official: str, names: Mapping[str, Any]) -> bool:
    function = _get(owner, name)
    if not callable(function):
        return False
    if isinstance(function, Definition) and function.check_complete():
        return False
    return same_signature(function, official, names)


def _has_members(owner: ModuleType, name: str, members: dict[str, object]) -> bool:
    value = _get(owner, name)
    if not (isinstance(value, type) and issubclass(value, Enum)):
        return False
    # A chip or a release that came later may add some.
    return members.items() <= {m.name: m.value for m in value}.items()


def _declared(owner: Any, name: str) -> bool:
    # Looked up on the class: an attribute of an object may only have a value inside a kernel.
    return hasattr(owner if isinstance(owner, type) else type(owner), name)
