"""Rows of the language table: one construct of Python, and what becomes of it in kernels of a dialect."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

ACCEPTED, PORTABILITY, DEPRECATED, ERROR = "accepted", "portability", "deprecation", "error"


@dataclass(frozen=True)
class Construct:
    """A construct of Python, and what becomes of it in a kernel.

    Attributes:
        what: the construct, as the subject of a sentence.
        level: "accepted"; "portability": a finding, since one official front end refuses it; "deprecation": a
            finding; "error": no front end compiles it.
        instead: what to write instead; for what is accepted, what it means.
        source: page of the official documentation, or file of the open front end (github.com/leanprover/KLR).
        example: lines of a kernel that has loaded its argument `x` into the tile `t`, or a module with `kernel`.
        better: the same, rewritten as `instead` says.
        code: of the error.
    """

    what: str
    level: str
    instead: str
    source: str
    example: str
    better: str = ""
    code: str = "NKI110"

    def message(self, subject: str = "") -> str:
        """Return what an author is told; `subject` names what was found where the row is about many."""
        if self.level == ERROR:
            return f"{subject or self.what} is not supported in a kernel"
        return f"{subject or self.what}: NKI's tracer accepts it, its parser does not"

    def page(self) -> str:
        """Return what `explain` says about it."""
        level = f"error {self.code}" if self.level == ERROR else self.level
        label = "meaning" if self.level == ACCEPTED else "instead"
        lines = [f"{self.what} in a kernel: {level}", "", f"{label}: {self.instead}", ""]
        for title, text in (("written", self.example), ("better", self.better)):
            if text:
                shown = textwrap.indent(textwrap.dedent(text).strip(), "    ")
                lines += [f"{title}:", "", shown, ""]
        return "\n".join([*lines, f"Source: {self.source}"])


@dataclass(frozen=True, eq=False)
class Subset:
    """The Python that a dialect's kernels may be written in.

    Attributes:
        sections: title -> key -> row. A construct without a row is accepted.
        builtins: functions of Python that the dialect's parser knows.
        looping: functions of Python that an explicit loop replaces.
        math: names of the module `math` that the parser knows.
        decorators: decorators that it knows, by their last name.
        head: the imports and helpers above each example.
        kernel: the kernel around an example that has none, with `{body}`.
    """

    sections: Mapping[str, Mapping[str, Construct]]
    builtins: frozenset[str] = frozenset()
    looping: frozenset[str] = frozenset()
    math: frozenset[str] = frozenset()
    decorators: frozenset[str] = frozenset()
    head: str = ""
    kernel: str = "{body}"

    @cached_property
    def rows(self) -> dict[str, Construct]:
        """All rows by their key."""
        return {key: row for section in self.sections.values() for key, row in section.items()}

    def module_of(self, example: str) -> str:
        """Return the text of a module with the kernel that an example stands for."""
        text = textwrap.dedent(example).strip("\n")
        if "def kernel(" in text:
            return f"{self.head}{text}\n"
        return self.head + self.kernel.format(body=textwrap.indent(text, "    "))
