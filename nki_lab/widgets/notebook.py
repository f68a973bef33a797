"""How does a notebook come to show a Result by itself?"""

from __future__ import annotations

from typing import Any

from nki_lab.widgets.display import display
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
    open_views.where = lambda: _running(shell)


def unregister(shell: Any, kind: type) -> None:
    """Take back what `register` did, and close every open view."""
    shell.display_formatter.mimebundle_formatter.pop(kind, None)
    open_views.where = lambda: None
    open_views.close_all()


def _running(shell: Any) -> tuple[str, str] | None:
    """Return the cell that runs, and a name for this run of it; None outside notebooks."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    if not parent:
        return None
    header, content = parent.get("header", {}), parent.get("content", {})
    # JupyterLab says which cell it is; elsewhere equal text is taken for the same cell.
    cell = parent.get("metadata", {}).get("cellId") or f"code:{content.get('code', '')}"
    return cell, header.get("msg_id", "")
