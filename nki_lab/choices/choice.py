"""A choice: its name, flag and help, how the text of its value is read, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nki_lab.errors import NkiError, UnknownOption, close_matches
from nki_lab.targets.spec import Target


class BadValue(ValueError):
    """A value that a choice cannot take; the text says which it takes.

    Args:
        message: what was found and what was expected.
        help: what to write instead.
        column, width: where in the value it goes wrong.
    """

    def __init__(self, message: str, help: str = "", column: int = 0, width: int = 0) -> None:
        super().__init__(message)
        self.help = help
        self.column = column
        self.width = width


#: The stage of a run that a choice changes.
COMPILE, RUN, SHOW = "compile", "run", "show"

#: Every choice, in the order of its block.
CHOICES: list[Choice] = []


class Standard(str):
    """The value of a choice that nobody has made for this kernel: its dialect may have another one."""


@dataclass(eq=False)
class Choice:
    """One choice. Constructing it declares it.

    Attributes:
        name: of the attribute that holds its value, and of the keyword in Python.
        metavar: what stands for its value in help texts; empty for a switch.
        help: one sentence on what it does; {values} stands for the values it takes.
        commands: magics ("%%nki"), subcommands ("run"), functions ("nki_lab.run") and "pytest", where they have it.
        read: turns the text of a value into the value, or raises BadValue; None for a choice that only code makes.
        values: every value it takes, where they can be listed.
        default: its value when nobody chooses.
        env: environment variable that chooses it.
        acts: the stage that it changes.
        typed: the option without its dashes, where that is not the name.
        check: raises an NkiError for a value that cannot act.
        about_run: it asks something about a run, and is an error where nothing runs.
        against: choices that it cannot act beside, and why.
        meanings: what each of the values means, where that is not plain.
    """

    name: str
    metavar: str
    help: str
    commands: tuple[str, ...] = ()
    read: Callable[[str, Choice], Any] | None = lambda text, choice: text
    values: tuple[str, ...] = ()
    default: Any = None
    env: str = ""
    acts: str = SHOW
    typed: str = ""
    check: Callable[[Any], Any] | None = None
    about_run: bool = False
    against: Mapping[str, str] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        CHOICES.append(self)

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{(self.typed or self.name).replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """True for an option without a value."""
        return not self.metavar

    @property
    def help_text(self) -> str:
        """The sentence on what it does, with the values it takes where these are loaded."""
        values = ", ".join(self.values)
        return (
            self.help.replace("{values}", values) if values else self.help.replace(": {values}", "")
        )

    def offer(self, values: Iterable[str], check: Callable[[Any], Any] | None = None) -> None:
        """Say which values the choice takes; called by the room where it acts, once that is loaded."""
        self.values, self.check = tuple(values), check

    def parse(self, text: str) -> Any:
        """Turn the text of a value into the value; BadValue says what is allowed."""
        assert self.read is not None
        value = self.read(text, self)
        if self.check is not None:
            try:
                self.check(value)
            except NkiError as error:
                raise BadValue(error.message, error.help) from None
        return value

    def take(self, value: Any, said: str = "") -> Any:
        """Return a value given in Python, or as the text of an environment variable, as the value.

        Args:
            value: what was given.
            said: how it was given, for the error.
        """
        if self.read is None or value is self.default or isinstance(value, (Target, Standard)):
            return value
        texts = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
        text = ",".join(map(str, texts))
        if self.is_switch and isinstance(value, bool):
            return value
        try:
            return self.read(text, self)
        except BadValue as error:
            if self.is_switch and not said:
                raise UnknownOption(
                    f"{self.name}={value!r} is neither True nor False",
                    help=f"write {self.name}=True",
                ) from None
            message = f"{said or self.name}={text}: {error}"
            raise UnknownOption(message, help=error.help) from None

    def text(self, value: Any) -> str:
        """Return a value as it stands in the environment."""
        if isinstance(value, bool):
            return str(int(value))
        if isinstance(value, tuple):
            return ",".join(map(str, value)) or "none"
        return value.name if isinstance(value, Target) else str(value)


def refuse_none_of(word: str, choice: Choice, column: int = 0) -> BadValue:
    """Return the error for a word that is none of the values of a choice."""
    near = close_matches(word, choice.values)
    return BadValue(f"`{word}` is not one of {', '.join(choice.values)}", near, column, len(word))


def one_of(text: str, choice: Choice) -> str:
    """Read one of the values of a choice."""
    if not text:
        raise BadValue(f"the value is empty; it takes {', '.join(choice.values)}", "leave it out")
    if text not in choice.values:
        raise refuse_none_of(text, choice)
    return text


def names(text: str, choice: Choice | None = None) -> tuple[str, ...]:
    """Read names separated by commas; "none" and "" are none."""
    return () if text in ("", "none") else tuple(word.strip() for word in text.split(","))


def acting() -> list[Choice]:
    """Return the choices that `Choices` holds: those about compiling and running, and those of the environment."""
    return [choice for choice in CHOICES if choice.acts != SHOW or choice.env]


def from_environment() -> list[Choice]:
    """Return the choices that an environment variable makes."""
    return [choice for choice in CHOICES if choice.env]
