"""Writes the page about the workshop's notebooks, from the notebooks and the exercises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat

from docs.markdown import escaped, page, table
from nki_lab.exercises.catalog import all_problems


def lesson_page(folder: Path) -> str:
    """Return the page with every notebook: its title, what it is about, and its exercises."""
    text = (
        "`nki-lab workshop` copies these notebooks into a folder of yours. Each runs alone, in any order, offline, on a"
        " simulator; what takes you time is thinking.\n"
    )
    return page("The notebooks", text, *(_lesson(path) for path in sorted(folder.glob("*.ipynb"))))


def _lesson(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    title, _, about = next(c.source for c in cells if c.cell_type == "markdown").partition("\n")
    kilobytes = path.stat().st_size / 1000
    size = f"{sum(c.cell_type == 'code' for c in cells)} cells with code, {kilobytes:.0f} kB"
    parts = [f"## {escaped(title.lstrip('# '))}\n", f"`{path.name}`, {size}.\n"]
    first = about.strip().partition("\n\n")[0]
    parts += [f"{first}\n"] if first else []
    rows = list(_exercises(path.name[:2]))
    parts += [table(("exercise", "what is asked"), rows)] if rows else []
    return "\n".join(parts)


def _exercises(number: str) -> Iterator[list[str]]:
    for problem in all_problems().values():
        if problem.id.startswith(f"{number}."):
            first = re.split(r"(?<=[.?!]) (?=[A-Z`])", " ".join(problem.statement.split()))[0]
            yield [f"{problem.id} {escaped(problem.title)}", escaped(first)]
