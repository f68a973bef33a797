"""The command `nki-lab explain`."""

from __future__ import annotations

from argparse import Namespace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from nki_lab.cli.declared import with_options


class OptionsAreTopics(TyperCommand):
    """A command whose argument may be the name of an option: `nki-lab explain --check`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--target` alone for a topic; other options of the table are not this command's."""
        return super().parse_args(ctx, ["--", *args] if args == ["--target"] else args)


@with_options("explain")
def explain(
    options: Namespace,
    context: typer.Context,
    topic: Annotated[
        str,
        typer.Argument(
            help="an error code (NKI203), instruction (nc_matmul), function of nki.language"
            " (nl.softmax), method of a tensor (t.reshape), option (--show), magic (%nki), command (migrate),"
            " variable, target, memory (psum) or engine"
        ),
    ],
) -> None:
    """Explain an error code, an instruction, a function, a method, an option, a chip, a memory or an engine.

    nki-lab explain NKI203

    nki-lab explain nc_matmul --target trn3

    nki-lab explain --check
    """
    from nki_lab.choices import Choices
    from nki_lab.errors import UnknownTopic
    from nki_lab.explain.pages import explain as page

    is_command = _print_help(context, topic)
    try:
        typer.echo(page(topic, Choices.current().replace(target=options.target).chip))
    except UnknownTopic:
        if not is_command:
            raise


def _print_help(context: typer.Context, topic: str) -> bool:
    """Print the help of the command that a topic names; return whether it names one."""
    parent = context.parent
    if parent is None or not isinstance(parent.command, TyperGroup):
        return False
    command = parent.command.commands.get(topic.strip().removeprefix("nki-lab "))
    if command is None:
        return False
    with typer.Context(command, info_name=command.name, parent=parent) as inner:
        typer.echo(command.get_help(inner).strip())  # rich prints by itself, and returns nothing
    return True
