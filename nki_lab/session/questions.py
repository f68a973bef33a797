"""Declares what a cell or a command can ask about a run; the choices about the run itself are in `nki_lab.choices`.

%%nki --target trn2 --run "add(a, b)"          nki-lab run add.py:add --target trn2
"""

from __future__ import annotations

import ast
import keyword
import math
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

# With these rooms loaded, every choice knows the values that it takes.
import nki_lab.backends
import nki_lab.compiler.pipeline  # noqa: F401
from nki_lab.choices import (
    CELL,
    CHOICES,
    NKI,
    NOTEBOOK,
    RUNS,
    SHOW,
    TARGET,
    BadValue,
    Choice,
    number,
    one_of,
    refuse_none_of,
)
from nki_lab.errors import NkiError, close_matches, error_classes
from nki_lab.frameworks.operator import NAME
from nki_lab.profiler.answers import ANALYSES
from nki_lab.session.saving import ENDINGS
from nki_lab.timing.what_if import CHANGES, check_changes
from nki_lab.versions import VERSIONS
from nki_lab.views.registry import view_names


@dataclass(frozen=True)
class Expression:
    """A Python expression given as the value of an option: its text and the compiled form."""

    text: str
    code: CodeType
    filename: str


def _views(text: str, choice: Choice) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",")]
    if words == ["none"]:
        return ()
    for word in words:
        if word == "none":
            raise BadValue("`none` stands alone, it cannot be combined with views")
        if word not in view_names():
            problem = f"unknown view `{word}`" if word else "the name of a view is missing"
            raise BadValue(
                f"{problem}: write none, or views separated by commas: {', '.join(view_names())}",
                close_matches(word, choice.values),
                text.index(word) if word else 0,
                len(word),
            )
    return tuple(view for view in view_names() if view in words)


def _words(text: str, choice: Choice) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    for word in words:
        if word not in choice.values:
            raise refuse_none_of(word, choice, text.index(word) if word else 0)
    return tuple(dict.fromkeys(words))


def _changes(text: str, choice: Choice) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _files(text: str, choice: Choice) -> tuple[Path, ...]:
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


def _operator(text: str, choice: Choice) -> str:
    if not NAME.fullmatch(text):
        raise BadValue(
            f"`{text}` does not name an operator",
            "write a namespace and a name, such as lab::rmsnorm",
        )
    return text


def _variable(text: str, choice: Choice) -> str:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise BadValue(
            f"`{text}` cannot name a variable", "write a Python name such as result or run_1"
        )
    return text


def _nanoseconds(text: str, choice: Choice) -> float:
    if not 0 <= number(text) < 2**62:
        raise BadValue(f"`{text}` is not a time in ns from 0 on", "write for example 250000")
    return number(text)


def _tolerance(text: str, choice: Choice) -> float:
    if not 0 <= number(text) < math.inf:
        raise BadValue(f"`{text}` is not a number from 0 on", "write for example 2e-2")
    return number(text)


def _expression(text: str, choice: Choice) -> Expression:
    return expression(text, choice.flag)


def expression(text: str, flag: str) -> Expression:
    """Return the expression that is the value of an option; BadValue for what is not one."""
    filename = f"<{flag}>"
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


def _error(text: str, choice: Choice) -> type[NkiError]:
    kinds = {name: kind for kind in error_classes() for name in (kind.code, kind.__name__)}
    if text not in kinds:
        raise BadValue(
            f"nki_lab has no error `{text}`",
            close_matches(text, kinds) or "write the code from the error's first line",
        )
    return kinds[text]


#: Magics that show a run or a stored profile, and can show a span of its time.
SPANNED = ("%nki_timeline", "%nki_profile", "%nki_summary")
_RUN = (*NOTEBOOK, "run")
_EXERCISE = ("%nki_exercise",)

