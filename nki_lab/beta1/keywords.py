"""Binds calls of the dialect's functions: keywords that no page lists are taken where they change nothing here.

The stubs end in `**kwargs`, and public kernels use that. A keyword without a row here is an error that names it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nki_lab.errors import NkiError, WrongCall, close_matches
from nki_lab.rewrite import call_of

#: Function -> keywords without a page that public kernels give it, and that change no value here.
UNDOCUMENTED: dict[str, tuple[str, ...]] = {
    "affine_range": ("precise_schedule",),
    "sequential_range": ("precise_schedule",),
    "static_range": ("precise_schedule",),
    "load": ("mode",),
    "store": ("mode",),
    "ndarray": ("lazy_initialization",),
    "zeros": ("lazy_initialization",),
    "ones": ("lazy_initialization",),
    "full": ("lazy_initialization",),
    "multiply": ("max_free_vec_size",),
}
#: What every function takes: a name for its instruction.
_EVERYWHERE = ("name",)


def refuse_keywords(function: str, keywords: Iterable[str], known: Iterable[str] = ()) -> None:
    """Raise WrongCall for a keyword of a call that has no row and is not among the `known` ones."""
    name = function.rpartition(".")[2]
    taken = [*known, *UNDOCUMENTED.get(name, ()), *_EVERYWHERE]
    for keyword in keywords:
        if keyword not in taken:
            raise WrongCall(
                f"{function}: there is no parameter `{keyword}`, and no public kernel gives it",
                help=close_matches(keyword, taken)
                or f"leave it out; {function} takes {', '.join(known)}",
            )


def bound(functions: Mapping[str, Callable[..., Any]], module: str = "nl") -> dict[str, Any]:
    """Return the functions of a module, which refuse what they do not take; what takes no `**keywords` stays."""
    return {name: _bound(name, value, module) for name, value in functions.items()}


def _bound(name: str, function: Callable[..., Any], module: str) -> Any:
    parameters = inspect.signature(function).parameters.values()
    if inspect.isclass(function) or not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function
    known = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    allowed = {*known, *UNDOCUMENTED.get(name, ()), *_EVERYWHERE}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not kwargs.keys() <= allowed:
            refuse_keywords(f"{module}.{name}", kwargs, known)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            raise _wrong(error, f"{module}.{name}", function) from None

    return call


def _wrong(error: TypeError, name: str, function: Callable[..., Any]) -> TypeError:
    """Return the error of a call whose arguments Python could not match; any other as it is."""
    tb = error.__traceback__
    if tb is None or tb.tb_next is not None or isinstance(error, NkiError):
        return error
    reason = str(error).partition("() ")[2] or str(error)
    return WrongCall(f"{name}: {reason}", help=f"the call is {call_of(name, function)}")


def refusing(name: str) -> Callable[[Any], Any]:
    """Return a decorator: what a function does not take is an error that names it."""

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                raise _wrong(error, name, function) from None

        return call

    return decorate
