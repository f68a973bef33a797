"""Joins ES modules into the one text that a widget may have.

The scripts are plain ES modules, which tests load as they are. A widget takes one module, so each file becomes a
function that is called once: it takes the names it imports from the functions before it, and returns what it exports.
Nothing is rewritten but these lines.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"

_IMPORT = re.compile(
    r'^import \{ (?P<names>[\w, ]+) \} from "(?P<file>\.[^"]+\.js)";$', re.MULTILINE
)
_EXPORT = re.compile(
    r"^export (?P<kind>async function|function|class|const) (?P<name>\w+)", re.MULTILINE
)
_COMMENT = re.compile(r"^\s*(?://|/?\*).*\n", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


class Script(NamedTuple):
    """The module of a view, which exports `mount`: the view's name, its title on the tab, and the file."""

    view: str
    title: str
    file: Path


@cache
def module_text(scripts: tuple[Script, ...]) -> str:
    """Return the views as one ES module that exports `render`."""
    return "\n".join([*_functions("view", scripts), "export default { render };", ""])


@cache
def page_text(scripts: tuple[Script, ...]) -> str:
    """Return the script of a saved page: the views, and what shows them without a kernel."""
    return "\n".join([*_functions("page", scripts), "_page.openPage(render);", ""])


def _functions(entry: str, scripts: tuple[Script, ...]) -> list[str]:
    """Return all modules, each as a function that is called once, and what shows the views."""
    order: list[Path] = []
    for file in (*(script.file for script in scripts), FOLDER / "view.js", FOLDER / f"{entry}.js"):
        _collect(file.resolve(), order, ())
    names = [_name(file) for file in order]
    assert len(names) == len(set(names)), f"two modules have one name: {names}"
    table = ", ".join(
        f"{json.dumps(s.view)}: [{json.dumps(s.title)}, {_name(s.file)}.mount]" for s in scripts
    )
    return [*map(_as_function, order), f"const render = _view.renderer({{ {table} }});"]


@cache
def style_text() -> str:
    """Return the style sheet."""
    return (FOLDER / "style.css").read_text(encoding="utf-8")


def _name(file: Path) -> str:
    """Return what a module is called in the joined text: its name, for a view's with that of the view before it."""
    return f"_{file.stem}" if file.parent == FOLDER else f"_{file.parent.name}_{file.stem}"


def _collect(file: Path, order: list[Path], within: tuple[Path, ...]) -> None:
    """Put the imports of a module before it."""
    assert file not in within, f"modules import each other: {[*within, file]}"
    if file in order:
        return
    for match in _IMPORT.finditer(file.read_text(encoding="utf-8")):
        _collect((file.parent / match["file"]).resolve(), order, (*within, file))
    order.append(file)


def _as_function(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    exported = [match["name"] for match in _EXPORT.finditer(text)]

    def names(match: re.Match[str]) -> str:
        used = _name((file.parent / match["file"]).resolve())
        return f"const {{ {match['names'].replace(' as ', ': ')} }} = {used};"

    text = _EXPORT.sub(r"\g<kind> \g<name>", _IMPORT.sub(names, text))
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE), f"{file}: see _IMPORT, _EXPORT"
    text = _INDENT.sub("", _COMMENT.sub("", text))
    return f"const {_name(file)} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();"
