"""The views of a run, and the blocks of data that each may be asked for.

A view is one folder here: `view.py` defines `VIEW`, and a module of JavaScript shows it. Text, picture, tabs, `--show`,
completion, the saved page, the documentation and the tests all read that block. Its name is that of the folder, and
`__init__.py` says at which `PLACE` it stands: so names are there without loading what the views need.
"""

from __future__ import annotations

import enum
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from nki_lab.errors import UnknownOption, close_matches
from nki_lab.views.run import ViewData
from nki_lab.widgets.modules import Script
from nki_lab.widgets.packing import UnknownPart

#: Bytes of all blocks in the state of one widget; a notebook may store that state.
STORED_BYTES = 120_000
#: Programs with at most this many instructions and tensors are cheap enough to be prepared in advance.
STORED_OPERATIONS = 3_000

Kept = TypeVar("Kept")
Function = TypeVar("Function", bound=Callable[..., Any])


class Needs(enum.Flag):
    """What a run must have for a view: its times, its program, or a way to run or compile it again."""

    TIMES = enum.auto()
    PROGRAM = enum.auto()
    RUN = enum.auto()


class Number(NamedTuple):
    """A number in the name of a part: how many there are, and how many of them a saved page holds."""

    count: Callable[[Parts], int]
    saved: int = 0


@dataclass(frozen=True)
class View:
    """A view of a run.

    Attributes:
        name: as `--show` takes it.
        title: on its tab.
        needs: it is shown where a run has one of these.
        text: returns its lines; the second argument limits them.
        words: what its picture shows, in words for whoever does not see it.
        parts: the names of its blocks of data, such as "memory/tile/{tensor}", and what returns each; a part in several
            blocks is an iterator of them. `{name}` is a number if `numbers` or `NUMBERS` has it, else a word; `{*name}`
            is all the rest.
        numbers: the numbers in the names of its parts.
        first: parts that are shown at once and small enough for the state of a widget.
        saved: further parts that a saved page holds.
        live: parts that only a kernel answers: there are too many of them for a page.
        module: its script, which exports `mount`.
        picture: draws it; a view without one is drawn as its text.
        compares: the picture shows the run beside the one it is compared with.
        known_text: its text where nothing may be computed for it; by default `text`.
        if_small: `first` is only prepared for programs of at most STORED_OPERATIONS instructions and tensors.

    `parts`, `first`, `saved` and `picture` name functions of the run's data, or of `Parts` where `of_parts` marks them.
    `first` and `saved` name parts, or functions that return names.
    """

    name: str
    title: str
    needs: Needs
    text: Callable[[ViewData, int | None], Sequence[str]]
    words: str
    parts: Mapping[str, Callable[..., bytes | Iterator[bytes]]]
    numbers: Mapping[str, Number] = field(default_factory=dict)
    first: Sequence[str | Callable[..., Iterable[str]]] = ()
    saved: Sequence[str | Callable[..., Iterable[str]]] = ()
    live: Sequence[str] = ()
    module: str = "view.js"
    picture: Callable[..., bytes] | None = None
    compares: bool = False
    known_text: Callable[[ViewData, int | None], Sequence[str]] | None = None
    if_small: bool = False


def of_parts(function: Function) -> Function:
    """Mark a function of a view as one of `Parts` instead of `ViewData`."""
    function.of_parts = True  # type: ignore[attr-defined]
    return function


@cache
def view_names() -> tuple[str, ...]:
    """Return the names of all views, in the order of their tabs."""
    room = import_module(__package__)
    folders = [module.name for module in pkgutil.iter_modules(room.__path__) if module.ispkg]
    modules = {name: import_module(f"{__package__}.{name}") for name in folders}
    places = {name: module.PLACE for name, module in modules.items() if hasattr(module, "PLACE")}
    return tuple(sorted(places, key=lambda name: places[name]))


@cache
def views() -> Mapping[str, View]:
    """Return every view by its name, in the order of their tabs."""
    return {name: import_module(f"{__package__}.{name}.view").VIEW for name in view_names()}


def check_view(name: object) -> None:
    """Raise UnknownOption for what is not the name of a view."""
    if name not in view_names():
        raise UnknownOption(
            f"unknown view `{name}`",
            help=close_matches(str(name), view_names()) or f"views: {', '.join(view_names())}",
        )


def shown_with(needs: Needs) -> tuple[str, ...]:
    """Return the names of the views that are shown where a run has one of these."""
    return tuple(name for name, view in views().items() if view.needs & needs)


@cache
def scripts() -> tuple[Script, ...]:
    """Return the script of every view."""
    return tuple(Script(v.name, v.title, _folder(v.name) / v.module) for v in views().values())


