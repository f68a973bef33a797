"""`nki-lab workshop`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_lab.cli.lab import open_lab
from nki_lab.cli.workshop_files import Copied, copy_workshop
from nki_lab.errors import UnknownOption
from nki_lab.source import text_of

_FOLDER = "nki-workshop"


def workshop(
    context: typer.Context,
    place: Annotated[
        str, typer.Argument(metavar="[DIR]", help="where the copy lies, or will lie")
    ] = _FOLDER,
    update: Annotated[
        bool, typer.Option("--update", help="take newer notebooks, without losing your own work")
    ] = False,
    solutions: Annotated[
        bool, typer.Option("--solutions", help="copy the solutions of the exercises, too")
    ] = False,
    copy_only: Annotated[
        bool, typer.Option("--copy-only", help="do not open JupyterLab afterwards")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="only test whether a class could begin on this machine")
    ] = False,
) -> None:
    """Copy the workshop's notebooks into a folder of yours, and open them in JupyterLab.

    What you have changed in an earlier copy is kept. Other options are passed on to JupyterLab, as --no-browser is.

    nki-lab workshop lessons --update
    """
    if place.startswith("-"):  # without a folder, the first of JupyterLab's options takes its place
        context.args.insert(0, place)
        place = _FOLDER
    folder = Path(place)
    idle = {"--update": update, "--solutions": solutions, "--copy-only": copy_only}
    acting = "--check" if check else "--copy-only" if copy_only else ""
    if acting:
        unused = [flag for flag, given in idle.items() if given and check] + context.args
        if unused:
            raise UnknownOption(
                f"`{unused[0]}` has no effect with {acting}", help=f"leave out `{unused[0]}`"
            )
    if check:
        from nki_lab.cli.class_check import examine_for_class

        checks = examine_for_class(folder)
        typer.echo(checks.text())
        checks.require()
        return
    from nki_lab.exercises.catalog import workshop_folder

    copied = copy_workshop(workshop_folder(), folder, update=update, solutions=solutions)
    typer.echo(text_of(_told(copied, folder)))
    if not copy_only:
        open_lab(folder, context.args)


def _told(copied: Copied, folder: Path) -> list[str]:
    lines = [f"{len(copied.new)} files copied to {folder}"] if copied.new else []
    lines += [f"updated: {path}" for path in copied.updated]
    if copied.own:
        lines.append(f"kept with your work: {', '.join(map(str, copied.own))}")
    lines += [f"kept as you have changed it, and not the newest: {path}" for path in copied.kept]
    lines += [f"the newer one lies beside it: {path}" for path in copied.beside]
    if copied.older:
        names = ", ".join(map(str, copied.older))
        lines.append(f"newer ones exist and are taken with --update: {names}")
    return lines or [f"{folder} is up to date"]
