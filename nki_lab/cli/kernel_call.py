"""Calls a kernel of a file, for the commands that do."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from nki_lab.session.questions import choice_named

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


@contextmanager
def answered(
    command: str,
    place: str,
    inputs: list[str] | None,
    args: list[str] | None,
    options: Namespace,
) -> Iterator[Any]:
    """Load a kernel, call it, and yield the Answer; the options act, and the time limit holds, in the whole block.

    Args:
        command: that was given.
        place: FILE.py:KERNEL.
        inputs, args: what its arguments are made of.
        options: values of the command's choices.
    """
    from nki_lab.cli.kernel_file import prepare_call
    from nki_lab.session.request import Request, session

    Request(command, options, {}, call=lambda: None).refuse_alone()
    refuse_idle(place, options)
    with session(options) as runs:
        prepared = prepare_call(
            place,
            inputs or [],
            args or [],
            options.seed or 0,
            options.target,
            options.lnc,
            is_called=options.run is None,
        )

        def call() -> Any:
            return prepared.kernel.launch(**prepared.arguments)

        name = prepared.kernel.__name__
        request = Request(command, options, prepared.scope, call=call, kernel=name)
        yield request.answer(runs)


def refuse_idle(
    place: str,
    options: Namespace,
    names: tuple[str, ...] = ("skip_passes", "capacity", "nki", "allow", "debug"),
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
        if getattr(options, name, None):
            flag = choice_named(name).flag
            raise UnknownOption(
                f"{place} is already compiled: {flag} has no effect on it",
                help=f"compile it again with {flag}, or leave {flag} out",
            )
