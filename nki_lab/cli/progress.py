"""Shows work that takes longer than a second on a terminal."""

from __future__ import annotations

import sys

from nki_lab.progress import ProgressDisplay, listen


def show_progress() -> None:
    """Show the work of this process on the terminal, where standard error is one."""
    listen(_display)


def _display() -> ProgressDisplay | None:
    return _Bar() if sys.stderr.isatty() else None


class _Bar:
    """A line of the terminal that is gone at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,  # the thread that asks for it draws it
            redirect_stdout=False,  # what a kernel prints meanwhile is its own
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=None)

    def show(self, fraction: float | None, text: str) -> None:
        """Draw it."""
        done, total = (0.0, None) if fraction is None else (fraction, 1.0)
        self._progress.update(self._task, description=text, completed=done, total=total)
        self._progress.start()  # the first time
        self._progress.refresh()

    def end(self) -> None:
        """Take it away."""
        self._progress.stop()