Choice(
    "run",
    "EXPR",
    "Call the kernel, e.g. --run 'add(a, b)': compile, simulate and time it, and show the run.",
    RUNS,
    _expression,
)
CHECK = Choice(
    "check",
    "EXPR",
    "Compare the result with this expression, evaluated before the run. The cell or command fails when it differs by"
    " more than the tolerance of its dtype.",
    _RUN,
    _expression,
)
Choice(
    "rtol",
    "NUMBER",
    "Relative tolerance of --check, in place of the dtype's: for results rounded in intermediate steps.",
    _RUN,
    _tolerance,
)
Choice(
    "atol", "NUMBER", "Absolute tolerance of --check, in place of the dtype's.", _RUN, _tolerance
)
Choice(
    "show",
    "VIEWS",
    "Views of the run to show, separated by commas: {values}. Warnings are always printed unless a report lists them.",
    _RUN,
    _views,
    (*view_names(), "none"),
    about_run=True,
)
Choice(
    "name",
    "VAR",
    "Variable to store the Result in; otherwise <kernel>_result.",
    NOTEBOOK,
    _variable,
    about_run=True,
)
Choice(
    "quiet",
    "",
    "Print only errors, failed checks and warnings; show no view.",
    _RUN,
    default=False,
    against=dict.fromkeys(
        ("show", "analyse", "what_if", "bench", "compare", "json"), "nothing would be shown"
    ),
)
Choice(
    "expect",
    "ERROR",
    "Expect the cell to end with this error, such as NKI107: print it, and fail on any other error or none.",
    NOTEBOOK,
    _error,
)
Choice(
    "analyse",
    "WHAT",
    "Explain the time of the run in more detail, separated by commas: {values}.",
    RUNS,
    _words,
    tuple(ANALYSES),
    about_run=True,
)
Choice(
    "what_if",
    "CHANGES",
    "Time the program again without some of its costs, separated by commas: {values}, or line=12 for everything that"
    " line 12 costs.",
    RUNS,
    _changes,
    tuple(CHANGES),
    check=check_changes,
    about_run=True,
    meanings={name: change.meaning for name, change in CHANGES.items()},
)
Choice(
    "bench",
    "",
    "Print the modelled latency of one call, and the time per call when calls run back to back.",
    _RUN,
    default=False,
    about_run=True,
)
Choice(
    "compare",
    "EXPR",
    "Show where the time of the run differs from that of a Result, a Profile, or the file of a profile, in quotes.",
    NOTEBOOK,
    _expression,
    about_run=True,
)
Choice(
    "save",
    "FILES",
    "Save the run to files, separated by commas; the ending says what is saved: "
    + ", ".join(ENDINGS)
    + ".",
    _RUN,
    _files,
    about_run=True,
)
Choice(
    "json",
    "",
    "Print everything about the run as one JSON document, in place of sentences and views.",
    _RUN,
    default=False,
    about_run=True,
)
Choice("hint", "", "Read the next hint of the exercise.", _EXERCISE, default=False)
Choice(
    "check",
    "KERNEL",
    "Hand in the answer, e.g. --check add_rows: it is tried, and the cell fails with a reason if it is wrong.",
    _EXERCISE,
    _expression,
)
Choice("cause", "NAME", "What is wrong with the kernel, for exercises that mend one.", _EXERCISE)
for _name, _when in (("from", "from this time on"), ("to", "before this time")):
    Choice(
        _name,
        "NS",
        f"Look only at what happens {_when}, in ns from the start of the run.",
        (*SPANNED, "profile"),
        _nanoseconds,
    )
Choice(
    "target",
    "NAME",
    "Chip of a measured profile that does not say which one it is of: {values}.",
    SPANNED,
    TARGET.read,
    TARGET.values,
    check=TARGET.check,
)
Choice(
    "from",
    "VERSION",
    "Version of NKI that kernels are written for; by default the newest that takes them as they are: {values}. Imports"
    " of neuronxcc.nki say `beta1`.",
    ("migrate",),
    NKI.read,
    NKI.values,
)
TO = Choice(
    "to",
    "VERSION",
    "Version of NKI to write them for; by default the newest: {values}.",
    ("migrate",),
    NKI.read,
    tuple(version.name for version in VERSIONS),
)
ACCEPT = Choice(
    "accept",
    "CAUSE",
    "Take the new text although values differ, where this is proved to be the only cause: {values}.",
    ("migrate", CELL),
    one_of,
    ("division",),
)
for _name, _library, _other in (("torch", "PyTorch", "jax"), ("jax", "JAX", "torch")):
    Choice(
        _name,
        "NAME",
        f"Make the kernel an operator of {_library}, e.g. lab::rmsnorm, in the variable rmsnorm. A kernel"
        " rmsnorm_backward computes its gradients; where there is none, it is made from the instructions.",
        (CELL,),
        _operator,
        against={_other: "both would be in the same variable"},
    )
Choice(
    "migrate",
    "",
    "Move the cell to today's NKI, and insert the new cell below where every value that --run computes is equal.",
    (CELL,),
    default=False,
    against=dict.fromkeys(
        (
            *("check", "rtol", "atol", "show", "name", "quiet", "analyse", "what_if"),
            *("bench", "compare", "save", "json", "debug", "torch", "jax"),
        ),
        "it only compares the two versions of the cell",
    ),
)


def options_of(command: str) -> tuple[Choice, ...]:
    """Return the options of a magic or subcommand in the order of its help: what it asks, then how it runs."""
    options = [choice for choice in CHOICES if command in choice.commands]
    return tuple(sorted(options, key=lambda choice: choice.acts != SHOW))


def all_options() -> tuple[Choice, ...]:
    """Return every choice that a magic or subcommand has as an option."""
    commands = ("%", "run", "profile", "compile", "migrate", "explain")
    options = [c for c in CHOICES if any(name.startswith(commands) for name in c.commands)]
    return tuple(sorted(options, key=lambda choice: choice.acts != SHOW))


def choice_named(name: str) -> Choice:
    """Return the choice of this name; of two that mean something else in other commands, the first."""
    return next(choice for choice in CHOICES if choice.name == name)
