"""Gives commands the options that their choices declare."""

from __future__ import annotations

import functools
import inspect
import keyword
from argparse import Namespace
from collections.abc import Callable
from typing import Annotated, Any

import typer

from nki_lab.choices import Choice
from nki_lab.session.questions import options_of
from nki_lab.session.reading import read_value


def with_options(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives the body of a command an option for each of its choices.

    The body takes them in its first parameter, `options`, a Namespace with the value of each. What is not given is
    None, or False for a switch.
    """

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        choices = options_of(command)

        @functools.wraps(body)
        def run(*args: Any, **kwargs: Any) -> None:
            options = Namespace(
                **{choice.name: kwargs.pop(_variable(choice)) for choice in choices}
            )
            body(options, *args, **kwargs)

        signature = inspect.signature(body, eval_str=True)
        _, *parameters = signature.parameters.values()
        parameters += [_parameter(choice) for choice in choices]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return decorate


def _parameter(choice: Choice) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    if choice.is_switch:
        annotation = Annotated[bool, typer.Option(choice.flag, help=choice.help_text)]
        return inspect.Parameter(_variable(choice), kind, default=False, annotation=annotation)

    def read(text: str) -> Any:
        return read_value(choice, text)

    declared = typer.Option(choice.flag, metavar=choice.metavar, help=choice.help_text, parser=read)
    return inspect.Parameter(
        _variable(choice), kind, default=None, annotation=Annotated[Any, declared]
    )


def _variable(choice: Choice) -> str:
    return f"{choice.name}_" if keyword.iskeyword(choice.name) else choice.name
