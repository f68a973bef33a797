"""Rows of the language table: one construct of Python, and what becomes of it in kernels of a dialect."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from nki_lab.versions import ACCEPTED, DEPRECATED, ERROR, FORMS, PORTABILITY, Version

__all__ = ["ACCEPTED", "DEPRECATED", "ERROR", "PORTABILITY", "Construct", "Subset"]


@dataclass(frozen=True)
class Construct:
    """A construct of Python, and what becomes of it in a kernel.

    Attributes:
        what: the construct, as the subject of a sentence.
        level: "accepted"; "portability": a finding, since the parser refuses it; "error": no front end compiles it.
        plain: its level where kernels are plain Python, as in 0.7; "" where that changes nothing. What the parser alone
            refuses is accepted there.
        form: key of the form in FORMS that it is; the version decides its level.
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
    plain: str = ""
    form: str = ""

    def level_in(self, version: Version) -> str:
        """Return what becomes of it in a version of NKI."""
        if self.form:
            return FORMS[self.form].level(version)
        if not version.plain_python:
            return self.level
        return self.plain or (ACCEPTED if self.level == PORTABILITY else self.level)

    def message(self, subject: str = "") -> str:
        """Return the message for an author; `subject` names what was found where the row is about many."""
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

    def row(self, key: str, version: Version) -> Construct | None:
        """Return a row with the level that it has in a version; None for what the version accepts."""
        row = self.rows.get(key)
        if row is None or (level := row.level_in(version)) == ACCEPTED:
            return None
        return row if level == row.level else replace(row, level=level)

    def module_of(self, example: str) -> str:
        """Return the text of a module with the kernel that an example stands for."""
        text = textwrap.dedent(example).strip("\n")
        if "def kernel(" in text:
            return f"{self.head}{text}\n"
        return self.head + self.kernel.format(body=textwrap.indent(text, "    "))
