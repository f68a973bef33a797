"""The command `nki-lab run`."""

from __future__ import annotations

from argparse import Namespace

import typer

from nki_lab.cli.declared import with_options
from nki_lab.cli.kernel_call import Arguments, Inputs, Place, answered


@with_options("run")
def run(options: Namespace, kernel: Place, inputs: Inputs = None, args: Arguments = None) -> None:
    """Compile, simulate and time a kernel of a file, and check its result.

    nki-lab run add.py:add --input a=randn:128x512 --input b=randn:128x512 --check 'a + b'

    Expressions may use the parameters of the kernel, the names of the file, and np.
    """
    from nki_lab.errors import UnknownOption
    from nki_lab.session.answers import view_text
    from nki_lab.session.reading import check_together

    check_together(options)
    if options.json and options.show:
        raise UnknownOption(
            "--show cannot be combined with --json: the output would not be valid JSON",
            help="leave out --show or --json",
        )
    parts: list[str] = []
    with answered("run", kernel, inputs, args, options) as answer:

        def show(views: tuple[str, ...] | None) -> None:
            shown = ("report",) if views is None else views
            parts.extend(view_text(answer.result, view) for view in shown)

        try:
            answer.tell(parts.append, lambda line: typer.echo(line, err=True), show)
        finally:
            if parts:
                typer.echo("\n\n".join(parts))
