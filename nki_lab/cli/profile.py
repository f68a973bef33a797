"""What does `nki-lab profile` do?"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nki_lab.cli.kernel_call import (
    Arguments,
    Call,
    Capacity,
    Debug,
    Inputs,
    Place,
    Seed,
    Skip,
    Strict,
    Target,
    Timeout,
    call_kernel,
)
from nki_lab.errors import BadFile

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile


def profile(
    kernel: Place,
    inputs: Inputs = None,
    args: Arguments = None,
    seed: Seed = 0,
    call: Call = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.json", help="write the profile's tables"),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="write a trace that ui.perfetto.dev opens"),
    ] = None,
    target: Target = None,
    timeout: Timeout = None,
    capacity: Capacity = None,
    skip: Skip = None,
    strict: Strict = False,
    debug: Debug = False,
) -> None:
    """Model where the time of a kernel goes: print the report, and write it for other tools.

    nki-lab profile add.py:add --input a=randn:128x512 --input b=randn:128x512 -o add.json
    """
    from nki_lab.cli.kernel_file import check_outputs
    from nki_lab.profiler.export_perfetto import save_chrome_trace
    from nki_lab.profiler.profile_json import save
    from nki_lab.profiler.report import report

    check_outputs(kernel, output=output, perfetto=perfetto)
    options = Namespace(
        target=target,
        timeout=timeout,
        capacity=capacity,
        skip=skip,
        strict=strict,
        debug=debug,
    )
    result, _ = call_kernel(kernel, inputs, args, seed, options, call)
    typer.echo(report(result.profile))
    if output is not None:
        _write(save, result.profile, output)
        typer.echo(f"\nprofile written to {output}")
    if perfetto is not None:
        _write(save_chrome_trace, result.profile, perfetto)
        typer.echo(f"\ntrace for Perfetto written to {perfetto}")


def _write(write: Callable[[Profile, Path], Path], profile: Profile, file: Path) -> None:
    try:
        write(profile, file)
    except OSError as error:
        raise BadFile(f"{file} cannot be written: {error.strerror}") from None
