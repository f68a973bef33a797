"""Keeps the live views that are open, and closes those of a cell that runs again.

A widget lives in the kernel until it is closed, with the run it shows, so a cell that is run again and again would pile
them up. The front end takes a cell's outputs away when the cell runs again: its views are closed then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Closable(Protocol):
    """Anything with `close()`."""

    def close(self) -> None:
        """Give up what it holds."""


class OpenViews:
    """The open views of every cell.

    Args:
        where: gives the cell that runs and a name for this run of it, or None outside notebooks.
    """

    def __init__(self, where: Callable[[], tuple[str, str] | None] = lambda: None) -> None:
        self.where = where
        #: Whether somebody can use a live view: not where a program runs the notebook and keeps what it shows.
        self.are_watched: Callable[[], bool] = lambda: True
        self._open: dict[str, tuple[str, list[Closable]]] = {}

    def add(self, name: str, view: Closable) -> None:
        """Keep a view; close those that an earlier run of the same cell has made.

        Where no cell is known, a view replaces the one of the same name.
        """
        cell, run = self.where() or (f"name:{name}", "")
        self._close_earlier(cell, run)
        self._open.setdefault(cell, (run, []))[1].append(view)

    def begin_cell(self) -> None:
        """Close the views that an earlier run of the cell has made which begins to run."""
        where = self.where()
        if where is not None:
            self._close_earlier(*where)

    def _close_earlier(self, cell: str, run: str) -> None:
        earlier, views = self._open.get(cell, (run, []))
        if earlier != run or not run:
            self._open.pop(cell, None)
            for view in views:
                view.close()

    @property
    def count(self) -> int:
        """Number of open views."""
        return sum(len(views) for _, views in self._open.values())

    def close_all(self) -> None:
        """Close every view."""
        for _, views in self._open.values():
            for view in views:
                view.close()
        self._open.clear()


#: The views of this process.
open_views = OpenViews()
