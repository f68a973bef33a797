"""`nki-lab bench`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Annotated

import typer

from nki_lab.cli.declared import with_options

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="KERNEL", help="prebuilt kernels; all where none is named"),
]


@with_options("bench")
def bench(
    options: Namespace,
    kernels: Names = None,
    small: Annotated[
        bool, typer.Option("--small", help="leave out the large size of each kernel")
    ] = False,
    dtype: Annotated[
        list[str] | None, typer.Option("--dtype", metavar="NAME", help="only this dtype")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="print the table as Markdown")
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option(
            "--write",
            metavar="PATH",
            help="write the rows as JSON; into a folder, a file per kernel",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="PATH",
            help="compare with rows that --write wrote; exit code 1 where one is slower",
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="SHARE", help="how much slower a kernel may be")
    ] = 0.02,
) -> None:
    """Time the prebuilt kernels by the model, and say how close each comes to the roof of the chip.

    With --backend neuron a device is measured instead, as far as a kernel's text can go there.

    The last two columns are measured on this machine: the time of the simulator, also as a multiple of what NumPy
    takes for the reference.

    nki-lab bench rmsnorm softmax --small

    nki-lab bench --write before.json

    nki-lab bench --against before.json
    """
    from nki_lab.kernels import get, names
    from nki_lab.kernels.bench import changes, load_rows, measure_all, save_rows, table

    chosen = [get(name) for name in kernels or names()]
    before = None if against is None else load_rows(against)
    device = {
        name: getattr(options, name) for name in ("target", "backend", "core", "warmup", "iters")
    }
    rows = measure_all(chosen, not small, dtype or (), **device)
    typer.echo(table(rows, markdown))
    if write is not None:
        save_rows(rows, write)
    if before is not None:
        text, slower = changes(rows, before, tolerance)
        typer.echo(f"\n{text}")
        if slower:
            raise typer.Exit(1)
