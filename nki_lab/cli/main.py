"""The commands of `nki-lab`, and how they report errors.

Exit codes: 0 all is well, 1 a kernel, check or file is wrong, 2 the command line is.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nki_lab import __version__
from nki_lab.cli.artifacts import compile_, diff, disasm
from nki_lab.cli.bench import bench
from nki_lab.cli.calibrate import calibrate
from nki_lab.cli.catalog import catalog
from nki_lab.cli.compare import compare
from nki_lab.cli.doctor import doctor
from nki_lab.cli.execute import execute
from nki_lab.cli.explain import OptionsAreTopics, explain
from nki_lab.cli.lab import lab
from nki_lab.cli.migrate import migrate
from nki_lab.cli.neff import neff
from nki_lab.cli.profile import profile
from nki_lab.cli.progress import show_progress
from nki_lab.cli.run import run
from nki_lab.cli.validate import validate
from nki_lab.cli.workshop import workshop
from nki_lab.errors import NkiError, UnknownOption

WRONG_KERNEL, WRONG_USAGE = 1, 2


class _Commands(TyperGroup):
    """Prints what a kernel author did wrong without Python's traceback."""

    def invoke(self, ctx: Any) -> Any:
        show_progress()
        try:
            returned = super().invoke(ctx)
            sys.stdout.flush()
            return returned
        except BrokenPipeError:  # whoever reads, as `| head`, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
        except NkiError as error:
            typer.echo("\n".join(error.render()), err=True)
            raise typer.Exit(
                WRONG_USAGE if isinstance(error, UnknownOption) else WRONG_KERNEL
            ) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # what is left are our own mistakes: plain tracebacks to report
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"nki-lab {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_tell_version, help="print the version and exit"
        ),
    ] = False,
) -> None:
    """Compile, simulate, time and explain NKI kernels without a device."""


app.command()(run)
app.command()(profile)
app.command()(compare)
app.command()(calibrate)
app.command("compile")(compile_)
app.command()(disasm)
app.command()(diff)
app.command()(neff)
app.command(cls=OptionsAreTopics, context_settings={"ignore_unknown_options": True})(explain)
app.command()(migrate)
app.command()(bench)
app.command()(catalog)
app.command()(doctor)
app.command()(execute)
app.command()(validate)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(lab)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(workshop)

if __name__ == "__main__":
    app(prog_name="nki-lab")
