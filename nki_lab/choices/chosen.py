"""Holds what is chosen: for the process, inside a `with` block, and in the keywords of a call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar, Token
from functools import cache
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from nki_lab.choices.choice import CHOICES, COMPILE, Choice, Standard, acting
from nki_lab.choices.declared import BETA1, NKI, TARGET
from nki_lab.errors import KernelArgument, NkiError, UnknownOption, close_matches
from nki_lab.targets import get_target
from nki_lab.targets.spec import Target
from nki_lab.versions import Version, version_named

_F = TypeVar("_F", bound=Callable[..., Any])


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
        global _latest
        inside = _inside.get()
        chosen, texts = [*_process.values()], _texts()
        before = _latest
        # Each choice makes a tuple or mapping of its own; equal values may still differ in who chose them.
        if (
            inside is before.inside
            and texts == before.texts
            and [*map(id, chosen)] == [*map(id, before.chosen)]
        ):
            return before.choices
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
            elif text:
                values[choice.name] = _for_all(choice, choice.take(text, choice.env))
            else:
                values[choice.name] = choice.default
        _latest = _Latest(inside, chosen, texts, current)
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

    def with_standard(self, standard: Mapping[str, str]) -> Choices:
        """Return the choices with a dialect's values of those that nobody has made."""
        unmade = (n for n in standard if isinstance(getattr(self, n), Standard))
        return self.replace(**{name: Standard(standard[name]) for name in unmade})

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function under these choices, in any thread or process: `pool.submit(choices.call, kernel, x)`."""
        with inside(**vars(self)):
            return function(*args, **kwargs)

    @property
    def chip(self) -> Target:
        """The chip to compile for; UnknownTarget for a name without data."""
        return get_target(self.target)

    @property
    def version(self) -> Version:
        """The version of NKI that kernels are written for; those of the older dialect are held to today's rules."""
        return version_named(NKI.default if self.nki == BETA1 else self.nki, self.frontend)

    @property
    def asked_dialect(self) -> str:
        """The dialect that `--dialect` or `--nki beta1` asks for; "" where neither is given."""
        return BETA1 if self.nki == BETA1 else self.dialect or ""

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


def _for_all(choice: Choice, value: Any) -> Any:
    """Return a value that is chosen for all kernels, not for one call.

    A version holds for those that say none themselves. Kernels of the older dialect say it by what they import.
    """
    return Standard(value) if choice is NKI and value != BETA1 else value


def _with_values(values: dict[str, Any]) -> Choices:
    choices = Choices()
    vars(choices).update(values)
    return choices


_inside: ContextVar[Mapping[str, Any]] = ContextVar("nki_lab_choices", default=MappingProxyType({}))
# What was chosen for the process, and how. What has a variable stands in the environment too, so that child processes
# have it; something else may have changed it there since.
_process: dict[str, tuple[Any, str]] = {}


class _Latest(NamedTuple):
    """What was asked for last, and what it follows from."""

    inside: Any
    chosen: list[Any]
    texts: list[Any]
    choices: Any


_latest = _Latest(None, [], [], None)


def _texts() -> list[Any]:
    """Return the variables of all choices as they stand, without decoding them, which costs more than all else."""
    get = getattr(os.environ, "_data", os.environ).get
    return [get(key) for key in _keys(len(CHOICES))]


@cache
def _keys(count: int) -> tuple[Any, ...]:
    """Return the names of the variables as the environment holds them; `count` is how many choices there are."""
    encoded: Callable[[str], Any] = os.environ.encodekey if hasattr(os.environ, "_data") else str
    return tuple(encoded(choice.env) for choice in CHOICES if choice.env)


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
        self._values = {
            n: _for_all(by_name[n], by_name[n].take(v)) for n, v in given.items() if v is not None
        }
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
    """Launch kernels on 1 or 2 cores, except those that choose it themselves, `kernel[1](...)`.

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
#: What Python has in place of the options of cells and commands that ask something about a run.
IN_PYTHON = {
    "show": "call .show() of the result",
    "check": "compare .value of the result, e.g. with np.testing.assert_allclose",
    "analyse": "call .critical_path(), .stalls(), .lines(), .iterations() or .roofline() of the result",
    "what_if": "call .what_if() of the result",
    "bench": "call nki_lab.benchmark",
    "compare": "call .show(compare=other) of the result",
    "save": "call .show().save_html(path) or .profile.save(path) of the result",
    "json": "read .profile.summary of the result",
    "migrate": "call nki_lab.migrate",
    "accept": "call nki_lab.migrate with accept=",
    "torch": "call nki_lab.torch.custom_op(name, kernel)",
    "jax": "call nki_lab.jax.custom_op(name, kernel)",
}


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

    A keyword that the kernel has as a parameter is the kernel's. Raises KernelArgument for one that is neither a choice
    nor a parameter.

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
        if name not in parameters and not takes_any:
            raise unknown_choice(name, keywords, function, parameters)
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


def unknown_choice(
    name: str, keywords: Sequence[str], function: str = "", parameters: Sequence[str] = ()
) -> NkiError:
    """Return the error for a keyword that does not exist; it names the right one.

    Args:
        name: the keyword.
        keywords: those that are choices.
        function: that was called, such as "nki_lab.run"; "" where only choices are taken.
        parameters: those of the kernel.
    """
    meant = _OTHER_NAMES.get(name)
    help = f"write {meant}=" if meant in keywords else close_matches(name, [*parameters, *keywords])
    if name in IN_PYTHON:
        help = f"--{name.replace('_', '-')} is an option of cells and commands; in Python, {IN_PYTHON[name]}"
    choices = ", ".join(keywords)
    if not function:
        return UnknownOption(f"there is no choice `{name}`", help=help or f"there are {choices}")
    return KernelArgument(
        f"`{name}` is neither a parameter of the kernel nor a choice of {function}",
        notes=[f"parameters: {', '.join(parameters)}"] if parameters else [],
        help=help or f"choices: {choices}",
    )
