"""`nki-lab catalog`."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def catalog(
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage",
            help="Count the official names that can be used, per module; exit with 1 below 100 %.",
        ),
    ] = False,
    nki: Annotated[
        str,
        typer.Option(
            "--nki",
            metavar="VERSION",
            help="With --coverage: list every name of this version of NKI, or of beta1 (neuronxcc.nki), with its state,"
            " and exit with 1 where one is absent.",
        ),
    ] = "",
) -> None:
    """List every instruction with its engines, targets and meaning."""
    if nki and not coverage:
        raise typer.BadParameter("--nki asks for the names of a version: add --coverage")
    if not coverage:
        _print_instructions()
    elif not (_print_states(nki) if nki else _print_coverage()):
        raise typer.Exit(1)


def _print_instructions() -> None:
    from nki_lab.isa.catalog import rows

    console = _console()
    for module, instructions in groupby(rows(), lambda row: row.module):
        # Names of collectives are as long as half a line: their engines and targets stand in `explain`.
        heads = ("engines", "targets") if module == "nki.isa" else ()
        table = Table(box=None, pad_edge=False)
        table.add_column(module, no_wrap=True)
        for head in (*heads, "meaning"):
            table.add_column(head)
        for row in instructions:
            where = (", ".join(row.engines), ", ".join(row.targets)) if heads else ()
            table.add_row(row.name, *where, row.summary)
        console.print(table)


def _print_coverage() -> bool:
    """Print one line per module and kind of names, and what is missing; return whether nothing is."""
    from nki_lab.api.official import API, COMPLETE, IN_PART, coverage, states
    from nki_lab.versions import NEWEST

    table = Table(box=None, pad_edge=False)
    table.add_column("module", no_wrap=True)
    table.add_column("names", no_wrap=True)
    for head in ("implemented", ""):
        table.add_column(head, justify="right", no_wrap=True)
    counts = coverage()
    totals = [("", "all", sum(c.implemented for c in counts), sum(c.total for c in counts))]
    rows = [(c.module, c.kind, c.implemented, c.total) for c in counts]
    for module, kind, implemented, total in rows + totals:
        # Rounded down: what is not complete never reads 100 %.
        percent = f"{100 * implemented // total} %"
        table.add_row(module, kind, f"{implemented}/{total}", percent)
    console = _console()
    console.print(table)
    console.print(f"measured from {API['source']}")
    listed = [s.state for s in states(NEWEST)]
    complete, in_part = listed.count(COMPLETE), listed.count(IN_PART)
    console.print(
        f"NKI {NEWEST.name}: of {len(listed)} names {complete} are complete ({100 * complete // len(listed)} %), and"
        f" {in_part} more can be used, but their pages were seen only in part: --nki {NEWEST.name} lists them"
    )
    missing = [f"{c.module}.{name}" for c in counts for name in c.missing]
    if missing:
        console.print("missing: " + ", ".join(missing))
    return not missing


def _print_states(nki: str) -> bool:
    """Print every name of a version with its state; return whether none is absent."""
    from nki_lab.api.official import ABSENT, COMPLETE, IN_PART, beta1_states, states
    from nki_lab.choices import NKI
    from nki_lab.versions import version_named

    listed = beta1_states() if nki == "beta1" else states(version_named(NKI.take(nki, "--nki")))
    width = max(len(s.name) for s in listed)
    for row in listed:
        typer.echo(f"{row.name:{width}}  {row.state:{len(IN_PART)}}  {row.note}".rstrip())
    counts = {state: sum(s.state == state for s in listed) for state in (COMPLETE, IN_PART, ABSENT)}
    typer.echo(f"{len(listed)} names: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
    return not counts[ABSENT]


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # every command answers it alike


def _console() -> Console:
    return _Console(markup=False, highlight=False)
