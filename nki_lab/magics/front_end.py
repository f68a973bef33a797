"""Finds the front end that a notebook is open in, the cell that runs, and whether our JupyterLab extension is there.

The kernel greets when nki_lab is loaded; an extension that is there opens a comm in answer. JupyterLab lets comms that
it opens reach the kernel while cells run, so the answer is known in the midst of Run All.
"""

from __future__ import annotations

from typing import Any

from comm import create_comm, get_comm_manager
from IPython.core.interactiveshell import InteractiveShell

#: Names of the comms that the kernel opens to greet, and the extension in answer.
GREETING, ANSWER = "nki-lab:greeting", "nki-lab:answer"

_answered = False


def greet(shell: InteractiveShell) -> None:
    """Ask whether our extension is there."""
    global _answered
    _answered = False
    if not _is_kernel(shell):
        return
    get_comm_manager().register_target(ANSWER, _answer)
    if running_cell(shell) is not None:
        create_comm(target_name=GREETING).close()


def part(shell: InteractiveShell) -> None:
    """Undo `greet`."""
    global _answered
    _answered = False
    if _is_kernel(shell):
        get_comm_manager().unregister_target(ANSWER, _answer)


def has_extension() -> bool:
    """Tell whether our JupyterLab extension has answered."""
    return _answered


def running_cell(shell: InteractiveShell) -> str | None:
    """Return the id of the cell that runs; None where nobody looks at one, as where a notebook is only executed."""
    if not _is_kernel(shell):
        return None
    cell = (shell.get_parent() or {}).get("metadata", {}).get("cellId")  # type: ignore[attr-defined]
    return cell if isinstance(cell, str) else None


def _is_kernel(shell: InteractiveShell) -> bool:
    return hasattr(shell, "kernel") and hasattr(shell, "get_parent")


def _answer(comm: Any, message: Any) -> None:
    global _answered
    _answered = True
