"""Holds the chip and the number of cores chosen for kernels, for the process or for a `with` block.

    use_target("trn1")              from now on
    with use_target("trn1"): ...    inside the block

The chip of the process is kept in its environment, so that child processes have it too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

from nki_lab.errors import KernelArgument
from nki_lab.settings import VARIABLES, Settings
from nki_lab.targets import get_target
from nki_lab.targets.spec import Target

_F = TypeVar("_F", bound=Callable[..., Any])
_TARGET = VARIABLES["target"].name
_target: ContextVar[Target | None] = ContextVar("nki_lab_target", default=None)
_cores: ContextVar[int | None] = ContextVar("nki_lab_cores", default=None)
# What was chosen for the process. The environment may have been changed by something else since the target was.
_process: dict[str, Any] = {}


class _Use(ContextDecorator):
    """A choice that holds from now on; as a context manager or decorator, for the block or function only."""

    def __init__(self, variable: ContextVar[Any], value: Any) -> None:
        self._variable, self._value = variable, value
        self._tokens: list[Token[Any]] = []
        self._stands = value is not None
        # Something else may be chosen for the process between the call and `with`: that stays.
        self._before = dict(_process), os.environ.get(_TARGET)
        if value is not None:
            self._choose()
        self._after = dict(_process), os.environ.get(_TARGET)

    def _choose(self) -> None:
        raise NotImplementedError

    def _withdraw(self) -> None:
        """Let the choice no longer hold for the process."""
        if self._stands and self._after == (dict(_process), os.environ.get(_TARGET)):
            _process.clear()
            _process.update(self._before[0])
            _set_environment(self._before[1])
        self._stands = False

    def __call__(self, function: _F) -> _F:
        self._withdraw()
        return super().__call__(function)

    def __enter__(self) -> None:
        self._withdraw()
        if self._value is not None:
            self._tokens.append(self._variable.set(self._value))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._tokens:
            self._variable.reset(self._tokens.pop())


def _set_environment(value: str | None) -> None:
    if value is None:
        os.environ.pop(_TARGET, None)
    else:
        os.environ[_TARGET] = value


class use_target(_Use):
    """Compile kernels for a chip, whatever the environment said before: from now on, or inside a `with` block.

    `use_target("trn1")` alone does what `%nki_target trn1` does; what is chosen last holds. None changes nothing.
    """

    def __init__(self, target: str | Target | None) -> None:
        super().__init__(_target, None if target is None else get_target(target))

    def _choose(self) -> None:
        choose_target(self._value, "nki_lab.use_target")


class use_cores(_Use):
    """Launch kernels on 1 or 2 cores, but for those that say it themselves, `kernel[1](...)`.

    It holds from now on, or inside a `with` block. None changes nothing.
    """

    def __init__(self, cores: int | None) -> None:
        if cores is not None and (type(cores) is not int or cores not in (1, 2)):
            raise KernelArgument(
                f"use_cores({cores!r}): a kernel is launched on 1 or 2 cores",
                help="write use_cores(1) or use_cores(2)",
            )
        super().__init__(_cores, cores)

    def _choose(self) -> None:
        _process["cores"] = self._value


@contextmanager
def within(target: str | Target | None = None, cores: int | None = None) -> Iterator[None]:
    """Compile kernels for a chip and a number of cores inside a block, for this thread alone; None changes nothing."""
    chip = _target.set(_target.get() if target is None else get_target(target))
    count = _cores.set(_cores.get() if cores is None else cores)
    try:
        yield
    finally:
        _cores.reset(count)
        _target.reset(chip)


def current_target(settings: Settings) -> Target:
    """Return the chip of the block around the caller, else that of the process."""
    chosen = _target.get()
    if chosen is not None:
        return chosen
    standing = _process.get("target")
    if standing is not None and os.environ.get(_TARGET) == standing.name:
        return standing
    return get_target(settings.target)


def chosen_cores() -> int | None:
    """Return the number of cores of the block around the caller, else that of the process; None where neither has."""
    inside = _cores.get()
    return _process.get("cores") if inside is None else inside


def choose_target(target: str | Target, way: str = "%nki_target") -> None:
    """Compile for a chip from now on, in this process and those it starts; UnknownTarget for a name without data."""
    chosen = get_target(target)
    _process.update(target=chosen, way=way)
    os.environ[_TARGET] = chosen.name


def forget_choice() -> None:
    """Forget what was chosen: a chip that is in force is from the environment again."""
    _process.clear()


def whose_choice() -> str:
    """Say in a few words where the chip that is in force comes from."""
    set_to = os.environ.get(_TARGET)
    if not set_to:
        return "the default"
    chosen = _process.get("target")
    return (
        f"chosen with {_process['way']}"
        if chosen and set_to == chosen.name
        else f"set by {_TARGET}"
    )
