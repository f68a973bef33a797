"""`nki-lab compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Saved = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="a profile: of `nki-lab profile -o`, neuron-profile or neuron-explorer"
    ),
]


def compare(first: Saved, second: Saved) -> None:
    """Lay two profiles side by side: what takes longer or shorter in the second, by engine, line and opcode.

    nki-lab compare before.json after.json
    """
    from nki_lab.hardware.importers import load_profile
    from nki_lab.profiler.analyses.compare import compare_profiles

    typer.echo(str(compare_profiles(load_profile(first), load_profile(second))))
