"""`nki-lab lab`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from nki_lab.errors import UnknownOption, UsageError


def lab(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="folder to open; the current one by default")
    ] = Path(),
) -> None:
    """Open a folder in JupyterLab, reachable from this machine only; `nki-lab workshop` opens the workshop.

    Other options are passed on: nki-lab lab --no-browser
    """
    if not folder.is_dir():
        raise UnknownOption(f"there is no folder {folder}", help="name a folder that is there")
    open_lab(folder, context.args)


def open_lab(root: Path, extra: list[str]) -> None:
    """Run JupyterLab in the folder `root` until it is stopped, and exit with its code.

    Raises UsageError where JupyterLab is not installed.
    """
    if find_spec("jupyterlab") is None:
        from nki_lab.explain.doctor import install_command

        raise UsageError("JupyterLab is not installed", help=install_command("jupyterlab"))
    raise typer.Exit(run_until_stopped(jupyter_command(root, extra)))


def run_until_stopped(command: list[str]) -> int:
    """Run a command until it ends, pass a request to end on to it, and return its exit code."""
    with subprocess.Popen(command) as process:
        # Ctrl-C is JupyterLab's to answer, which asks first and then ends its kernels too. A handler that
        # does nothing is not passed on to it, as "ignore" would be.
        handlers = {
            signal.SIGINT: signal.signal(signal.SIGINT, lambda number, frame: None),
            signal.SIGTERM: signal.signal(
                signal.SIGTERM, lambda number, frame: process.terminate()
            ),
        }
        try:
            return process.wait()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def jupyter_command(root: Path, extra: list[str]) -> list[str]:
    """Return the command that starts JupyterLab on the loopback interface."""
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1"]
    command.append(f"--ServerApp.root_dir={root.resolve()}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # JupyterLab asks root to be explicit
        command.append("--allow-root")
    return [*command, *extra]
