"""The source of a kernel that was loaded from a file."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nki_lab.source import Span, register_cell


class AsCompiled:
    """Default of every parameter of a loaded kernel: its value is the one that was compiled in."""

    def __repr__(self) -> str:
        return "as compiled"


AS_COMPILED = AsCompiled()


@dataclass(frozen=True)
class StoredSource:
    """A kernel whose function is not here.

    Attributes:
        name: of the function.
        parameters: (name, kind) in order; kinds are the names of `inspect.Parameter`'s.
        arguments: what the kernel was compiled for, by path ("x", "weights.0", "config.scale"): None for an array,
            else the constant as text.
        filename: stands for the file or cell it was in; nothing is read from disk under this name.
        first_line: line of the `def` or its first decorator.
        text: the kernel's source; empty where it was saved without.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    arguments: Mapping[str, str | None]
    filename: str
    first_line: int = 1
    text: str = ""

    @cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the function; every parameter may be left out."""
        parameters = []
        for name, kind in self.parameters:
            form = getattr(inspect.Parameter, kind)
            variadic = form in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
            default: Any = inspect.Parameter.empty if variadic else AS_COMPILED
            parameters.append(inspect.Parameter(name, form, default=default))
        return inspect.Signature(parameters)

    @property
    def place(self) -> Span:
        """The first line of the function."""
        return Span(self.filename, self.first_line, function=self.name)


def show_lines(filename: str, lines: Mapping[int, str], is_cell: bool) -> None:
    """Let errors and views show lines of a file that is not here."""
    last = max(lines, default=0)
    text = [f"{lines.get(n, '')}\n" for n in range(1, last + 1)]
    # Without a time of change the entry is never compared with a file of that name.
    linecache.cache[filename] = (sum(map(len, text)), None, text, filename)
    if is_cell:
        register_cell(filename, None)
