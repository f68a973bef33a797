"""Writes the pages of the documentation that come from the code.

Sphinx calls `write_pages` before it reads anything (`conf.py`). The pages are not kept in the repository: what they say
has its one place in the registries, tables and docstrings of the package, and in README.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.timing_accuracy import kept_page
from docs.instruction_pages import function_page, instruction_pages
from docs.lesson_page import lesson_page
from docs.profile_page import profile_page
from docs.room_page import room_page
from docs.schema_page import schema_page
from docs.use_pages import (
    chart_page,
    command_page,
    error_page,
    glossary_page,
    magic_page,
    readme_page,
    target_page,
    version_page,
    view_page,
)

ROOT = Path(__file__).parents[1]
#: Sections of README.md that make the first page.
SECTIONS = ("Start", "A kernel in a cell", "A kernel in a file")


def pages() -> dict[str, str]:
    """Return every page that is written from the code, in Markdown, by its path."""
    return {
        "quickstart.md": _with_links_from_here(
            readme_page((ROOT / "README.md").read_text("utf-8"), SECTIONS)
        ),
        "functions.md": function_page(),
        "lessons.md": lesson_page(ROOT / "workshop"),
        "errors.md": error_page(),
        "magics.md": magic_page(),
        "commands.md": command_page(),
        "views.md": view_page(),
        "charts.md": chart_page(),
        "targets.md": target_page(),
        "versions.md": version_page(),
        "words.md": glossary_page(),
        "profile_tables.md": profile_page(),
        "profile_schema.md": schema_page(),
        "timing_rows.md": kept_page(),
        "rooms.md": room_page(ROOT),
        **dict(instruction_pages()),
    }


def write_pages(folder: Path) -> None:
    """Write the pages into a folder, and remove those that are no more; what is current keeps its time."""
    wanted = pages()
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def _with_links_from_here(text: str) -> str:
    """Turn links of README.md into links to the pages of the site; files that are none of them become code."""
    text = re.sub(r"\]\(docs/(\w+\.md)\)", r"](../\1)", text)
    return re.sub(r"\[([^]]+)\]\((?!https?:|\.\./)[^)]+\)", r"`\1`", text)
