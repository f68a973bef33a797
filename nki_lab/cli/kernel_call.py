"""What is needed to call a kernel of a file, on any command that does?"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from nki_lab.cli.declared import declared
from nki_lab.session.table import BY_NAME, Expression

Place = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py[:KERNEL]",
        help="the kernel; a file may hold only one. Or a file that `nki-lab compile` wrote",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=KIND:SHAPE[:DTYPE]",
        help="array for a parameter, e.g. a=randn:128x512:bf16; kinds: randn, rand, randint,"
        " randint(LOW,HIGH), arange, ones, zeros; the dtype is f32 unless given",
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        metavar="NAME=LITERAL",
        help="Python literal for a parameter, e.g. 'shape=(3,4)', or a name like nl.bfloat16",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="seed of the random inputs")]
Call = Annotated[Expression | None, declared("run")]
Target = Annotated[str | None, declared("target")]
Lnc = Annotated[Any, declared("lnc")]
Timeout = Annotated[float | None, declared("timeout")]
Capacity = Annotated[str | None, declared("capacity")]
Skip = Annotated[str | None, declared("skip")]
Strict = Annotated[bool, declared("strict")]
Allow = Annotated[str | None, declared("allow")]
MaxTrips = Annotated[str | None, declared("max_trips")]
Debug = Annotated[bool, declared("debug")]
Analyse = Annotated[Any, declared("analyse")]
WhatIf = Annotated[Any, declared("what_if")]
Check = Annotated[Expression | None, declared("check")]


@contextmanager
def called_kernel(
    place: str,
    inputs: list[str] | None,
    args: list[str] | None,
    seed: int,
    options: Namespace,
    call: Expression | None,
    check: Expression | None = None,
    tells_findings: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    tell_failed: Callable[[Any, Any], None] | None = None,
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Load a kernel, call it, and compare with the reference; say on stderr what a direct call would warn of.

    The options act, and the time limit holds, in the whole `with` block.

    Args:
        place: FILE.py:KERNEL.
        inputs, args, seed: what its arguments are made of.
        options: target, lnc, timeout, capacity, skip, strict, allow, max_trips and debug.
        call: expression that calls the kernel, instead of a call with all arguments.
        check: the reference.
        tells_findings: the caller prints the report of the last run, which lists its findings.
        rtol, atol: tolerances of the comparison, instead of those of the dtype.
        tell_failed: called with the run and the error where the check fails, before it is raised.

    Yields:
        The Result of the last run, and how it compares, a Comparison for each result.
    """
    from nki_lab.cli.kernel_file import prepare_call
    from nki_lab.errors import CheckFailed, NoKernel, UnknownOption
    from nki_lab.session.evaluate import check_value, evaluate, reference
    from nki_lab.session.views import findings_lines
    from nki_lab.session.within import session

    if check is None and (rtol is not None or atol is not None):
        raise UnknownOption(
            "--rtol and --atol are tolerances of --check, but --check is not given",
            help="add --check with the expression to compare with",
        )
    refuse_idle(place, options)
    with session(options) as runs:
        prepared = prepare_call(place, inputs or [], args or [], seed, options.target, options.lnc)
        expected = None if check is None else reference(check, prepared.scope)
        before = len(runs)
        if call is None:
            value = prepared.kernel.launch(**prepared.arguments).value
        else:
            value = evaluate(call, prepared.scope)
        if len(runs) == before:
            raise NoKernel(
                "--run called no kernel",
                help=f"write a call such as --run '{prepared.kernel.__name__}(a)'",
            )
        comparisons: tuple[Any, ...] = ()
        try:
            if check is not None:
                comparisons = check_value(value, expected, rtol=rtol, atol=atol)
        except CheckFailed as error:
            tells_findings = False
            if tell_failed is not None:
                tell_failed(runs[-1], error)
            raise
        finally:
            for line in findings_lines(runs, runs[-1] if runs and tells_findings else None):
                typer.echo(line, err=True)
        yield runs[-1], comparisons


def refuse_idle(
    place: str, options: Namespace, names: tuple[str, ...] = ("skip", "capacity", "allow", "debug")
) -> None:
    """Raise UnknownOption for options about compiling, where `place` is already compiled.

    Args:
        place: what is to be run.
        options: what was given.
        names: of the options that would have no effect.
    """
    from nki_lab.compiler.program import is_artifact
    from nki_lab.errors import UnknownOption

    if not is_artifact(Path(place)):
        return
    for name in names:
        if getattr(options, name):
            flag = BY_NAME[name].flag
            raise UnknownOption(
                f"{place} is already compiled: {flag} has no effect on it",
                help=f"compile it again with {flag}, or leave {flag} out",
            )
