"""What does `nki-lab run` do?"""

from __future__ import annotations

from argparse import Namespace
from typing import Annotated, Any

import typer

from nki_lab.cli.declared import declared
from nki_lab.cli.kernel_call import (
    Allow,
    Analyse,
    Arguments,
    Call,
    Capacity,
    Check,
    Debug,
    Inputs,
    Lnc,
    MaxTrips,
    Place,
    Seed,
    Skip,
    Strict,
    Target,
    Timeout,
    WhatIf,
    called_kernel,
)


def run(
    kernel: Place,
    inputs: Inputs = None,
    args: Arguments = None,
    seed: Seed = 0,
    call: Call = None,
    check: Check = None,
    rtol: Annotated[Any, declared("rtol")] = None,
    atol: Annotated[Any, declared("atol")] = None,
    target: Target = None,
    show: Annotated[Any, declared("show")] = None,
    quiet: Annotated[bool, declared("quiet")] = False,
    save: Annotated[Any, declared("save")] = None,
    json: Annotated[bool, declared("json")] = False,
    bench: Annotated[bool, declared("bench")] = False,
    analyse: Analyse = None,
    what_if: WhatIf = None,
    lnc: Lnc = None,
    timeout: Timeout = None,
    capacity: Capacity = None,
    skip: Skip = None,
    strict: Strict = False,
    allow: Allow = None,
    max_trips: MaxTrips = None,
    debug: Debug = False,
) -> None:
    """Compile, simulate and time a kernel of a file, and check its result.

    nki-lab run add.py:add --input a=randn:128x512 --input b=randn:128x512 --check 'a + b'

    Expressions may use the parameters of the kernel, the names of the file, and np.
    """
    from nki_lab.errors import UnknownOption
    from nki_lab.session.parsing import check_together
    from nki_lab.session.run_json import run_json
    from nki_lab.session.saving import keep
    from nki_lab.session.views import answers, lists_findings, summary, view_text

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
    views = () if quiet else ("report",) if show is None else show
    reported = lists_findings(views)
    asked = Namespace(
        quiet=quiet, show=show, analyse=analyse, what_if=what_if, bench=bench, json=json
    )
    check_together(asked)
    if json and show:
        raise UnknownOption(
            "--show cannot be combined with --json: the output would not be valid JSON",
            help="leave out --show or --json",
        )

    def tell_failed(result: Any, error: Any) -> None:
        if json:
            typer.echo(run_json(result, (), analyse, what_if, bench, failed=error))

    call_of = called_kernel(
        kernel,
        inputs,
        args,
        seed,
        options,
        call,
        check,
        reported and not json,
        rtol,
        atol,
        tell_failed,
    )
    with call_of as (result, comparisons):
        kept = keep(result, save or ())
        if quiet:
            return
        if json:
            typer.echo(run_json(result, comparisons, analyse, what_if, bench, saved=save))
            return
        lines = [summary(result), *(comparison.summary() for comparison in comparisons)]
        for view in views:
            lines += ["", view_text(result, view)]
        for answer in answers(result.profile, analyse, what_if):
            lines += ["", answer]
        lines += ["", str(result.benchmark())] if bench else []
        lines += ["", *kept] if kept else []
        typer.echo("\n".join(lines))
