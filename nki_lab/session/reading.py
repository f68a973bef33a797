"""Reads the line behind a magic into values.

argparse does the work. Here its errors become UnknownOption with close matches and a place in the
cell: IPython would print its own UsageError and let the cell pass.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable
from typing import Any, NoReturn

from nki_lab.choices import BadValue, Choice
from nki_lab.errors import UnknownOption, close_matches
from nki_lab.session.questions import all_options, choice_named, options_of
from nki_lab.source import Stack

#: Gives the place of a part of the line: (text of the option or word, column in it, width).
Locate = Callable[[str, int, int], Stack]


def nowhere(word: str, column: int, width: int) -> Stack:
    """Locate nothing: there is no cell."""
    return ()


def parse_line(command: str, line: str, locate: Locate = nowhere) -> argparse.Namespace:
    """Read the options of `command` from a line with shell-like quoting.

    Args:
        command: a magic that has options, e.g. "%%nki".
        line: everything behind the name of the magic.
        locate: gives the place of a word, for the error.

    Returns:
        One attribute per option the command has; what was not given has its default.

    Raises:
        UnknownOption: an option or a value the command does not take.
    """
    options = options_of(command)
    parser = _OptionParser(command, options, locate)
    words = _joined(_split(command, line, locate), options)
    _refuse_repeated(command, words, options, locate)
    values, rest = parser.parse_known_args(words)
    if rest:
        raise _unexpected(command, rest[0], options, locate)
    for option in options:
        text = getattr(values, option.name)
        if isinstance(text, str):
            setattr(values, option.name, read_value(option, text, locate))
    check_together(values, locate)
    return values


def check_together(values: argparse.Namespace, locate: Locate = nowhere) -> None:
    """Raise UnknownOption where an option was given that cannot act beside another one."""
    for option in all_options():
        if getattr(values, option.name, None):
            for name, why in option.against.items():
                if getattr(values, name, None):
                    flag = choice_named(name).flag
                    raise UnknownOption(
                        f"{flag} cannot be combined with {option.flag}: {why}",
                        stack=locate(flag, 0, len(flag)),
                        help=f"leave out {flag} or {option.flag}",
                    )


def read_value(option: Choice, text: str, locate: Locate = nowhere) -> Any:
    """Turn the text of one option's value into the value; UnknownOption says what it takes."""
    try:
        return option.parse(text)
    except BadValue as error:
        raise UnknownOption(
            f"{option.flag}: {error}",
            stack=locate(text or option.flag, error.column, error.width or len(text)),
            help=error.help,
        ) from None


def option_help(command: str) -> str:
    """Return the options of a command as the help of `command?` shows them."""
    parser = _OptionParser(command, options_of(command), nowhere)
    return parser.format_help()


class _OptionParser(argparse.ArgumentParser):
    def __init__(self, command: str, known: tuple[Choice, ...], locate: Locate) -> None:
        super().__init__(
            prog=command,
            add_help=False,
            allow_abbrev=False,
            exit_on_error=False,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=88),
        )
        self.known = known
        self.locate = locate
        for option in known:
            text = option.help_text.replace("%", "%%")
            if option.is_switch:
                self.add_argument(option.flag, dest=option.name, action="store_true", help=text)
            else:
                self.add_argument(option.flag, dest=option.name, metavar=option.metavar, help=text)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        try:
            return super().parse_known_args(args, namespace)
        except argparse.ArgumentError as error:
            self.refuse(error.argument_name, error.message)

    def error(self, message: str) -> NoReturn:
        self.refuse(None, message)

    def refuse(self, flag: str | None, message: str) -> NoReturn:
        option = next((o for o in self.known if o.flag == flag), None)
        if option is None:
            raise UnknownOption(f"{self.prog}: {message}", help=f"{self.prog}? lists what it takes")
        word = option.flag
        if option.is_switch:
            raise UnknownOption(
                f"{word} is a switch and takes no value",
                stack=self.locate(word, 0, len(word)),
                help=f"write {word} alone",
            )
        raise UnknownOption(
            f"{word} needs a value: {word} {option.metavar}",
            stack=self.locate(word, 0, len(word)),
            help=f"put quotes around a value with spaces, and write {word}=... for one that starts with a dash",
        )


def _split(command: str, line: str, locate: Locate) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UnknownOption(
            f"{command}: {str(error).lower()} in the options",
            stack=locate(line.strip(), 0, len(line.strip())),
            help="quote a value like this: --run 'add(a, b)'",
        ) from None


def _joined(words: list[str], known: tuple[Choice, ...]) -> list[str]:
    """Attach values that start with a dash to their option, which argparse would take for options."""
    with_value = {o.flag for o in known if not o.is_switch}
    joined: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in with_value:
            value = next(rest, None)
            if value is None or re.match(r"--[A-Za-z]", value):
                joined.append(word)
                if value is not None:
                    joined.append(value)
            else:
                joined.append(f"{word}={value}")
        else:
            joined.append(word)
    return joined


def _refuse_repeated(
    command: str, words: list[str], known: tuple[Choice, ...], locate: Locate
) -> None:
    for option in known:
        given = [w for w in words if w.partition("=")[0] == option.flag]
        if len(given) > 1:
            raise UnknownOption(
                f"{command}: {option.flag} is given {len(given)} times",
                stack=locate(option.flag, 0, len(option.flag)),
                help="give it once",
            )


def _unexpected(
    command: str, word: str, known: tuple[Choice, ...], locate: Locate
) -> UnknownOption:
    name = word.partition("=")[0]
    stack = locate(name, 0, len(name))
    flags = [o.flag for o in known]
    options = f"options: {', '.join(flags)}" if flags else f"{command} has no options"
    if word.startswith("-"):
        near = close_matches(name, flags) or close_matches(f"-{name}", flags)
        return UnknownOption(
            f"{command} has no option `{name}`", stack=stack, notes=(options,), help=near
        )
    near = close_matches(f"--{name}", flags)
    with_value = next((o for o in known if not o.is_switch), None)
    quoted = f"put quotes around a value with spaces: {with_value.flag} '...'" if with_value else ""
    return UnknownOption(
        f"{command}: unexpected `{word}`",
        stack=stack,
        notes=(options,),
        help=near or quoted or f"leave out `{word}`",
    )
