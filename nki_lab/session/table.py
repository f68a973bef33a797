"""Which options are there, what does each take, and which commands have it?

    %%nki --target trn2 --run "add(a, b)"          nki-lab run add.py:add --target trn2

An option is declared here once; the magics' parser, the command line, completion, `%%nki?` and
`%nki_explain --target` all read this table. To add one, add a row and read its value where it acts.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

from nki_lab.compiler.findings import allowable
from nki_lab.compiler.pipeline import SKIPPABLE, check_skipped
from nki_lab.errors import NkiError, UnknownOption, UnknownTarget, close_matches, error_classes
from nki_lab.profiler.answers import ANALYSES
from nki_lab.session.saving import ENDINGS
from nki_lab.settings import VARIABLES
from nki_lab.targets import get_target, target_names
from nki_lab.timing.what_if import CHANGES, check_changes
from nki_lab.views.registry import view_names


class BadValue(ValueError):
    """A value an option cannot take; the text says what it takes.

    Args:
        message: what was found and what was expected.
        help: what to write instead.
        column, width: where in the value it goes wrong, if known.
    """

    def __init__(self, message: str, help: str = "", column: int = 0, width: int = 0) -> None:
        super().__init__(message)
        self.help = help
        self.column = column
        self.width = width


@dataclass(frozen=True)
class Expression:
    """A Python expression given as the value of an option: its text and the compiled form."""

    text: str
    code: CodeType
    filename: str


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name: attribute that holds its value, and the flag without its dashes.
        metavar: what stands for its value in help texts; empty for a switch.
        help: one sentence on what it does.
        commands: magics ("%%nki") and subcommands ("run") that have it.
        read: turns the text of a value into the value, or raises BadValue.
        choices: every value it takes, where they can be listed.
        default: its value when it is not given.
        about_run: it says something about a run, and is an error where nothing runs.
        against: options that it cannot act beside, and why; a value that shows nothing is beside everything.
    """

    name: str
    metavar: str
    help: str
    commands: tuple[str, ...]
    read: Callable[[str, Option], Any] = lambda text, option: text
    choices: tuple[str, ...] = ()
    default: Any = None
    about_run: bool = False
    against: Mapping[str, str] = field(default_factory=dict)

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def is_switch(self) -> bool:
        """True for an option without a value."""
        return not self.metavar

    def parse(self, text: str) -> Any:
        """Turn the text of a value into the value; BadValue says what is allowed."""
        return self.read(text, self)


def _one_of(text: str, option: Option) -> str:
    if text not in option.choices:
        raise BadValue(
            f"`{text}` is none of {', '.join(option.choices)}", close_matches(text, option.choices)
        )
    return text


def _target(text: str, option: Option) -> str:
    try:
        get_target(text)
    except UnknownTarget as error:
        raise BadValue(error.message, error.help) from None
    return text.strip().lower()


def _views(text: str, option: Option) -> tuple[str, ...]:
    chosen = [word.strip() for word in text.split(",")]
    if chosen == ["none"]:
        return ()
    for word in chosen:
        if word == "none":
            raise BadValue("`none` stands alone, it cannot be combined with views")
        if word not in view_names():
            column = text.index(word) if word else 0
            found = f"`{word}` is no view" if word else "the name of a view is missing"
            raise BadValue(
                f"{found}: write none, or views separated by commas: {', '.join(view_names())}",
                close_matches(word, (*view_names(), "none")),
                column,
                len(word),
            )
    return tuple(view for view in view_names() if view in chosen)


def _words(text: str, option: Option) -> tuple[str, ...]:
    chosen = tuple(word.strip() for word in text.split(","))
    for word in chosen:
        if word not in option.choices:
            raise BadValue(
                f"`{word}` is none of {', '.join(option.choices)}",
                close_matches(word, option.choices),
                text.index(word) if word else 0,
                len(word),
            )
    return tuple(dict.fromkeys(chosen))


def _changes(text: str, option: Option) -> tuple[str, ...]:
    changes = tuple(word.strip() for word in text.split(","))
    try:
        check_changes(changes)
    except UnknownOption as error:
        raise BadValue(error.message, error.help) from None
    return changes


