"""How do several ES modules become the one text a widget may have?

The files in `static/` are plain ES modules, which tests and pages load as they are. A widget takes one
module, so each file becomes a function that is called once: what it imports are names it takes from
the functions before it, what it exports is what it returns. Nothing is rewritten but these lines.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"

_IMPORT = re.compile(
    r'^import \{ (?P<names>[\w, ]+) \} from "\./(?P<file>\w+)\.js";$', re.MULTILINE
)
_EXPORT = re.compile(
    r"^export (?P<kind>async function|function|class|const) (?P<name>\w+)", re.MULTILINE
)
_COMMENT = re.compile(r"^\s*(?://|/?\*).*\n", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


@cache
def module_text(entry: str = "view") -> str:
    """Return module `entry` with everything it imports as one ES module that exports `render`."""
    return "\n".join(
        [*_functions(entry), f"const {{ render }} = _{entry};", "export default { render };", ""]
    )


@cache
def page_text() -> str:
    """Return the script of a saved page: the views, and what shows them without a kernel."""
    return "\n".join([*_functions("page"), "_page.openPage();", ""])


def _functions(entry: str) -> list[str]:
    """Return a module and everything it imports, each as a function that is called once."""
    order: list[str] = []
    _collect(entry, order, ())
    return [_as_function(name) for name in order]


@cache
def style_text() -> str:
    """Return the style sheet."""
    return (FOLDER / "style.css").read_text(encoding="utf-8")


def source(name: str) -> str:
    """Return the text of a module in `static/`."""
    return (FOLDER / f"{name}.js").read_text(encoding="utf-8")


def _collect(name: str, order: list[str], within: tuple[str, ...]) -> None:
    """Put the imports of a module before it."""
    assert name not in within, f"modules import each other: {' -> '.join((*within, name))}"
    if name in order:
        return
    for match in _IMPORT.finditer(source(name)):
        _collect(match["file"], order, (*within, name))
    order.append(name)


def _as_function(name: str) -> str:
    text = source(name)
    exported = [match["name"] for match in _EXPORT.finditer(text)]
    text = _IMPORT.sub(r"const { \g<names> } = _\g<file>;", text)
    text = _EXPORT.sub(r"\g<kind> \g<name>", text)
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE), (
        f"{name}.js: see _IMPORT, _EXPORT"
    )
    text = _INDENT.sub("", _COMMENT.sub("", text))
    return f"const _{name} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();"
