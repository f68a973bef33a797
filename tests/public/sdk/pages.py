"""Finds the code that a page of the documentation shows."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_DIRECTIVE = re.compile(r"(\s*)\.\. code-block:: *(?:python)?\s*$")
_LITERAL = re.compile(r"(?!\s*\.\. )(\s*).*::\s*$")  # a paragraph that ends with two colons
_OF_NKI = re.compile(
    r"\bjit\b|\bnki_|\bnisa\.|\bnl\.|\bnki\.|NKIObject|\(Enum\)|^ *(for|while) ", re.MULTILINE
)
_PREAMBLE = "import numpy as np\nimport nki\nimport nki.isa as nisa\nimport nki.language as nl\n"


@dataclass(frozen=True)
class Block:
    """A piece of code on a page.

    Attributes:
        page: path below nki/.
        number: position among the page's blocks of Python, from 1 on; literal blocks count from 101 on.
        line: where it starts.
    """

    page: str
    number: int
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}#{self.number}"

    def replaced(self, changes: dict[str, str]) -> Block:
        """Return the block with words replaced, each of which must be there."""
        text = self.text
        for old, new in changes.items():
            assert old in text, f"{self} has no {old!r}"
            text = text.replace(old, new)
        return Block(self.page, self.number, self.line, text)

    def lines(self, first: int, end: int | None) -> Block:
        """Return the block with some of its lines only, from 0 on."""
        text = "\n".join(self.text.splitlines()[first:end])
        return Block(self.page, self.number, self.line, text)

    def names(self, **known: Any) -> dict[str, Any]:
        """Run the block as a module; return what it defines."""
        module = sys.modules["page"] = ModuleType("page")  # where dataclasses look for their names
        found = vars(module)
        exec(_PREAMBLE, found)
        found.update(known)
        self._run(self.text, found)
        return found

    def as_kernel(self, parameters: str, before: str, after: str, **known: Any) -> Any:
        """Return a function whose body is the block between two pieces of ours."""
        # Where the block imports in its middle, Python takes the names for local ones everywhere.
        imports = _PREAMBLE.splitlines() if "import " in self.text else []
        lines = [*imports, *before.splitlines(), *self.text.splitlines(), *after.splitlines()]
        body = textwrap.indent("\n".join(lines), "    ")
        found = Block(self.page, self.number, self.line, "").names(**known)
        self._run(f"def block({parameters}):\n{body}\n", found)
        return found["block"]

    def _run(self, text: str, names: dict[str, Any]) -> None:
        # Errors of kernels quote the line, so that it must be found like that of a file.
        linecache.cache[str(self)] = (len(text), None, text.splitlines(keepends=True), str(self))
        exec(compile(text, str(self), "exec", dont_inherit=True), names)


@cache
def blocks(nki: Path, page: str) -> dict[int, Block]:
    """Return the blocks of Python that have to do with NKI, on a page or in the docstrings of a module, by number."""
    text = (nki / page).read_text(encoding="utf-8")
    parts = _docstrings(text) if page.endswith(".py") else [(0, text)]
    found = {}
    for first, start in ((1, _DIRECTIVE), (101, _LITERAL)):
        made = [(before + n, t) for before, p in parts for n, t in _blocks(p.splitlines(), start)]
        for number, (line, block) in enumerate(made, start=first):
            if _OF_NKI.search(block):
                found[number] = Block(page, number, line, block)
    return found


def _docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of functions and classes, with the line before each."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            yield node.body[0].lineno - 1, ast.get_docstring(node) or ""


def _blocks(lines: list[str], start: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for at, line in enumerate(lines):
        found = start.match(line)
        if found is None:
            continue
        body = []
        for inner in lines[at + 1 :]:
            if inner.strip() and len(inner) - len(inner.lstrip()) <= len(found[1]):
                break
            body.append(inner)
        while body and (not body[0].strip() or body[0].lstrip().startswith(":")):
            body.pop(0)  # options of the directive
        yield at + 1, textwrap.dedent("\n".join(body)).rstrip()