def _files(text: str, option: Option) -> tuple[Path, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise BadValue(f"`{text}` lacks the name of a file", "for example run.json,page.html")
    files = tuple(Path(word) for word in words)
    for file in files:
        if file.suffix.lower() not in ENDINGS:
            raise BadValue(
                f"`{file}` ends with none of {', '.join(ENDINGS)}",
                "the ending says what is kept: " + "; ".join(f"{e} {ENDINGS[e]}" for e in ENDINGS),
                text.index(str(file)) if str(file) in text else 0,
                len(str(file)),
            )
    return files


def _cores(text: str, option: Option) -> int:
    return int(_one_of(text, option))


def _variable(text: str, option: Option) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise BadValue(
            f"`{text}` cannot name a variable", "write a Python name such as result or run_1"
        )
    return text


def _seconds(text: str, option: Option) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 1e6:
        raise BadValue(f"`{text}` is no number of seconds above 0", "write for example 2.5")
    return seconds


def _nanoseconds(text: str, option: Option) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < 2**62:
        raise BadValue(f"`{text}` is no time in ns from 0 on", "write for example 250000")
    return number


def _tolerance(text: str, option: Option) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise BadValue(f"`{text}` is no number from 0 on", "write for example 2e-2")
    return number


def _expression(text: str, option: Option) -> Expression:
    filename = f"<{option.flag}>"
    try:
        code = compile(ast.parse(text, filename, "eval"), filename, "eval", dont_inherit=True)
    except SyntaxError as error:
        line = text.splitlines()[(error.lineno or 1) - 1] if text.strip() else ""
        column = text.index(line) + min(max((error.offset or 1) - 1, 0), len(line))
        raise BadValue(
            f"{error.msg}" if text.strip() else "the expression is empty",
            "write one Python expression; quote it if it contains spaces",
            column,
            1,
        ) from None
    except ValueError as error:  # a null byte
        raise BadValue(str(error), "write one Python expression") from None
    return Expression(text, code, filename)


def _passes(text: str, option: Option) -> str:
    try:
        check_skipped(word.strip() for word in text.split(","))
    except UnknownOption as error:
        raise BadValue(error.message, error.help) from None
    return text


def _codes(text: str, option: Option) -> str:
    return ",".join(_words(text, option))


def _count(text: str, option: Option) -> str:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadValue(f"`{text}` is not a whole number above 0", "write for example 1000000")
    return text


def _error(text: str, option: Option) -> type[NkiError]:
    known = {name: kind for kind in error_classes() for name in (kind.code, kind.__name__)}
    if text not in known:
        raise BadValue(
            f"`{text}` is no error of nki_lab",
            close_matches(text, known) or "write the code that stands in its first line",
        )
    return known[text]


_CELL, _LINE, _RUN, _PROFILE = "%%nki", "%nki", "run", "profile"
_EXERCISE = ("%nki_exercise",)
_NOTEBOOK = (_CELL, _LINE)
_ALL = (*_NOTEBOOK, _RUN, _PROFILE)

OPTIONS: tuple[Option, ...] = (
    Option(
        "run",
        "EXPR",
        "call the kernel, e.g. --run 'add(a, b)': compile, simulate and time it, and show the run",
        _ALL,
        _expression,
    ),
    Option(
        "check",
        "EXPR",
        "compare the result with this expression, taken before the run; the cell or command fails"
        " when it differs by more than the dtype's tolerance",
        (*_NOTEBOOK, _RUN),
        _expression,
    ),
    Option(
        "rtol",
        "NUMBER",
        "relative tolerance of --check, instead of the dtype's: for results that were rounded on the way",
        (*_NOTEBOOK, _RUN),
        _tolerance,
    ),
    Option(
        "atol",
        "NUMBER",
        "absolute tolerance of --check, instead of the dtype's",
        (*_NOTEBOOK, _RUN),
        _tolerance,
    ),
    Option(
        "target",
        "NAME",
        f"chip to compile for: {', '.join(target_names())}; wins over the session and the environment",
        _ALL,
        _target,
        target_names(),
    ),
    Option(
        "show",
        "VIEWS",
        f"views of the run, separated by commas: {', '.join(view_names())}; or none. What a direct call would"
        " warn of is always printed where no report lists it",
        (*_NOTEBOOK, _RUN),
        _views,
        (*view_names(), "none"),
        about_run=True,
    ),
    Option(
        "name",
        "VAR",
        "variable that gets the Result of the run; otherwise <kernel>_result",
        _NOTEBOOK,
        _variable,
        about_run=True,
    ),
    Option(
        "quiet",
        "",
        "print and show nothing but errors, checks that fail, and what a direct call would warn of",
        (*_NOTEBOOK, _RUN),
        default=False,
        against=dict.fromkeys(
            ("show", "analyse", "what_if", "bench", "compare", "json"), "nothing would be shown"
        ),
    ),
    Option(
        "expect",
        "ERROR",
        "the cell is to end with this error, such as NKI107: it is printed, and the cell fails if"
        " another one comes or none",
        _NOTEBOOK,
        _error,
    ),
    Option(
        "analyse",
        "WHAT",
        f"say more about the time of the run, separated by commas: {', '.join(ANALYSES)}",
        _ALL,
        _words,
        tuple(ANALYSES),
        about_run=True,
    ),
    Option(
        "what_if",
        "CHANGES",
        "time the program again with some costs gone, separated by commas:"
        f" {', '.join(CHANGES)}, or line=12 for all that a line asks for",
        _ALL,
        _changes,
        tuple(CHANGES),
        about_run=True,
    ),
    Option(
        "bench",
        "",
        "say how long the model takes for one call, and for each of many calls right behind each other",
        (*_NOTEBOOK, _RUN),
        default=False,
        about_run=True,
    ),
    Option(
        "compare",
        "EXPR",
        "say where the time of the run differs from that of another one: a Result, a Profile, or the name of a"
        " stored profile's file",
        _NOTEBOOK,
        _expression,
        about_run=True,
    ),
    Option(
        "save",
        "FILES",
        f"keep the run, files separated by commas: {', '.join(ENDINGS)}",
        (*_NOTEBOOK, _RUN),
        _files,
        about_run=True,
    ),
    Option(
        "json",
        "",
        "print what is known about the run as one JSON document, instead of sentences and views",
        (*_NOTEBOOK, _RUN),
        default=False,
        about_run=True,
    ),
    Option(
        "lnc",
        "CORES",
        "launch on so many cores of a logical core: 1 or 2",
        _ALL,
        _cores,
        ("1", "2"),
    ),
    Option(
        "timeout",
        "SECONDS",
        "stop with an error after so many seconds",
        _ALL,
        _seconds,
    ),
    Option(
        "capacity",
        "WHAT",
        "when SBUF or PSUM does not fit: error, or finding, which runs the kernel anyway and always says so",
        _ALL,
        _one_of,
        VARIABLES["capacity"].choices,
    ),
    Option(
        "skip",
        "PASSES",
        f"compiler passes to leave out, separated by commas: {', '.join(SKIPPABLE)}",
        _ALL,
        _passes,
        SKIPPABLE,
    ),
    Option(
        "strict",
        "",
        "treat findings (memory read before it is written, what another compiler refuses) as errors",
        _ALL,
        default=False,
    ),
    Option(
        "allow",
        "CODES",
        "errors that are findings instead, separated by commas, so that kernels written for an older NKI run: "
        + ", ".join(
            f"{code} (refused since NKI {e.refused_since})" for code, e in allowable().items()
        ),
        _ALL,
        _codes,
        tuple(allowable()),
    ),
    Option(
        "max_trips",
        "COUNT",
        "stop with an error when the device loops of a run have made this many trips together;"
        f" {int(VARIABLES['max_trips'].default):,} unless given",
        _ALL,
        _count,
    ),
    Option(
        "debug",
        "",
        "run instructions while they are traced: print(tile) and breakpoint() in the kernel see values",
        _ALL,
        default=False,
    ),
    Option("hint", "", "read the next hint of the exercise", _EXERCISE, default=False),
    Option(
        "check",
        "KERNEL",
        "hand in the answer, e.g. --check add_rows: it is tried, and the cell fails with a reason where it is wrong",
        _EXERCISE,
        _expression,
    ),
    Option(
        "cause", "NAME", "what is wrong with the kernel, for exercises that mend one", _EXERCISE
    ),
)

# Of two options with one name that mean another thing in other commands, the first.
#: Magics that show a run or a stored profile, and can show a span of its time.
SPANNED = ("%nki_timeline", "%nki_profile", "%nki_summary")
OPTIONS += tuple(
    Option(
        name,
        "NS",
        f"look only at what happens {when} this time, in ns from the start of the run",
        (*SPANNED, _PROFILE),
        _nanoseconds,
    )
    for name, when in (("from", "from"), ("to", "before"))
)

BY_NAME = {option.name: option for option in reversed(OPTIONS)}


def options_of(command: str) -> tuple[Option, ...]:
    """Return the options a magic or subcommand has, in the order of its help."""
    return tuple(option for option in OPTIONS if command in option.commands)
