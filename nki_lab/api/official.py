"""Which names and signatures does the official package have, and how many of them can be used here?

`official_api.json` holds facts of NKI 0.6.0 (nki/api/nki/*/__init__.py): names, parameters, defaults and members.
Nothing here trusts our own lists: a name counts when the module has it, its signature is the official one, and calling
it does not only say that it is not modelled.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from nki_lab.api.absent import Absent
from nki_lab.api.install import ALIASES
from nki_lab.errors import NkiError
from nki_lab.ir.instruction import Definition

API: dict[str, Any] = json.loads(
    Path(__file__).with_name("official_api.json").read_text(encoding="utf-8")
)
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
_ELIDED = "=..."  # the stub does not say the default


@dataclass(frozen=True)
class Coverage:
    """How much of one kind of names a module has.

    Attributes:
        module: official module.
        kind: what is counted.
        total: how many the official module has.
        missing: those that are absent, not modelled or have another signature.
    """

    module: str
    kind: str
    total: int
    missing: tuple[str, ...]

    @property
    def implemented(self) -> int:
        """How many can be used."""
        return self.total - len(self.missing)


def signature_of(function: Callable[..., Any]) -> str:
    """Return names and defaults as the data file writes them: `x axis dtype=None keepdims=False`."""
    words = []
    for p in inspect.signature(function).parameters.values():
        word = _STARS.get(p.kind, "") + p.name
        if p.default is not p.empty:
            word += f"={p.default!r}".replace("=nl.", "=").replace("=nisa.", "=")
        words.append(word)
    return " ".join(words)


def same_signature(function: Callable[..., Any], official: str) -> bool:
    """Tell whether a function has the official parameters; a default that the stub leaves out may be any."""
    found, expected = signature_of(function).split(), official.split()
    return len(found) == len(expected) and all(
        a == b or (b.endswith(_ELIDED) and a.startswith(b.removesuffix("...")))
        for a, b in zip(found, expected, strict=True)
    )


def coverage() -> Iterator[Coverage]:
    """Yield what can be used of each module and kind of names, in the order of the data file."""
    names = dict.fromkeys([*API["functions"], *API["drop_in"]])
    modules = {name: import_module(ALIASES[name]) for name in names if name in ALIASES}
    yield _count("nki", "modules", names, modules.__contains__)
    for module, functions in API["functions"].items():
        room = modules[module]
        classes = API["methods"].get(module, {})
        enums = API["enums"].get(module, {})
        yield _count(
            module, "functions", functions, lambda n, r=room, f=functions: _usable(r, n, f[n])
        )
        if enums:
            yield _count(
                module, "enums", enums, lambda n, r=room, e=enums: _has_members(r, n, e[n])
            )
        others = set(API["names"][module]) - functions.keys() - enums.keys()
        if others:
            yield _count(
                module, "constants and classes", sorted(others), lambda n, r=room: _there(r, n)
            )
        for cls, methods in classes.items():
            of = getattr(room, cls, None)
            yield _count(
                module, f"{cls} methods", methods, lambda n, o=of, m=methods: _usable(o, n, m[n])
            )
        for owner, attributes in API["attributes"].get(module, {}).items():
            of = getattr(room, owner, None)
            yield _count(module, f"{owner} attributes", attributes, lambda n, o=of: _declared(o, n))
    for module, names in API["drop_in"].items():
        if names:
            yield _count(module, "drop-in names", names, lambda n, r=modules[module]: _there(r, n))


def _count(module: str, kind: str, names: Iterable[str], usable: Callable[[str], bool]) -> Coverage:
    names = list(names)
    return Coverage(module, kind, len(names), tuple(n for n in names if not usable(n)))


def _get(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except NkiError:
        return None


def _there(owner: ModuleType, name: str) -> bool:
    found = _get(owner, name)
    return found is not None and not isinstance(found, Absent)


def _usable(owner: Any, name: str, official: str) -> bool:
    function = _get(owner, name)
    if not callable(function) or isinstance(function, Absent):
        return False
    if isinstance(function, Definition) and function.check_complete():
        return False
    return same_signature(function, official)


def _has_members(owner: ModuleType, name: str, members: dict[str, object]) -> bool:
    found = _get(owner, name)
    if not (isinstance(found, type) and issubclass(found, Enum)):
        return False
    return {m.name: m.value for m in found} == members


def _declared(owner: Any, name: str) -> bool:
    # Looked up on the class: an attribute of an object may only have a value inside a kernel.
    return hasattr(owner if isinstance(owner, type) else type(owner), name)
