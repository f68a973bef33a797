"""Declares every choice once, and holds what is chosen.

    CAPACITY = Choice("capacity", "WHAT", "When SBUF or PSUM overflows: ...", COMPILES, one_of, ("error", "finding"))

The options of `%%nki` and `%nki`, the flags of `nki-lab`, the keywords of `nki_lab.run` and its relatives, the options
of the pytest plugin, the environment variables, completion and the tables of the documentation are derived from these
blocks. To add a choice, write a block here, or in `session.questions` if it asks something about a run, and read
`choices.<name>` where it acts.

`Choices` holds a value for each of them. It is passed from the call to the compiler and on to the simulator. It does
not change, and it pickles, so that threads and other processes run under the choices they are given.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from nki_lab.errors import (
    KernelArgument,
    NkiError,
    UnknownOption,
    close_matches,
    error_classes,
)
from nki_lab.targets import get_target, target_names
from nki_lab.targets.spec import Target

_F = TypeVar("_F", bound=Callable[..., Any])


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
CELL, LINE = "%%nki", "%nki"
NOTEBOOK = (CELL, LINE)
#: Commands that run a kernel.
RUNS = (*NOTEBOOK, "run", "profile")
#: Functions of nki_lab that run or compile a kernel.
FUNCTIONS = ("nki_lab.run", "nki_lab.benchmark", "nki_lab.launch", "nki_lab.step")
COMPILES = (*RUNS, "compile", "pytest", *FUNCTIONS, "nki_lab.vary")

#: Every choice, in the order of its block.
CHOICES: list[Choice] = []


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
        if self.read is None or value is self.default or isinstance(value, Target):
            return value
        texts = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
        text = ",".join(str(int(t)) if isinstance(t, bool) else str(t) for t in texts)
        try:
            return self.read(text, self)
        except BadValue as error:
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
    return BadValue(f"`{word}` is none of {', '.join(choice.values)}", near, column, len(word))


def one_of(text: str, choice: Choice) -> str:
    """Read one of the values of a choice."""
    if text not in choice.values:
        raise refuse_none_of(text, choice)
    return text


def names(text: str, choice: Choice | None = None) -> tuple[str, ...]:
    """Read names separated by commas; "none" and "" are none."""
    return () if text in ("", "none") else tuple(word.strip() for word in text.split(","))


def _switch(text: str, choice: Choice) -> bool:
    if text not in ("0", "1"):
        raise BadValue(f"`{text}` is neither 0 nor 1")
    return text == "1"


def _target(text: str, choice: Choice) -> str:
    return text.strip().lower()


def _cores(text: str, choice: Choice) -> int:
    return int(one_of(text, choice))


def _count(text: str, choice: Choice) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise BadValue(f"`{text}` is not a whole number above 0", "write for example 1000000")
    return int(text)


def _seed(text: str, choice: Choice) -> int:
    if not (text.isascii() and text.isdigit()):
        raise BadValue(f"`{text}` is not a whole number from 0 on", "write for example 7")
    return int(text)


def _seconds(text: str, choice: Choice) -> float:
    seconds = number(text)
    if not 0 < seconds <= 1e6:
        raise BadValue(f"`{text}` is not a positive number of seconds", "write for example 2.5")
    return seconds


def number(text: str) -> float:
    """Read a number; what is not one is NaN, which no comparison lets pass."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


#: The version of NKI whose rules kernels are held to.
NKI_VERSION = "0.6"


def allowable() -> dict[str, type[NkiError]]:
    """Return what kernels written for an older NKI may be allowed, by code."""
    return {k.code: k for k in error_classes() if k.refused_since and _is_in_force(k)}


def _is_in_force(kind: type[NkiError]) -> bool:
    return _number(kind.refused_since) <= _number(NKI_VERSION)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def check_allowed(codes: Iterable[str]) -> None:
    """Raise UnknownOption for a code that cannot be allowed."""
    permitted = allowable()
    for code in codes:
        if code not in permitted:
            raise UnknownOption(
                f"`{code}` cannot be allowed: only rules that an older NKI did not have can be",
                help=close_matches(code, permitted) or f"allow some of {', '.join(permitted)}",
            )


# -- the choices about compiling and running -------------------------------------------------------------------------

