"""Turns text from docstrings and tables into Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\*_<>\[\]#])")


def escaped(text: str) -> str:
    """Escape what Markdown would take for markup; parts in backticks stay code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick that nothing closes
        return _SPECIAL.sub(r"\\\1", text).replace("`", r"\`")
    parts[::2] = [_SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def fence(text: str, language: str = "text") -> str:
    """Return a code block."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def prose(docstring: str) -> str:
    """Return a docstring as Markdown: paragraphs flow, what is indented or a list of arguments keeps its lines."""
    found = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        lines = paragraph.splitlines()
        flows = not any(line.startswith((" ", "- ", ">>>")) for line in lines)
        found.append(escaped(" ".join(lines)) + "\n" if flows else fence(paragraph))
    return "\n".join(found)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", r"\|").replace("\n", " ") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def page(title: str, *parts: str) -> str:
    """Return a whole page; its title is Markdown."""
    return "\n".join([f"# {title}\n", *parts])


def contents(pages: Iterable[str], depth: int = 1) -> str:
    """Return a list of links to pages that lie beside this one."""
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *pages, "```", ""])
