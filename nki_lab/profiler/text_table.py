"""Writes a table as text of limited width and length."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from nki_lab.source import printable

_WIDTH = 110
#: An answer about a run has fewer than 40 lines.
ANSWER_LINES = 39
#: So has a view below the line on its run that a cell begins with.
VIEW_LINES = ANSWER_LINES - 1


def text_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    limit: int | None,
    count: int | None = None,
) -> list[str]:
    """Return a table of at most `limit` lines, as a list of them; `count` is the number of rows there are in all."""
    from rich.console import Console  # takes a while, and most of a session prints no table
    from rich.table import Table

    count = len(rows) if count is None else count
    if limit is not None and 1 + len(rows) + (count > len(rows)) > limit:
        rows = rows[: max(limit - 2, 0)]
    table = Table(box=None, pad_edge=False, show_edge=False)
    for head in heads:
        right = head.endswith((" ns", " us", "partition", "moved", "share", "FLOP"))
        table.add_column(head, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    # In a notebook rich would show the table itself, as HTML, and ipykernel asks for escape codes.
    console = Console(
        file=StringIO(),
        force_jupyter=False,
        width=_WIDTH,
        color_system=None,
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(table)
    assert isinstance(console.file, StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    if count > len(rows):
        lines.append(f"... {count - len(rows):,} more")
    return cut(lines, limit)


def cut(lines: list[str], limit: int | None) -> list[str]:
    """Return at most `limit` lines, the last of which says how many more there are."""
    if limit is None or len(lines) <= limit:
        return lines
    return [*lines[: limit - 1], f"... {len(lines) - limit + 1:,} more lines"]
