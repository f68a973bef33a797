"""`nki-lab execute`."""

from __future__ import annotations

import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from nki_lab.errors import UsageError
from nki_lab.source import text_of


def execute(
    notebooks: Annotated[list[Path], typer.Argument(metavar="NOTEBOOK...", show_default=False)],
    write: Annotated[
        bool, typer.Option("--write", help="keep the outputs in the file, without widget state")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="print the report of the last kernel that ran")
    ] = False,
    timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="time limit of each cell")
    ] = 120,
) -> None:
    """Run every cell of notebooks, without a browser.

    The first cell that raises ends the command. Files stay as they are unless --write is given; then they keep the
    outputs up to that cell as well.

    nki-lab execute workshop/solutions/01_first_kernel.ipynb --report
    """
    if find_spec("nbclient") is None:
        from nki_lab.explain.doctor import install_command

        raise UsageError("nbclient is not installed", help=install_command("nbclient"))
    from nki_lab.cli import notebook_file

    for path in notebooks:
        start = time.perf_counter()
        keep = partial(notebook_file.write, path=path) if write else None
        executed = notebook_file.execute(path, timeout, keep)
        if write:
            notebook_file.write(executed.notebook, path)
        seconds = time.perf_counter() - start
        typer.echo(text_of([f"{path.name}: {executed.cells} cells ran in {seconds:.1f} s"]))
        if report:
            if not executed.report:
                raise UsageError(
                    f"{path.name}: no kernel ran, so there is nothing to report",
                    help="leave --report out, or run a kernel with %%nki --run or by calling it",
                )
            typer.echo(f"\n{executed.report}")
