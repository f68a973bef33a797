"""Lets a notebook show a Result by itself."""

from __future__ import annotations

import os
from typing import Any

from nki_lab.views.difference import show_difference
from nki_lab.views.display import display
from nki_lab.widgets.open_views import open_views


def register(shell: Any, kind: type) -> None:
    """Let IPython show objects of `kind` (the class Result) with `display`.

    Args:
        shell: the InteractiveShell; it also tells which cell runs, so that a cell that runs again
            replaces the views it has made.
        kind: the class.
    """
    formatter = shell.display_formatter.mimebundle_formatter
    formatter.for_type(kind, lambda result, **_: display(result)._repr_mimebundle_())
    show_difference.how = lambda shown: shell.display_pub.publish(*shown._repr_mimebundle_())
    open_views.where = lambda: _running(shell)
    open_views.are_watched = lambda: _is_watched(shell)
    shell.events.register("pre_run_cell", _begin_cell)


def unregister(shell: Any, kind: type) -> None:
    """Take back what `register` did, and close every open view."""
    shell.display_formatter.mimebundle_formatter.pop(kind, None)
    if _begin_cell in shell.events.callbacks["pre_run_cell"]:
        shell.events.unregister("pre_run_cell", _begin_cell)
    show_difference.how = print
    open_views.where = lambda: None
    open_views.are_watched = lambda: True
    open_views.close_all()


def _begin_cell(info: Any) -> None:
    open_views.begin_cell()


def _is_watched(shell: Any) -> bool:
    """Tell whether a person runs the cell.

    nbclient, nbconvert --execute and nbval say with each cell that nobody can answer a question (`allow_stdin` of the
    messaging protocol). A live view that they saved would need a kernel or the network, and nbconvert would prefer it
    to the picture. Voila says the same, but shows live views: it is known by its variables.
    """
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    if not parent or any(name.startswith("VOILA_") for name in os.environ):
        return True
    return bool(parent.get("content", {}).get("allow_stdin", True))


def _running(shell: Any) -> tuple[str, str] | None:
    """Return the cell that runs, and a name for this run of it; None outside notebooks."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    if not parent:
        return None
    header, content = parent.get("header", {}), parent.get("content", {})
    # JupyterLab says which cell it is; elsewhere equal text is taken for the same cell.
    cell = parent.get("metadata", {}).get("cellId") or f"code:{content.get('code', '')}"
    return cell, header.get("msg_id", "")