TARGET = Choice(
    "target",
    "NAME",
    "Chip to compile for: {values}.",
    (*COMPILES, "explain"),
    _target,
    target_names(),
    default="trn3",
    env="NEURON_PLATFORM_TARGET_OVERRIDE",
    acts=COMPILE,
    check=get_target,
)
LNC = Choice(
    "lnc",
    "CORES",
    "Number of physical cores to launch on (LNC): 1 or 2.",
    COMPILES,
    _cores,
    ("1", "2"),
    acts=COMPILE,
)
TIMEOUT = Choice("timeout", "SECONDS", "Fail after this many seconds.", RUNS, _seconds, acts=RUN)
SEED = Choice(
    "seed", "NUMBER", "Seed of the random inputs.", ("run", "profile", "compile"), _seed, acts=RUN
)
CAPACITY = Choice(
    "capacity",
    "WHAT",
    "When SBUF or PSUM overflows: stop with an error, or report a finding and run anyway.",
    COMPILES,
    one_of,
    ("error", "finding"),
    default="error",
    env="NKI_LAB_CAPACITY",
    acts=COMPILE,
)
SKIP_PASSES = Choice(
    "skip_passes",
    "PASSES",
    "Compiler passes to leave out, separated by commas: {values}.",
    COMPILES,
    names,
    default=(),
    env="NKI_LAB_SKIP_PASSES",
    acts=COMPILE,
    typed="skip",
)
STRICT = Choice(
    "strict",
    "",
    "Treat findings (memory read before it is written, code that another compiler refuses) as errors.",
    COMPILES,
    _switch,
    default=False,
    env="NKI_LAB_STRICT",
    acts=COMPILE,
)
ALLOW = Choice(
    "allow",
    "CODES",
    "Errors to report as findings, separated by commas, so that a kernel written for an older NKI still runs: "
    + ", ".join(f"{code} (refused since NKI {e.refused_since})" for code, e in allowable().items())
    + ".",
    COMPILES,
    names,
    tuple(allowable()),
    default=(),
    env="NKI_LAB_ALLOW",
    acts=COMPILE,
    check=check_allowed,
)
MAX_TRIPS = Choice(
    "max_trips",
    "COUNT",
    "Fail when the device loops of a run have made more trips than this in total; the default is 10,000,000.",
    (*RUNS, "pytest", *FUNCTIONS),
    _count,
    default=10_000_000,
    env="NKI_LAB_MAX_TRIPS",
    acts=RUN,
)
DEBUG = Choice(
    "debug",
    "",
    "Run instructions while they are traced, so that print(tile) and breakpoint() in the kernel see values.",
    (*RUNS, "pytest", "nki_lab.run"),
    _switch,
    default=False,
    env="NKI_LAB_DEBUG",
    acts=RUN,
)
BACKEND = Choice(
    "backend",
    "NAME",
    "What runs the kernel: {values}.",
    (*RUNS, *FUNCTIONS),
    default="simulator",
    env="NKI_LAB_BACKEND",
    acts=RUN,
)
PRECISE_FP = Choice(
    "precise_fp",
    "",
    "1 rounds results to the tile's dtype on every write; 0 keeps floats in float32.",
    read=_switch,
    default=True,
    env="NKI_PRECISE_FP",
    acts=RUN,
)
SIMULATOR = Choice(
    "simulator",
    "",
    "Where a kernel runs when you call it: 1 for the simulator; 0 for a device, which is an error here.",
    read=_switch,
    default=True,
    env="NKI_SIMULATOR",
    acts=RUN,
)
PROGRESS = Choice(
    "progress",
    "FILE",
    "File where solved exercises are kept: `user` is one in the user's data folder, `none` keeps them until the kernel"
    " ends.",
    default="user",
    env="NKI_LAB_PROGRESS",
)
# What only code chooses.
Choice("record", "", "Keep the program after each pass.", read=None, default=True, acts=COMPILE)
_HELP = "Shape of the launch grid, `(2,)` for `kernel[2]`; `()` for a kernel called without one."
Choice("grid", "", _HELP, read=None, default=(), acts=COMPILE)
_HELP = "(name, names it waits for) of instructions, from `kernel.with_schedule`."
Choice("schedule", "", _HELP, read=None, default=(), acts=COMPILE)
_HELP = (
    "Put on-chip tensors into one byte array per memory, as on the chip: slower, the same values."
)
Choice("shared_bytes", "", _HELP, read=None, default=False, acts=RUN)


def acting() -> list[Choice]:
    """Return the choices that `Choices` holds: those about compiling and running, and those of the environment."""
    return [choice for choice in CHOICES if choice.acts != SHOW or choice.env]


def from_environment() -> list[Choice]:
    """Return the choices that an environment variable makes."""
    return [choice for choice in CHOICES if choice.env]


# -- what is chosen --------------------------------------------------------------------------------------------------


