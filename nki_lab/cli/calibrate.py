"""`nki-lab calibrate`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nki_lab.cli.declared import with_options
from nki_lab.cli.kernel_call import Arguments, Inputs

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile

Profiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="PROFILE...",
        help="measured profiles: what neuron-explorer or neuron-profile exported, or nki-lab wrote",
    ),
]


@with_options("calibrate")
def calibrate(
    options: Namespace,
    profiles: Profiles,
    kernel: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="the kernel that was measured, FILE.py[:KERNEL] or a file that `nki-lab compile` wrote; one"
            " for all profiles, or one for each in their order",
        ),
    ],
    inputs: Inputs = None,
    args: Arguments = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.toml",
            help="write an overlay with the constants that were found, for --target trn2+FILE.toml",
        ),
    ] = None,
) -> None:
    """Compare the model with measured profiles of a kernel, and find the timing constants they speak for.

    nki-lab calibrate ntff.json --kernel exp.py --input x=randn:128x512 --target trn2 -o mine.toml

    nki-lab calibrate add.parquet matmul.parquet --kernel add.nkic --kernel matmul.nkic
    """
    from nki_lab.errors import UnknownOption
    from nki_lab.hardware.importers import load_profile
    from nki_lab.runtime.calibrate import calibrate as calibrated

    if len(kernel) not in (1, len(profiles)):
        raise UnknownOption(
            f"{len(profiles)} profiles are given, and {len(kernel)} kernels",
            help="give --kernel once, or once for each profile",
        )
    measured = [load_profile(path, target=options.target) for path in profiles]
    places = kernel * len(profiles) if len(kernel) == 1 else kernel
    modelled: dict[str, Profile] = {}
    for place, profile in zip(places, measured, strict=True):
        if place not in modelled:
            target = options.target or profile.target.name
            modelled[place] = _modelled(place, inputs or [], args or [], target)
    result = calibrated(*((modelled[p], m) for p, m in zip(places, measured, strict=True)))
    typer.echo(str(result))
    if output is not None:
        typer.echo(f"\noverlay written to {result.save(output)}")


def _modelled(place: str, inputs: list[str], args: list[str], target: str) -> Profile:
    """Return the modelled profile of a kernel, which holds its program."""
    from nki_lab.api.install import aliases
    from nki_lab.cli.kernel_file import prepare_call
    from nki_lab.runtime import CompiledFunction, run
    from nki_lab.runtime.not_run import has_times, profile_before_run

    with aliases():
        prepared = prepare_call(place, inputs, args, 0, target, is_called=bool(inputs or args))
        kernel = prepared.kernel
        if not isinstance(kernel, CompiledFunction):
            return run(kernel, target=target, **prepared.arguments).profile
        if not prepared.arguments and has_times(kernel.compiled):
            return profile_before_run(kernel.compiled)
        return kernel.launch(**prepared.arguments).profile
