"""`nki-lab neff`."""

from __future__ import annotations

from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from nki_lab.cli.kernel_call import Arguments, Inputs, answered
from nki_lab.errors import UnknownOption
from nki_lab.session.questions import options_of


def neff(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.neff", help="what the official compiler wrote")
    ],
    kernel: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.py[:KERNEL]",
            help="a kernel whose tiles, as nki_lab places them, are shown beside",
        ),
    ] = None,
    inputs: Inputs = None,
    args: Arguments = None,
) -> None:
    """Show what a NEFF holds, and where the official compiler placed what its transfers move.

    nki-lab neff kernel.neff

    nki-lab neff kernel.neff add.py:add --input a=randn:128x512 --input b=randn:128x512
    """
    from nki_lab.hardware.neff import read_neff
    from nki_lab.hardware.neff_layout import neff_text

    if kernel is None and (inputs or args):
        raise UnknownOption(
            "--input and --arg are for a kernel, and none is named",
            help="name its file behind the NEFF, or leave them out",
        )
    found = read_neff(file)
    with ExitStack() as running:
        ours = None
        if kernel is not None:
            options = Namespace(
                **{
                    choice.name: False if choice.is_switch else None
                    for choice in options_of("profile")
                }
            )
            options.target = found.target.name if found.target else None
            answer = running.enter_context(answered("profile", kernel, inputs, args, options))
            ours = answer.result.view_data
        typer.echo(neff_text(found, ours))
