"""`nki-lab compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Saved = Annotated[
    Path, typer.Argument(metavar="FILE", help="a profile that `nki-lab profile -o` wrote")
]


def compare(first: Saved, second: Saved) -> None:
    """Lay two profiles side by side: what takes longer or shorter in the second, by engine, line and opcode.

    nki-lab compare before.json after.json
    """
    from nki_lab.profiler.analyses.compare import compare_profiles
    from nki_lab.profiler.formats.files import load

    typer.echo(str(compare_profiles(load(first), load(second))))
