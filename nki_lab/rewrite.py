"""Computes the exact change of the author's text that the help of an error asks for.

A help is a sentence. Where an editor could carry it out, it is a `Hint`: the sentence with the rewrites it stands for.
They name words, not places; `edits_of` finds these in the marked text, when somebody wants to change it.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from nki_lab.source import Span, printable

_CLOSE, _SHOWN = 0.6, 3
_OPERAND = re.compile(r"\{([ab])\}")

#: Names that kernels and their notebooks use by convention, and the line that brings each.
IMPORTS = {
    "dataclass": "from dataclasses import dataclass",
    "math": "import math",
    "ml_dtypes": "import ml_dtypes",
    "ncc": "import nki.collectives as ncc",
    "nisa": "import nki.isa as nisa",
    "nki": "import nki",
    "nl": "import nki.language as nl",
    "np": "import numpy as np",
    "partial": "from functools import partial",
}


class Rewrite(NamedTuple):
    """Text to write instead of a word, in the place an error marks.

    Attributes:
        old: the word: a name, a keyword, what a string says; "" is the argument that is marked, or the whole operation
            where `new` has its operands.
        new: what stands there afterwards; `{a}` and `{b}` are the operands of the operation.
    """

    old: str
    new: str


class Import(NamedTuple):
    """A line to write above the first statement of the file or cell an error is in."""

    line: str


class Edit(NamedTuple):
    """A change of the text: `text` stands where `span` was, which is empty where something is inserted."""

    title: str
    span: Span
    text: str


class Hint(str):
    """A help that an editor can carry out; each of the rewrites is a way to do so.

    It is the sentence itself, so that whoever shows an error needs to know nothing of rewrites.
    """

    rewrites: tuple[Rewrite | Import, ...]

    def __new__(cls, text: str, *rewrites: Rewrite | Import) -> Hint:
        """Return the sentence `text` with its rewrites."""
        hint = super().__new__(cls, text)
        hint.rewrites = rewrites
        return hint


def close_matches(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...?" for the names most like `name`, or an empty string."""
    near = difflib.get_close_matches(name, dict.fromkeys(known), n=_SHOWN, cutoff=_CLOSE)
    if not near:
        return ""
    asked = "did you mean " + " or ".join(f"`{printable(n)}`" for n in near) + "?"
    return Hint(asked, *(Rewrite(name, n) for n in near))


def call_of(name: str, function: Callable[..., Any]) -> str:
    """Return the call of a function with its parameters and defaults, without their types."""
    parameters = [
        p.replace(annotation=p.empty, default=_Named(p.default.__name__))
        if inspect.isfunction(p.default)
        else p.replace(annotation=p.empty)
        for p in inspect.signature(function).parameters.values()
        if p.name != "self" and p.kind is not p.VAR_KEYWORD
    ]
    return f"{name}{inspect.Signature(parameters)}"


class _Named(str):
    """A name that is shown without quotes."""

    __repr__ = str.__str__


def import_of(name: str) -> str:
    """Return what to write where a name that is usually imported is missing, or an empty string."""
    line = IMPORTS.get(name)
    return Hint(f"write {line} first", Import(line)) if line else ""


def instead(name: str, before: Mapping[str, str]) -> str:
    """Return what to write instead of the member `name`, by a table of former names; "" where it is not in there.

    Where the table has just another member of the same module, the help can be carried out.
    """
    if name not in before:
        return ""
    now = before[name]
    member = re.fullmatch(r"(?:nl|nisa)\.(\w+)", now)
    return Hint(f"write {now}", Rewrite(name, member[1])) if member else f"write {now}"


def edits_of(help: str, marked: Span, whole: Span) -> list[Edit]:
    """Return the changes a help asks for, those that the text at the place allows.

    Args:
        help: the help of an error; a plain sentence asks for none.
        marked: what the error marks.
        whole: the expression around it, e.g. the call of a marked argument.
    """
    edits = (_edit(rewrite, marked, whole) for rewrite in getattr(help, "rewrites", ()))
    return [edit for edit in edits if edit is not None]


def _edit(rewrite: Rewrite | Import, marked: Span, whole: Span) -> Edit | None:
    if isinstance(rewrite, Import):
        line = _first_statement(marked.filename)
        at = Span(marked.filename, line, 0, line, 0)
        return Edit(f"Write {rewrite.line}", at, f"{rewrite.line}\n")
    if not rewrite.old and _OPERAND.search(rewrite.new):
        return _of_operation(rewrite.new, whole)
    if not rewrite.old:
        # Where no argument could be told from the call, the call is marked.
        return None if marked == whole else _replaced(marked, rewrite.new)
    for span in (marked, whole):
        place = _place_of(rewrite.old, span)
        if place is not None:
            return Edit(f"Replace `{rewrite.old}` by `{rewrite.new}`", place, rewrite.new)
    return None


def _of_operation(new: str, span: Span) -> Edit | None:
    text = span.covered
    node = _expression(text)
    if node is None or "\n" in text:
        return None
    operands = [ast.unparse(operand) for operand in _operands(node)]
    if len(operands) != len(set(_OPERAND.findall(new))):
        return None
    return _replaced(span, new.format(**dict(zip("ab", operands, strict=False))))


def _replaced(span: Span, written: str) -> Edit:
    return Edit(f"Replace `{span.covered}` by `{written}`", span, written)


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return [node.left, *node.comparators]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Attribute):
        return [node.value]
    return []


def _place_of(word: str, span: Span) -> Span | None:
    """Return where a span says a word; None where it does not, or in several places."""
    text = span.covered
    node = _expression(text)
    nodes = list(_spelled(word, node)) if node is not None else []
    if nodes:
        return span.inner(nodes[0], text)
    if word.isidentifier() and node is not None:
        return None
    line = text or span.text
    start = (span.column or 0) if text else 0
    hits = list(re.finditer(rf"(?<![\w-]){re.escape(word)}(?![\w-])", line))
    if len(hits) != 1 or "\n" in line:
        return None
    first, last = hits[0].span()
    return Span(span.filename, span.line, start + first, span.line, start + last)


def _spelled(word: str, node: ast.expr) -> Iterator[ast.expr]:
    """Yield what spells the word, as nodes that cover just its letters, the outermost first."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == word:
            yield part
        elif isinstance(part, ast.Attribute) and part.attr == word:
            end, width = part.end_col_offset or 0, len(word.encode())
            yield _letters(word, part.end_lineno or part.lineno, end - width, end)
        elif isinstance(part, ast.keyword) and part.arg == word:
            start = part.col_offset
            yield _letters(word, part.lineno, start, start + len(word.encode()))
        elif isinstance(part, ast.Constant) and part.value == word and type(part.value) is str:
            start, end = part.col_offset, part.end_col_offset or 0
            if end - start == len(word.encode()) + 2:  # in plain quotes
                yield _letters(word, part.lineno, start + 1, end - 1)


def _letters(word: str, line: int, start: int, end: int) -> ast.expr:
    return ast.Name(word, lineno=line, col_offset=start, end_lineno=line, end_col_offset=end)


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(f"({text}\n)", mode="eval").body if text else None
    except (SyntaxError, ValueError):
        return None


def _first_statement(filename: str) -> int:
    """Return the line of the first statement of a file or cell; of one after `from __future__` and a docstring."""
    try:
        body = ast.parse("".join(linecache.getlines(filename))).body
    except (SyntaxError, ValueError):
        return 1
    for node in body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return 1