class Choices:
    """What is chosen: one attribute for each choice about compiling and running.

    `Choices(capacity="finding")` chooses one and leaves the others at their defaults, whatever the environment says;
    `Choices.current()` is what holds where it is called.
    """

    def __init__(self, **given: Any) -> None:
        values = vars(self)
        for choice in acting():
            value = given.pop(choice.name, None)
            values[choice.name] = choice.default if value is None else choice.take(value)
        if given:
            raise unknown_choice(next(iter(given)), [choice.name for choice in acting()])

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @classmethod
    def current(cls) -> Choices:
        """Return what holds here: in the block around the caller, else in this process, else in the environment."""
        inside = _inside.get()
        current = object.__new__(cls)
        values = vars(current)
        for choice in acting():
            if choice.name in inside:
                values[choice.name] = inside[choice.name]
                continue
            text = os.environ.get(choice.env) if choice.env else None
            stands = _process.get(choice.name)
            if stands is not None and (not choice.env or text == choice.text(stands[0])):
                values[choice.name] = stands[0]
            else:
                values[choice.name] = choice.take(text, choice.env) if text else choice.default
        return current

    def replace(self, **given: Any) -> Choices:
        """Return the choices with some made anew; None changes nothing."""
        changed = object.__new__(Choices)
        vars(changed).update(vars(self))
        for choice in acting():
            value = given.get(choice.name)
            if value is not None:
                vars(changed)[choice.name] = choice.take(value)
        return changed

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function under these choices, in any thread or process: `pool.submit(choices.call, kernel, x)`."""
        with inside(**vars(self)):
            return function(*args, **kwargs)

    @property
    def chip(self) -> Target:
        """The chip to compile for; UnknownTarget for a name without data."""
        return get_target(self.target)

    @property
    def for_compiler(self) -> tuple[Any, ...]:
        """What changes the compiled program, beside the chip: the same values give the same program."""
        values = vars(self)
        return tuple(values[c.name] for c in CHOICES if c.acts == COMPILE and c is not TARGET)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"choices do not change: write choices.replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choices) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_values, (vars(self),)

    def __repr__(self) -> str:
        standard = vars(Choices())
        given = [f"{n}={v!r}" for n, v in vars(self).items() if v != standard.get(n)]
        return f"Choices({', '.join(given)})"


def _with_values(values: dict[str, Any]) -> Choices:
    choices = Choices()
    vars(choices).update(values)
    return choices


_inside: ContextVar[Mapping[str, Any]] = ContextVar("nki_lab_choices", default=MappingProxyType({}))
# What was chosen for the process, and how. What has a variable stands in the environment too, so that child processes
# have it; something else may have changed it there since.
_process: dict[str, tuple[Any, str]] = {}


@contextmanager
def inside(**values: Any) -> Iterator[Choices]:
    """Choose inside a `with` block, for this thread alone; None changes nothing."""
    given = {c.name: c.take(values[c.name]) for c in acting() if values.get(c.name) is not None}
    token = _inside.set({**_inside.get(), **given})
    try:
        yield Choices.current()
    finally:
        _inside.reset(token)


class use(ContextDecorator):
    """Choose for all kernels, from now on: `nki_lab.use(target="trn1", strict=True)`.

    As a context manager or decorator it holds for the block or function only, and `with nki_lab.use(...) as choices`
    gives what holds there, for threads and processes that the block starts: `pool.submit(choices.call, kernel, x)`.
    What is chosen last holds. None changes nothing.
    """

    def __init__(self, **given: Any) -> None:
        by_name = {choice.name: choice for choice in acting() if "nki_lab.run" in choice.commands}
        for name in given:
            if name not in by_name:
                raise unknown_choice(name, list(by_name))
        self._values = {n: by_name[n].take(v) for n, v in given.items() if v is not None}
        if "target" in self._values:
            get_target(self._values["target"])
        self._tokens: list[Token[Any]] = []
        # Something else may be chosen for the process between the call and `with`: that stays.
        self._before = self._standing()
        for name, value in self._values.items():
            choose(by_name[name], value, f"nki_lab.{type(self).__name__}")
        self._after = self._standing()
        self._stands = bool(self._values)

    def _standing(self) -> dict[str, tuple[Any, str | None]]:
        """Return what is chosen for the process, as far as this concerns it."""
        return {
            choice.name: (_process.get(choice.name), os.environ.get(choice.env or "="))
            for choice in acting()
            if choice.name in self._values
        }

    def _withdraw(self) -> None:
        """Let the choice no longer hold for the process."""
        if self._stands and self._after == self._standing():
            for choice in acting():
                if choice.name in self._values:
                    chosen, text = self._before[choice.name]
                    _process.pop(choice.name, None)
                    if chosen is not None:
                        _process[choice.name] = chosen
                    _set_variable(choice, text)
        self._stands = False

    def __call__(self, function: _F) -> _F:
        """Choose inside a function."""
        self._withdraw()
        return super().__call__(function)

    def __enter__(self) -> Choices:
        self._withdraw()
        self._tokens.append(_inside.set({**_inside.get(), **self._values}))
        return Choices.current()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _inside.reset(self._tokens.pop())


class use_target(use):
    """Compile kernels for a chip, whatever the environment said before: from now on, or inside a `with` block.

    `use_target("trn1")` alone does what `%nki_target trn1` does; what is chosen last holds. None changes nothing.
    """

    def __init__(self, target: str | Target | None) -> None:
        super().__init__(target=target)


class use_cores(use):
    """Launch kernels on 1 or 2 cores, but for those that say it themselves, `kernel[1](...)`.

    It holds from now on, or inside a `with` block. None changes nothing.
    """

    def __init__(self, cores: int | None) -> None:
        if cores is not None and (type(cores) is not int or cores not in (1, 2)):
            raise KernelArgument(
                f"use_cores({cores!r}): a kernel is launched on 1 or 2 cores",
                help="write use_cores(1) or use_cores(2)",
            )
        super().__init__(lnc=cores)


def choose(choice: Choice, value: Any, way: str) -> None:
    """Choose from now on, in this process and those it starts; `way` says how, as in `whose_choice`."""
    if choice is TARGET:
        value = get_target(value)
    _process[choice.name] = value, way
    _set_variable(choice, choice.text(value))


def _set_variable(choice: Choice, text: str | None) -> None:
    if not choice.env:
        return
    if text is None:
        os.environ.pop(choice.env, None)
    else:
        os.environ[choice.env] = text


def forget_choices() -> None:
    """Forget what was chosen: a chip that is in force is from the environment again."""
    _process.clear()


def whose_choice() -> str:
    """Say in a few words where the chip that is in force comes from."""
    text = os.environ.get(TARGET.env)
    if not text:
        return "the default"
    chosen, way = _process.get(TARGET.name, (None, ""))
    return f"chosen with {way}" if chosen and text == chosen.name else f"set by {TARGET.env}"


# -- choices as keywords ---------------------------------------------------------------------------------------------

# What people may write for a choice, and its keyword.
_OTHER_NAMES = {
    "chip": "target", "platform_target": "target", "cores": "lnc", "grid": "lnc", "skip": "skip_passes",
    "skip_pass": "skip_passes", "trips": "max_trips",
}  # fmt: skip


def keywords_of(function: str) -> list[str]:
    """Return the keywords of a function of nki_lab, such as "nki_lab.run", that are choices."""
    return [choice.name for choice in CHOICES if function in choice.commands]


def taken_choices(
    function: str,
    kwargs: dict[str, Any],
    parameters: Iterable[str] = (),
    takes_any: bool = False,
) -> Choices:
    """Take the choices out of the keywords of a call and return them with what holds here.

    A keyword that the kernel has as a parameter is the kernel's. Raises KernelArgument for one that looks like a
    choice and is none; others are left to the call.

    Args:
        function: for which they are, such as "nki_lab.run".
        kwargs: keywords of the call; those of the kernel are left.
        parameters: names of the kernel's parameters.
        takes_any: the kernel has a parameter **kwargs.
    """
    parameters = list(parameters)
    keywords = keywords_of(function)
    given = {
        name: kwargs.pop(name) for name in keywords if name in kwargs and name not in parameters
    }
    for name in kwargs:
        meant = _OTHER_NAMES.get(name) in keywords or close_matches(name, keywords)
        if meant and name not in parameters and not takes_any:
            raise unknown_choice(name, keywords, function)
    return Choices.current().replace(**given)


def with_keywords(function: str) -> Callable[[_F], _F]:
    """Return a decorator that gives a function its choices as keywords: in its signature, and in its docstring."""

    def decorate(body: _F) -> _F:
        choices = [choice for choice in CHOICES if function in choice.commands]
        signature = inspect.signature(body)
        *first, rest = signature.parameters.values()
        keywords = [inspect.Parameter(c.name, rest.KEYWORD_ONLY, default=None) for c in choices]
        body.__signature__ = signature.replace(parameters=[*first, *keywords, rest])  # type: ignore[attr-defined]
        lines = "\n        ".join(f"{choice.name}: {choice.help_text}" for choice in choices)
        body.__doc__ = (body.__doc__ or "").replace("{choices}", lines)
        return body

    return decorate


def unknown_choice(name: str, known: list[str], function: str = "") -> NkiError:
    """Return the error for a keyword that does not exist; it names the right one."""
    meant = _OTHER_NAMES.get(name)
    near = f"write {meant}=" if meant in known else close_matches(name, known)
    choices = ", ".join(known)
    if not function:
        return UnknownOption(f"there is no choice `{name}`", help=near or f"there are {choices}")
    return KernelArgument(
        f"`{name}` is neither a parameter of the kernel nor a choice of {function}",
        help=near or f"choices: {choices}",
    )
