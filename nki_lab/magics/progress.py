"""Shows work that takes longer than a second in a notebook.

Our JupyterLab extension draws a bar with a button that stops the work, and leaves no output. Elsewhere an output is
updated, and is empty at the end. Where nobody looks, as where a notebook is only executed, nothing is shown, so that
outputs that are kept are the same whatever the speed.
"""

from __future__ import annotations

from html import escape
from typing import Any

from comm import create_comm
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from nki_lab.magics.front_end import has_extension, running_cell
from nki_lab.percent import percent
from nki_lab.progress import ProgressDisplay, forget, listen

#: Name of the comms that tell the extension about the work of a cell.
TARGET = "nki-lab:progress"


def show_progress(shell: InteractiveShell) -> None:
    """Show work of the cells of a notebook."""
    listen(lambda: _display(shell))
    shell.events.register("pre_run_cell", _forget)
    shell.events.register("post_run_cell", _forget)


def hide_progress(shell: InteractiveShell) -> None:
    """Undo `show_progress`."""
    listen(None)
    forget()
    for event in ("pre_run_cell", "post_run_cell"):
        if _forget in shell.events.callbacks[event]:
            shell.events.unregister(event, _forget)


def _forget(*about: Any) -> None:
    forget()


def _display(shell: InteractiveShell) -> ProgressDisplay | None:
    cell = running_cell(shell)
    if cell is None:
        return None
    return _InExtension(cell) if has_extension() else _InOutput()


class _InExtension:
    """A bar that the extension draws in the cell."""

    def __init__(self, cell: str) -> None:
        self._comm = create_comm(target_name=TARGET, data={"cellId": cell})

    def show(self, fraction: float | None, text: str) -> None:
        """Draw it."""
        self._comm.send({"fraction": fraction, "text": text})

    def end(self) -> None:
        """Take it away."""
        self._comm.close()


class _InOutput:
    """An output of the cell that is updated, and empty at the end."""

    def __init__(self) -> None:
        self._handle = display({}, raw=True, display_id=True)

    def show(self, fraction: float | None, text: str) -> None:
        """Update it."""
        share = "" if fraction is None else f" {percent(fraction, 0)}"
        value = "" if fraction is None else f' value="{fraction:.3f}"'
        bar = f'<progress{value} aria-label="progress"></progress> {escape(text)}{share}'
        self._handle.update({"text/plain": f"{text}{share}", "text/html": bar}, raw=True)

    def end(self) -> None:
        """Empty it."""
        self._handle.update({}, raw=True)
