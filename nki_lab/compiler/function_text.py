"""The text of a function: where it stands, and the constructs in it.

The text is parsed once per file and looked at once per function.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any
from weakref import ref

from nki_lab.compiler.language_facts import Facts, facts_of
from nki_lab.source import Span


@dataclass(frozen=True, eq=False)
class FunctionText:
    """The parsed text of one function.

    Attributes:
        node: its `def`, or a statement with its lambda.
        lines: the lines that were parsed.
        filename: file or cell it stands in.
        first_line: line of `lines[0]` in that file.
        name: name of the function.
    """

    node: Any
    lines: Sequence[str]
    filename: str
    first_line: int
    name: str

    @cached_property
    def facts(self) -> Facts:
        """What the text says, as far as it matters to NKI."""
        return facts_of(self.node)

    def holds(self, code: CodeType) -> bool:
        """Tell whether a function is this one, or one inside it."""
        first = self.first_line + _first_line(self.node) - 1
        last = self.first_line + self.node.end_lineno - 1
        return code.co_filename == self.filename and first <= code.co_firstlineno <= last

    def place(self, node: Any) -> Span:
        """Return where a node of the text stands; `global` and the like have no code at all."""
        parsed = self.lines[node.lineno - 1]
        line = self.first_line + node.lineno - 1
        written = linecache.getline(self.filename, line).rstrip("\n")
        removed = max(len(written) - len(parsed), 0)
        start, end = (
            removed + len(parsed.encode()[:offset].decode())
            for offset in (node.col_offset, node.end_col_offset)
        )
        last = line + node.end_lineno - node.lineno
        if last > line:
            end = len(self.lines[node.end_lineno - 1].encode()[: node.end_col_offset].decode())
        return Span(self.filename, line, start, last, end, self.name)


def _first_line(node: Any) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


_texts: dict[int, tuple[ref[CodeType], FunctionText | None]] = {}


def text_of(code: CodeType) -> FunctionText | None:
    """Return the text of a function that is not a kernel; None where there is none, or it has changed since."""
    key = id(code)
    cached = _texts.get(key)
    if cached is None:
        cached = _texts[key] = (ref(code, lambda _: _texts.pop(key, None)), _find(code))
    return cached[1]


def _find(code: CodeType) -> FunctionText | None:
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return None
    node = _functions("".join(lines)).get((code.co_firstlineno, code.co_name))
    if node is None:
        return None
    return FunctionText(node, [x.rstrip("\n") for x in lines], code.co_filename, 1, code.co_name)


@lru_cache(maxsize=64)
def _functions(text: str) -> dict[tuple[int, str], Any]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    functions: dict[tuple[int, str], Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[_first_line(node), node.name] = node
        elif isinstance(node, ast.Lambda):
            key = (node.lineno, "<lambda>")
            # Which of several in a line is meant is not known.
            functions[key] = None if key in functions else node
    return functions
