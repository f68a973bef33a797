"""Entries of the catalogue about public names, for completion and explanations in an editor without a kernel.

Everything is read where it is defined: signatures, docstrings, operands, rules and costs of instructions, rows of
operators, limits of chips.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, EnumMeta
from importlib import import_module
from typing import Any

from nki_lab.beta1.operators import OPERATORS
from nki_lab.choices import inside
from nki_lab.dialects import BETA1, DIALECTS, NKI, Dialect
from nki_lab.dtypes import DTYPES, DType
from nki_lab.explain.glossary import TERMS
from nki_lab.explain.pages import explain
from nki_lab.explain.public_names import older_members, older_owners
from nki_lab.ir.definition.instruction import Definition
from nki_lab.isa import registry
from nki_lab.isa.accepted import accepted_values, alternatives
from nki_lab.isa.catalog import (
    common_rules,
    operand_facts,
    parameters_of,
    rule_texts,
    targets_of,
    usual_cost,
)
from nki_lab.isa.operators import Op
from nki_lab.language.sizes import TileSize
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.engines import Engine
from nki_lab.targets.features import FEATURES
from nki_lab.targets.spaces import MemoryRegion
from nki_lab.versions import VERSIONS, added_in

_FEATURE = re.compile(rf"`({'|'.join(FEATURES)})`")
# A line of a page with a number of a chip; its source stays there.
_FACT = re.compile(r"^  (\w+: [^()\n]*[^()\s])", re.MULTILINE)
_COMMON = frozenset(common_rules())
_TERMS = {name for term in TERMS for name in term.names}
_CHIPS = tuple(target.name for target in ALL_TARGETS)


@dataclass
class Names:
    """What is known of every public name, by its official name.

    Attributes:
        modules: a module or a name with members -> its names.
        entries: a name -> its entry; see `entry_of` for the keys.
        sets: lists of values that parameters take, by the first one that does.
    """

    modules: dict[str, list[str]] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    sets: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def collect(cls) -> Names:
        """Go through the modules of all dialects; the second name of a thing refers to the first."""
        names = cls()
        first: dict[int, str] = {}
        for dialect in DIALECTS:
            names._collect(dialect, first)
        return names

    def _collect(self, dialect: Dialect, first: dict[int, str]) -> None:
        homes = dialect.modules
        for module in sorted(homes, key=lambda n: (n.count("."), _ORDER.get(n, 9), n)):
            submodules = {n.rpartition(".")[2] for n in homes if n.rpartition(".")[0] == module}
            public = import_module(homes[module])
            self.modules[module] = sorted({*getattr(public, "__all__", ()), *submodules})
            for name in self.modules[module]:
                full = f"{module}.{name}"
                value = getattr(public, name, None)
                if name in submodules or isinstance(value, types.ModuleType):
                    self.entries[full] = {"kind": "module"}
                elif (key := _identity(value)) in first:
                    self.entries[full] = {"see": first[key]}
                else:
                    first[key] = full
                    self._add(full, value)

    def _add(self, full: str, value: Any) -> None:
        entry = self.entries[full] = self._entry(full, value)
        since = added_in(full)
        if since is not VERSIONS[0] and "doc" in entry:
            entry["doc"] += f" New in NKI {since.name}."
            entry["since"] = since.name
        members: dict[str, Any] = {}
        if isinstance(value, type) and issubclass(value, Enum):
            members = {member.name: _choice(member) for member in value}
        elif isinstance(value, TileSize):
            members = {name: _limit(value, name) for name in _limits()}
        elif f"{full}." in _OWNERS:
            owner = _OWNERS[f"{full}."]
            members = {n: self._member(owner, n) for n in older_members(owner)}
        if members:
            self.modules[full] = list(members)
            self.entries |= {f"{full}.{name}": entry for name, entry in members.items()}

    def _entry(self, full: str, value: Any) -> dict[str, Any]:
        definition = registry.get(full.rpartition(".")[2])
        if definition is not None and full == f"{definition.module}.{definition.name}":
            return self._instruction(full, definition)
        if isinstance(value, DType):
            page = explain(f"nl.{value}", ALL_TARGETS[0]).splitlines()
            return {"kind": "dtype", "doc": page[-1]}
        if isinstance(value, EnumMeta):
            return {"kind": "choices", "doc": _first_line(value)}
        if isinstance(value, Enum):
            return _choice(value)
        if isinstance(value, type):
            return {"kind": "class", "doc": _first_line(value)}
        if callable(value):
            return self._function(full, value)
        return {"kind": "value", "doc": _first_line(value)}

    def _instruction(self, full: str, definition: Definition) -> dict[str, Any]:
        signature = definition.__signature__
        entry = {
            "kind": "instruction",
            "call": parameters_of(signature),
            "doc": _first_line(definition),
            "operands": {
                name: ", ".join(operand_facts(o)) for name, o in definition.operands.items()
            },
            "engines": [engine.name for engine in definition.engines],
            "limits": [_with_chips(text) for text, _ in rule_texts(definition, _COMMON)],
            "cost": _costs(definition),
        }
        entry |= _support(definition.requires)
        taken = {name: [*map(_written, v)] for name, v in accepted_values(definition).items()}
        return entry | self._takes(full, taken)

    def _member(self, owner: type, name: str) -> dict[str, Any]:
        value = inspect.getattr_static(owner, name)
        if not inspect.isfunction(value):
            return {"kind": "value", "doc": _first_line(value)}
        _, *call = parameters_of(inspect.signature(value))
        return {"kind": "function", "call": call, "doc": _first_line(value)}

    def _function(self, full: str, value: Any) -> dict[str, Any]:
        signature = inspect.signature(value)
        entry = {"kind": "function", "call": parameters_of(signature), "doc": _first_line(value)}
        if isinstance(value, Op):
            entry |= _operator(value)
        values = _older_values if full.startswith(f"{BETA1.root}.") else _annotated
        taken = {name: values(p) for name, p in signature.parameters.items()}
        return entry | self._takes(full, taken)

    def _takes(self, full: str, taken: dict[str, list[str]]) -> dict[str, Any]:
        """Return the names of the lists of values that parameters take; equal lists are kept once."""
        by_name = {}
        for parameter, values in taken.items():
            if values:
                names = (name for name, others in self.sets.items() if others == values)
                by_name[parameter] = name = next(names, f"{full}.{parameter}")
                self.sets[name] = values
        return {"takes": by_name} if by_name else {}


# Where a thing has several names, the one of these modules is its first.
_ORDER = {"nki": 0, "nki.language": 1, "nki.isa": 2}
_OWNERS = older_owners()
_OPERATOR = re.compile(r"(\w+_)?op\d?")


def _identity(value: Any) -> int:
    """Return what tells a thing from others; the limits of tiles are one, whatever the dialect."""
    return id(TileSize if isinstance(value, TileSize) else value)


def _first_line(value: Any) -> str:
    doc = value.doc if isinstance(value, Definition) else inspect.getdoc(value) or ""
    return doc.strip().partition("\n")[0]


def _written(value: Any) -> str:
    return f"nl.{value}" if isinstance(value, DType) else repr(value)


def _annotated(parameter: inspect.Parameter) -> list[str]:
    """Return the values a parameter of a function takes, as far as its annotation or default tells."""
    words = re.findall(r"\w+", str(parameter.annotation))
    if "DType" in words:
        return [f"nl.{name}" for name in DTYPES]
    if "MemoryRegion" in words:
        return [f"nl.{name}" for name in _regions()]
    return [*map(_written, alternatives(parameter.default))]


def _older_values(parameter: inspect.Parameter) -> list[str]:
    """Return the values a parameter of a function of the older dialect takes, as far as its name or default tells."""
    language = import_module(BETA1.modules["neuronxcc.nki.language"])
    if _OPERATOR.fullmatch(parameter.name):
        names = [name for name in language.__all__ if name in OPERATORS]
    elif parameter.name == "dtype":
        names = [n for n in language.__all__ if isinstance(getattr(language, n), DType)]
    elif parameter.name == "buffer":
        names = [*_regions(language)]
    else:
        return [*map(_written, alternatives(parameter.default))]
    return [f"nl.{name}" for name in names]


def _regions(language: Any = None) -> Iterator[str]:
    language = language or import_module(NKI.modules["nki.language"])
    return (n for n in language.__all__ if isinstance(getattr(language, n), MemoryRegion))


def _with_chips(text: str) -> str:
    """Name the chips behind each ability that a sentence asks for."""
    return _FEATURE.sub(lambda found: f"{found[0]} ({', '.join(_having((found[1],)))})", text)


def _having(features: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(t.name for t in ALL_TARGETS if all(t.supports(f) for f in features))


def _support(features: tuple[str, ...]) -> dict[str, Any]:
    """Return the chips that have it where not all do, and what they have for it."""
    chips = _having(features)
    if chips == _CHIPS:
        return {}
    return {"targets": list(chips), "needs": [FEATURES[feature] for feature in features]}


def _costs(definition: Definition) -> list[dict[str, Any]]:
    """Return usual calls and what they cost on each chip by the model; mostly all chips have one call."""
    rows: list[dict[str, Any]] = []
    for target in ALL_TARGETS:
        usual = usual_cost(definition, target) if target.name in targets_of(definition) else None
        if usual is not None:
            call, steps = usual
            row = next((r for r in rows if r["call"] == call), None)
            if row is None:
                row = {"call": call, "steps": {}}
                rows.append(row)
            row["steps"][target.name] = steps
    return rows


def _operator(op: Op) -> dict[str, Any]:
    """Return what an operator is as a value of `op=`."""
    facts = op.facts()
    features = (op.alu.feature,) if op.alu is not None and op.alu.feature else ()
    return {"operator": facts} | _support(features) if facts else {}


def _choice(member: Enum) -> dict[str, Any]:
    """Return what a named choice is; of memories and engines also their numbers on each chip."""
    topic = member.name.removeprefix("shared_").removeprefix("private_")
    if not isinstance(member, (MemoryRegion, Engine)) or topic not in _TERMS:
        return {"kind": "choice", "doc": _first_line(type(member))}
    pages = {target.name: explain(topic, target) for target in ALL_TARGETS}
    text = next(iter(pages.values())).split("\n\n")[1]
    kind = "memory" if isinstance(member, MemoryRegion) else "choice"
    facts = {chip: _FACT.findall(page) for chip, page in pages.items()}
    return {"kind": kind, "doc": " ".join(text.split())} | (
        {"facts": facts} if any(facts.values()) else {}
    )


def _limits() -> Iterator[str]:
    members = vars(TileSize).items()
    return (n for n, member in members if isinstance(member, property) and not n.startswith("_"))


def _limit(sizes: TileSize, name: str) -> dict[str, Any]:
    facts = {}
    for chip in _CHIPS:
        with inside(target=chip):
            facts[chip] = [f"{getattr(sizes, name):,}"]
    return {
        "kind": "limit",
        "doc": _first_line(inspect.getattr_static(sizes, name)),
        "facts": facts,
    }
