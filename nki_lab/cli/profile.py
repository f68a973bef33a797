"""What does `nki-lab profile` do?"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nki_lab.cli.declared import declared
from nki_lab.cli.kernel_call import (
    Allow,
    Analyse,
    Arguments,
    Call,
    Capacity,
    Debug,
    Inputs,
    Lnc,
    MaxTrips,
    Seed,
    Skip,
    Strict,
    Target,
    Timeout,
    WhatIf,
    called_kernel,
)
from nki_lab.errors import BadFile, UnknownOption
from nki_lab.session.table import BY_NAME, Expression
from nki_lab.source import text_of

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile


Profiled = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py[:KERNEL]",
        help="the kernel; a file may hold only one. Or a file that `nki-lab compile` wrote, or a"
        " profile that -o or --perfetto wrote, or a folder of Parquet tables of Neuron Explorer",
    ),
]


def profile(
    kernel: Profiled,
    inputs: Inputs = None,
    args: Arguments = None,
    seed: Seed = 0,
    call: Call = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="write the profile: FILE.json, FILE.parquet or FILE.csv (folders with a file for each"
            " table), or FILE.pftrace for ui.perfetto.dev",
        ),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="write a trace that ui.perfetto.dev opens: FILE.json, a Chrome trace for other viewers, too,"
            " or FILE.pftrace",
        ),
    ] = None,
    start: Annotated[Any, declared("from")] = None,
    end: Annotated[Any, declared("to")] = None,
    analyse: Analyse = None,
    what_if: WhatIf = None,
    target: Target = None,
    lnc: Lnc = None,
    timeout: Timeout = None,
    capacity: Capacity = None,
    skip: Skip = None,
    strict: Strict = False,
    allow: Allow = None,
    max_trips: MaxTrips = None,
    debug: Debug = False,
) -> None:
    """Model where the time of a kernel goes: print the report, and write it for other tools.

    nki-lab profile add.py:add --input a=randn:128x512 --input b=randn:128x512 -o add.parquet

    nki-lab profile add.parquet --from 1000 --to 250000

    nki-lab profile add.py:add --input a=randn:128x512 --input b=randn:128x512 --analyse path,stalls
    """
    from nki_lab.cli.kernel_file import check_outputs
    from nki_lab.profiler.analyses.report import report
    from nki_lab.profiler.formats.chrome import save_chrome_trace
    from nki_lab.profiler.formats.files import check_ending, is_profile, save
    from nki_lab.profiler.profile import Profile
    from nki_lab.session.views import answers

    check_outputs(kernel, output=output, perfetto=perfetto)
    if output is not None:
        check_ending(output)
    options = Namespace(
        target=target,
        lnc=lnc,
        timeout=timeout,
        capacity=capacity,
        skip=skip,
        strict=strict,
        allow=allow,
        max_trips=max_trips,
        debug=debug,
    )
    with ExitStack() as running:
        if is_profile(kernel):
            _refuse_unused(kernel, options, inputs, args, seed, call)
            found = Profile.load(kernel, target, start, end)
        else:
            called = called_kernel(kernel, inputs, args, seed, options, call)
            found = running.enter_context(called)[0].profile.between(start, end)
        typer.echo(report(found))
        if output is not None:
            save(found, output)
            typer.echo(text_of(["", f"profile written to {output}"]))
        if perfetto is not None:
            native = perfetto.suffix.lower() == ".pftrace"
            _write(save if native else save_chrome_trace, found, perfetto)
            typer.echo(text_of(["", f"trace for Perfetto written to {perfetto}"]))
        # After the files: a question that has no answer is an error.
        for answer in answers(found, analyse, what_if):
            typer.echo(f"\n{answer}")


def _refuse_unused(
    file: str,
    options: Namespace,
    inputs: list[str] | None,
    args: list[str] | None,
    seed: int,
    call: Expression | None,
) -> None:
    """Raise UnknownOption for options about a run, where a profile of one is read."""
    about_run = {"--input": inputs, "--arg": args, "--seed": seed, "--run": call}
    about_run |= {
        BY_NAME[name].flag: value for name, value in vars(options).items() if name != "target"
    }
    for flag, value in about_run.items():
        if value:
            raise UnknownOption(
                f"{file} is a profile: nothing is run, and {flag} has no effect",
                help=f"name the kernel's file, or leave {flag} out",
            )


def _write(write: Callable[[Profile, Path], Path], profile: Profile, file: Path) -> None:
    try:
        write(profile, file)
    except OSError as error:
        raise BadFile(f"{file} cannot be written: {error.strerror}") from None
