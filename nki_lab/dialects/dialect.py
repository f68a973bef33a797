"""What a dialect of NKI decides, and which dialect a function is written in.

Which operators have a row in the table of ALU operators is said by the `Op` objects in its modules (isa/operators.py):
a dialect with a row that others do not have, or without one that they have, offers an `Op` that only it has.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from nki_lab.dialects.construct import Subset

if TYPE_CHECKING:
    from nki_lab.ir.building.builder import Builder

Grid = tuple[int, ...]


def _called(
    function: Callable[..., Any],
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    builder: Builder,
) -> Any:
    return function(*positional, **keywords)


@dataclass(frozen=True, eq=False)
class Dialect:
    """One way in which kernels are written: its names, its call form, and its rules.

    Attributes:
        title: what errors call it.
        root: the official package that all its modules are in, such as "nki".
        modules: official module -> the module that offers its names. It is not imported before a kernel's file does.
        refusing: the same for modules whose names cannot be used; no list of modules names them.
        ready: name that a notebook cell may use without importing it -> official module.
        standard: name of a choice -> its value for the dialect's kernels where nobody has chosen.
        timed: what is assumed of its kernels' times, besides what the timing model assumes of all.
        option: what `--dialect` calls it.
        beside: the official package holds more than kernels' names, so that nothing ever hides one that is installed.
        subset: the Python of its kernels.
        choices: `(keywords) -> choices` of the decorator: takes its keyword arguments, refuses or warns of others.
        grid: `(kernel's name, key) -> shape` of the launch grid in `kernel[key]`.
        cores: `(shape of the grid) -> number` of cores of the launch; `()` is a call without a grid.
        run: `(function, positional, keywords, builder) -> result`: runs a kernel on symbolic tensors. A dialect with
            tiles of another kind wraps the arguments and unwraps the results here; one whose grid is a sequence of
            programs runs the function once for each (`builder.grid`).
    """

    title: str
    root: str
    modules: Mapping[str, str]
    subset: Subset
    choices: Callable[[dict[str, Any]], dict[str, Any]]
    grid: Callable[[str, Any], Grid]
    cores: Callable[[Grid], int]
    run: Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any], Builder], Any] = _called
    refusing: Mapping[str, str] = field(default_factory=dict)
    ready: Mapping[str, str] = field(default_factory=dict)
    standard: Mapping[str, str] = field(default_factory=dict)
    timed: str = ""
    option: str = ""
    beside: bool = False

    def __repr__(self) -> str:
        return f"<dialect {self.title}>"

    def namespaces(self) -> Iterator[ModuleType]:
        """Yield the modules of the dialect that are loaded."""
        for home in self.modules.values():
            if home in sys.modules:
                yield sys.modules[home]

    def name_of(self, value: Any) -> str:
        """Return the name by which a notebook cell may call what a loaded module offers, or ""."""
        for short, official in self.ready.items():
            space = vars(sys.modules.get(self.modules.get(official, ""), self))
            for name in space.get("__all__", ()):
                if space.get(name) is value:
                    return f"{short}.{name}"
        return ""

    def members(self) -> set[int]:
        """Return the identities of all that its loaded modules offer, and of these modules."""
        members = set()
        for module in self.namespaces():
            members.add(id(module))
            space = vars(module)
            members.update(map(id, map(space.get, space.get("__all__", ()))))
        members.discard(id(None))  # of names that are not there
        return members


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def dialects_in(
    dialects: Iterable[Dialect], code: CodeType, scope: Mapping[str, Any]
) -> dict[Dialect, str]:
    """Return the dialects whose modules a function's names come from, each with the first such name.

    Args:
        dialects: those to look for.
        code: of the function; functions inside it count.
        scope: its globals, and what its closure holds.
    """
    loaded = [d for d in dialects if any(d.namespaces())]
    if len(loaded) < 2:
        return dict.fromkeys(loaded, "")
    members = [(d, d.members()) for d in loaded]
    dialects_named: dict[Dialect, str] = {}
    for name, is_import in _names_in(code):
        if is_import:
            owners = [d for d in loaded if name.partition(".")[0] == d.root]
        elif name in scope:
            identity = id(scope[name])
            owners = [d for d, ids in members if identity in ids]
        else:
            continue
        if len(owners) == 1:  # what several dialects offer, such as a dtype, tells nothing
            dialects_named.setdefault(owners[0], name)
    return dialects_named


def names_of_dialects(
    dialects: Iterable[Dialect], scope: Mapping[str, Any]
) -> dict[str, list[Dialect]]:
    """Return the names in a scope that stand for something of dialects, each with those that offer it."""
    members = [(dialect, dialect.members()) for dialect in dialects]
    owners = {n: [d for d, ids in members if id(value) in ids] for n, value in scope.items()}
    return {name: offering for name, offering in owners.items() if offering}


@lru_cache(maxsize=1024)
def _names_in(code: CodeType) -> tuple[tuple[str, bool], ...]:
    """Return the names that a function takes from outside, in order, and whether it imports a module of that name."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")
    names: dict[tuple[str, bool], None] = {}
    for inner in codes_of(code):
        for i in dis.get_instructions(inner):
            if i.opname == "IMPORT_NAME" or i.opname in loads:
                names.setdefault((i.argval, i.opname == "IMPORT_NAME"))
    return tuple(names)
