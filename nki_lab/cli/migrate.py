"""`nki-lab migrate`."""

from __future__ import annotations

from argparse import Namespace
from typing import Annotated, Any

import typer

from nki_lab.cli.declared import with_options
from nki_lab.cli.kernel_call import Arguments, Inputs

Place = Annotated[
    str,
    typer.Argument(
        metavar="FILE.py[::KERNEL]", help="the file to move; the kernel is the one that is called"
    ),
]


@with_options("migrate")
def migrate(
    options: Namespace,
    place: Place,
    inputs: Inputs = None,
    args: Arguments = None,
    call: Annotated[
        str | None,
        typer.Option(
            "--call",
            metavar="EXPR",
            help="calls kernels to compare by, e.g. 'add(rng.random((128, 64)), 2)'; it may use the file's names, np"
            " and rng. Without it, --input and --arg, the file is run, and the calls in it are taken",
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="write the file anew, where every value is equal")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="only tell by the exit code whether there is anything to move: 1"
        ),
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="print the change as a unified diff")
    ] = False,
) -> None:
    """Move the kernels of a file to today's NKI, and prove by value that they compute the same.

    nki-lab migrate add.py::add --input a=randn:128x512 --input b=randn:128x512 --diff

    Both versions run on the same inputs, on other values, and on other shapes and dtypes where the kernel takes them.
    A file whose values would differ is not written. What cannot be moved by a rule is left with a comment
    `# migrate: ...` above it. The exit code is 1 where values differ, or anything is left to decide. Of a quotient that
    is now a product, the last bits differ; --accept division takes it where nothing else is the cause.
    """
    from nki_lab.api.install import aliases
    from nki_lab.choices import inside
    from nki_lab.migration.api import split_place
    from nki_lab.migration.moving import migrated, module_of, since_named
    from nki_lab.runtime.time_limit import time_limit
    from nki_lab.versions import NEWEST, version_named

    file, name = split_place(place)
    module = module_of(file)
    caller = _caller(module.filename, name, call, inputs or [], args or [], options.seed or 0)
    given = vars(options)
    since = since_named(given["from"], module)
    to = version_named(given["to"]) if given["to"] else NEWEST
    with aliases(), inside(target=options.target, lnc=options.lnc), time_limit(options.timeout):
        migration = migrated(module, caller, since, to, options.seed or 0, given["accept"] or "")
        typer.echo(migration.report())
    if diff and migration.is_moved:
        typer.echo(migration.diff())
    if check:
        raise typer.Exit(int(migration.is_moved))
    if write and migration.is_moved:
        typer.echo(f"written to {migration.write()}")
    migration.refuse_difference()
    raise typer.Exit(int(bool(migration.undecided)))


def _caller(
    filename: str, name: str, call: str | None, inputs: list[str], args: list[str], seed: int
) -> Any:
    """Return what calls the kernels of a module; None where the file is to do so itself."""
    from nki_lab.cli.kernel_file import read_arguments
    from nki_lab.errors import UnknownOption
    from nki_lab.migration.api import calling, evaluating

    if call is None:
        if not (name or inputs or args):
            return None
        return calling(name, (), read_arguments(inputs, args, seed), filename)
    if inputs or args:
        raise UnknownOption(
            "--call and --input or --arg both say what to compare by", help="leave one of them out"
        )
    return evaluating(call, seed)
