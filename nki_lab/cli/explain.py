"""What does `nki-lab explain` do?"""

from __future__ import annotations

from typing import Annotated

import typer

from nki_lab.cli.kernel_call import Target


def explain(
    topic: Annotated[
        str,
        typer.Argument(
            help="an error code (NKI203), instruction (nc_matmul), function of nki.language"
            " (nl.softmax), option (show), variable or target"
        ),
    ],
    target: Target = None,
) -> None:
    """Explain an error code, an instruction, a function, an option or a chip.

    nki-lab explain NKI203

    nki-lab explain nc_matmul --target trn3
    """
    from nki_lab.options.explain import explain as page
    from nki_lab.runtime.jit import current_target, use_target
    from nki_lab.settings import Settings

    with use_target(target):
        typer.echo(page(topic, current_target(Settings.read())))
