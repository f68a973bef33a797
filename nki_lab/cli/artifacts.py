"""The commands `nki-lab compile`, `disasm` and `diff`."""

from __future__ import annotations

import difflib
import re
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nki_lab.cli.declared import with_options
from nki_lab.cli.kernel_call import Arguments, Inputs, Place
from nki_lab.source import text_of

if TYPE_CHECKING:
    from nki_lab.ir.program.nodes import Kernel

# How the text of a program begins.
_TEXT = re.compile(rb"\s*nkir")

Program = Annotated[
    Path, typer.Argument(metavar="FILE", help="a kernel saved by `nki-lab compile`, or its text")
]


@with_options("compile")
def compile_(
    options: Namespace,
    kernel: Place,
    inputs: Inputs = None,
    args: Arguments = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE.nkic", help="where to write it; by default KERNEL.nkic"
        ),
    ] = None,
    source: Annotated[
        bool, typer.Option("--source/--no-source", help="keep the kernel's text in the file")
    ] = True,
) -> None:
    """Compile a kernel of a file for the shapes of its inputs, and write it to a file that runs anywhere.

    nki-lab compile add.py:add --input a=ones:128x512 --input b=ones:128x512 -o add.nkic
    """
    from nki_lab.cli.kernel_file import check_outputs, prepare_call
    from nki_lab.compiler.program import SUFFIX
    from nki_lab.errors import NoKernel, UnknownOption
    from nki_lab.runtime import KernelFunction
    from nki_lab.runtime.view_data import remarks_on
    from nki_lab.session.request import session
    from nki_lab.views.entries import remark_lines

    check_outputs(kernel, output=output)
    if output is not None and output.suffix.lower() != SUFFIX:
        raise UnknownOption(
            f"a compiled kernel is not written as {output.suffix or 'a file without ending'}: {output}",
            help=f"end the name with {SUFFIX}",
        )
    with session(options):
        prepared = prepare_call(kernel, inputs or [], args or [], options.seed or 0)
        if not isinstance(prepared.kernel, KernelFunction):
            raise NoKernel(f"{kernel} is already compiled", help="name the file of its source")
        compiled = prepared.kernel.compile(**prepared.arguments).compiled
    path = compiled.save(output or Path(f"{compiled.kernel.name}{SUFFIX}"), source)
    count = len(compiled.kernel.instructions)
    typer.echo(
        text_of(
            [
                f"{compiled.kernel.name} for {compiled.target.name}: {count} instructions, written to {path}"
            ]
        )
    )
    findings = [f for f in compiled.findings_before_run if f.kind != "advice"]
    for remark in remarks_on(compiled.kernel, findings):
        for line in remark_lines(remark, excerpt=True):
            typer.echo(text_of([line]), err=True)


def disasm(
    file: Program,
    comments: Annotated[
        bool, typer.Option("--comments/--no-comments", help="name the author's line of each line")
    ] = True,
) -> None:
    """Print the program of a compiled kernel, for each of its cores.

    nki-lab disasm add.nkic
    """
    from nki_lab.ir.text.printer import print_kernel

    typer.echo("\n".join(print_kernel(k, comments=comments) for k in _programs(file)), nl=False)


def diff(
    first: Program,
    second: Program,
    context: Annotated[int, typer.Option(min=0, help="lines shown around each difference")] = 3,
) -> None:
    """Compare two compiled kernels line by line; exit with 1 when they differ.

    nki-lab diff before.nkic after.nkic
    """
    from nki_lab.ir.text.printer import print_kernel

    before, after = (
        "\n".join(print_kernel(k, comments=False) for k in _programs(file)).splitlines()
        for file in (first, second)
    )
    lines = list(
        difflib.unified_diff(before, after, str(first), str(second), n=context, lineterm="")
    )
    if not lines:
        typer.echo("the programs are the same")
        return
    typer.echo(text_of(lines))
    raise typer.Exit(1)


def _programs(file: Path) -> list[Kernel]:
    """Return the programs of a compiled kernel's cores, or the one that a text describes."""
    from nki_lab.compiler.program import CompiledKernel, is_artifact
    from nki_lab.errors import BadFile
    from nki_lab.isa.reading import read_kernel
    from nki_lab.profiler.formats.reading import read_document

    if is_artifact(file):
        compiled = CompiledKernel.load(file)
        return [compiled.kernel, *compiled.others]
    complaint = f"{file} is neither a kernel saved by nki_lab nor the text of one"
    text = read_document(file, _TEXT, complaint)
    if not text.lstrip().startswith("nkir"):
        raise BadFile(complaint, help="write one with `nki-lab compile`")
    return [read_kernel(text)]
