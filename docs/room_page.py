"""Writes the map of rooms: the order of the import contract, with the sentence that each room says of itself."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from docs.markdown import escaped, page, table

PACKAGE = "nki_lab"


def layers(pyproject: Path) -> list[list[str]]:
    """Return the rooms of the import contract from top to bottom; those of one layer do not import each other."""
    contracts = tomllib.loads(pyproject.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    contract = next(c for c in contracts if c["id"] == "rooms")
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


def room_page(root: Path) -> str:
    """Return the page with every room of the package that is built, from the highest to the lowest."""
    rows = [
        [f"`{room}`", escaped(sentence)]
        for layer in layers(root / "pyproject.toml")
        for room, sentence in _sentences(root / PACKAGE, layer)
    ]
    text = (
        f"`{PACKAGE}/` is divided into rooms: folders, and a few single files. A room imports only rooms"
        " below it in this table; `lint-imports` checks the order, which stands in `pyproject.toml`.\n"
    )
    return page("Map of the rooms", text, table(("room", "what it does"), rows))


def _sentences(package: Path, rooms: list[str]) -> Iterator[tuple[str, str]]:
    for room in rooms:
        for file in (package / room / "__init__.py", package / f"{room}.py"):
            if file.is_file():
                doc = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
                yield room, " ".join(doc.partition("\n\n")[0].split())