def _folder(name: str) -> Path:
    return Path(str(import_module(f"{__package__}.{name}.view").__file__)).parent


@cache
def _patterns() -> list[tuple[re.Pattern[str], View, Callable[..., Any]]]:
    """Return for each part of each view what its name looks like and what returns its blocks."""
    return [
        (re.compile(_NAME.sub(_group, pattern)), view, make)
        for view in views().values()
        for pattern, make in view.parts.items()
    ]


_NAME = re.compile(r"\{(\*?)(\w+)\}")


def _group(match: re.Match[str]) -> str:
    return f"(?P<{match[2]}>{'.+' if match[1] else '[^/]+'})"


class Parts:
    """The blocks of data of one run.

    Args:
        data: the run.
        other: the run it is compared with.
    """

    def __init__(self, data: ViewData, other: ViewData | None = None) -> None:
        self.data = data
        self.other = other
        self._kept: dict[object, Any] = {}

    def kept(self, make: Callable[[Parts], Kept]) -> Kept:
        """Return what `make` returns for this run, made once: several parts of a view may need it."""
        if make not in self._kept:
            self._kept[make] = make(self)
        return self._kept[make]  # type: ignore[no-any-return]

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of a view with this run."""
        return function(self if hasattr(function, "of_parts") else self.data, *args)

    def make(self, name: str) -> Iterator[bytes]:
        """Yield the blocks of a part.

        Raises UnknownPart, also for a number past the end.
        """
        for pattern, view, make in _patterns():
            match = pattern.fullmatch(name)
            if match:
                numbers = NUMBERS | dict(view.numbers)
                args = [
                    _number(text, numbers[key].count(self)) if key in numbers else text
                    for key, text in match.groupdict().items()
                ]
                blocks = self.call(make, *args)
                if isinstance(blocks, bytes):
                    yield blocks
                else:
                    yield from blocks
                return
        raise UnknownPart(f"there is no data called {name!r}")

    def stored(self, tabs: Sequence[str]) -> dict[str, bytes]:
        """Return the blocks for the state of a widget: of each view what is small, the first view first."""
        stored: dict[str, bytes] = {}
        space = STORED_BYTES
        for name in (part for tab in tabs for part in self._first(views()[tab])):
            blocks = list(self.make(name))
            size = sum(map(len, blocks))
            if len(blocks) == 1 and size <= space:
                stored[name] = blocks[0]
                space -= size
        return stored

    def recorded(
        self, tabs: Sequence[str], limit: int
    ) -> tuple[dict[str, list[bytes]], dict[str, list[str]]]:
        """Return the blocks that a page without a kernel holds, of each view all in turn, and what has no room.

        Args:
            tabs: names of the views.
            limit: bytes of all blocks.
        """
        recorded: dict[str, list[bytes]] = {}
        cut: dict[str, list[str]] = {tab: [] for tab in tabs}
        space = limit
        for tab in tabs:
            # Named before they are made: the blocks of one part may list what another has computed.
            for name in list(self.names(tab)):
                if name in recorded:
                    continue
                blocks = list(self.make(name)) if space > 0 else []
                size = sum(map(len, blocks))
                if blocks and size <= space:
                    recorded[name] = blocks
                    space -= size
                else:
                    cut[tab].append(name)
        return recorded, cut

    def names(self, tab: str) -> Iterator[str]:
        """Yield the parts of a view that a saved page holds, those it shows first before others."""
        view = views()[tab]
        first = self._first(view)
        yield from first or [name for name in (view.name,) if name in view.parts]
        yield from self._named(view, view.saved)

    def _first(self, view: View) -> list[str]:
        size = max(len(self.data.operations), len(self.data.tensors))
        if view.if_small and size > STORED_OPERATIONS:
            return []
        return list(self._named(view, view.first))

    def _named(
        self, view: View, names: Sequence[str | Callable[..., Iterable[str]]]
    ) -> Iterator[str]:
        """Yield the names of parts; a number in them stands for the first of its kind, up to a limit."""
        numbers = NUMBERS | dict(view.numbers)
        for name in names:
            if callable(name):
                yield from self.call(name)
                continue
            match = _NAME.search(name)
            if match is None:
                yield name
                continue
            number = numbers[match[2]]
            for n in range(min(number.count(self), number.saved)):
                yield name.replace(match[0], str(n))


def _number(text: str, count: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= count:
        raise UnknownPart(f"there is no part number {text!r} of {count}")
    return int(text)


#: Numbers that parts of every view may have in their name.
NUMBERS = {
    "tensor": Number(lambda parts: len(parts.data.tensors), 3_000),
    "instruction": Number(lambda parts: len(parts.data.operations), 200),
}
