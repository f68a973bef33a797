"""The command `nki-lab profile`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nki_lab.cli.declared import with_options
from nki_lab.cli.kernel_call import Arguments, Inputs, answered
from nki_lab.errors import BadFile, UnknownOption
from nki_lab.session.questions import options_of
from nki_lab.source import text_of

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile


Profiled = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE.py[:KERNEL]",
        help="the kernel; a file may hold only one. Or a file that `nki-lab compile` wrote, or a"
        " profile: what -o or --perfetto wrote, or what --import takes",
    ),
]


@with_options("profile")
def profile(
    options: Namespace,
    kernel: Profiled = None,
    inputs: Inputs = None,
    args: Arguments = None,
    imported: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="PATH",
            help="read a measured profile: what neuron-explorer or neuron-profile exported (folder of Parquet tables,"
            " JSON, summary-json, Perfetto trace), or an NTFF with its NEFF beside it. With a kernel, the modelled"
            " run is compared with it",
        ),
    ] = None,
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
) -> None:
    """Model where the time of a kernel goes: print the report, and write it for other tools.

    nki-lab profile add.py:add --input a=randn:128x512 --input b=randn:128x512 -o add.parquet

    nki-lab profile add.parquet --from 1000 --to 250000

    nki-lab profile --import ntff.json --target trn2

    nki-lab profile add.py:add --input a=randn:128x512 --input b=randn:128x512 --analyse path,stalls
    """
    from nki_lab.cli.kernel_file import check_outputs
    from nki_lab.hardware.importers import holds_profile, load_profile
    from nki_lab.profiler.analyses.compare import compare_profiles
    from nki_lab.profiler.analyses.report import report
    from nki_lab.profiler.formats.chrome import save_chrome_trace
    from nki_lab.profiler.formats.files import check_ending, save
    from nki_lab.session.answers import answers

    measured = None if imported is None else str(imported)
    if kernel is None:
        kernel, measured = measured, None
    if kernel is None:
        raise UnknownOption(
            "nothing is named whose time is to be shown",
            help="name the file of a kernel, or a measured profile with --import PATH",
        )
    check_outputs(kernel, output=output, perfetto=perfetto)
    if output is not None:
        check_ending(output)
    start, end = getattr(options, "from"), options.to
    with ExitStack() as running:
        if kernel == str(imported) or holds_profile(kernel):
            _refuse_unused(kernel, options, inputs, args)
            timed = load_profile(kernel, options.target, start, end)
        else:
            answer = running.enter_context(answered("profile", kernel, inputs, args, options))
            answer.tell_findings(lambda line: typer.echo(line, err=True))
            timed = answer.result.profile.between(start, end)
        typer.echo(report(timed))
        if measured is not None:
            other = load_profile(measured, timed.target)
            typer.echo(f"\n{compare_profiles(other, timed)}")
        if output is not None:
            save(timed, output)
            typer.echo(text_of(["", f"profile written to {output}"]))
        if perfetto is not None:
            native = perfetto.suffix.lower() == ".pftrace"
            _write(save if native else save_chrome_trace, timed, perfetto)
            typer.echo(text_of(["", f"trace for Perfetto written to {perfetto}"]))
        # After the files: a question that has no answer is an error.
        for text in answers(timed, options.analyse, options.what_if):
            typer.echo(f"\n{text}")


# What acts on a stored profile as well.
_OF_PROFILES = ("target", "from", "to", "analyse", "what_if")


def _refuse_unused(
    file: str, options: Namespace, inputs: list[str] | None, args: list[str] | None
) -> None:
    """Raise UnknownOption for options about a run, where a profile of one is read."""
    about_run = {"--input": inputs, "--arg": args}
    about_run |= {
        choice.flag: getattr(options, choice.name)
        for choice in options_of("profile")
        if choice.name not in _OF_PROFILES
    }
    for flag, value in about_run.items():
        if value not in (None, False):
            raise UnknownOption(
                f"{file} is a profile: nothing is run, and {flag} has no effect",
                help=f"name the kernel's file, or leave {flag} out",
            )


def _write(write: Callable[[Profile, Path], Path], profile: Profile, file: Path) -> None:
    try:
        write(profile, file)
    except OSError as error:
        raise BadFile.unwritable(file, error) from None
