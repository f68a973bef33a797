"""Tokens: splits the text of a kernel into words, numbers and signs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from nki_lab.errors import BadKernelText

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      | (?P<dims>-?[0-9]+(?:x-?[0-9]+)+)
      | (?P<float>-?(?:[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)|-inf\b)
      | (?P<int>-?[0-9]+)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<name>[^\W\d]\w*(?:\.\w+)*)
      | (?P<mark>[%#${}()\[\],:=@<>])
      | (?P<odd>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A word of the text: its kind ("dims", "float", "int", "string", "name", "mark", "end") and place."""

    kind: str
    text: str
    offset: int


class Tokens:
    """The words of a text, read one after the other."""

    def __init__(self, text: str) -> None:
        self.source = text
        self.words = [
            Token(str(m.lastgroup), m.group(), m.start())
            for m in _TOKEN.finditer(text)
            if m.lastgroup != "space"
        ]
        self.words.append(Token("end", "", len(text)))
        self.at = 0

    @property
    def next(self) -> Token:
        """The word that `take` returns next."""
        return self.words[self.at]

    def take(self) -> Token:
        """Return the next word and step behind it; the end of the text is never left behind."""
        token = self.words[self.at]
        self.at = min(self.at + 1, len(self.words) - 1)
        return token

    def skip(self, text: str) -> bool:
        """Step over the next word if it is the mark or name `text`, and tell whether it was."""
        matches = self.next.text == text and self.next.kind in ("mark", "name")
        if matches:
            self.take()
        return matches

    def expect(self, text: str) -> Token:
        """Return the next word, which must be `text`."""
        token = self.next
        if not self.skip(text):
            self.fail(f"`{text}`", token)
        return token

    def name(self, what: str) -> str:
        """Return a name, bare or quoted."""
        token = self.take()
        if token.kind == "string":
            return self.string(token)
        if token.kind != "name":
            self.fail(what, token)
        return token.text

    def string(self, token: Token) -> str:
        """Return what a quoted word says."""
        try:
            return json.loads(token.text)
        except ValueError:
            self.fail("a string with the escapes of JSON", token)

    def integer(self, what: str) -> int:
        """Return an integer."""
        token = self.take()
        if token.kind != "int":
            self.fail(what, token)
        return self.integers(token)[0]

    def dims(self, what: str) -> tuple[int, ...]:
        """Return integers joined by `x`, or a single one."""
        token = self.take()
        if token.kind not in ("dims", "int"):
            self.fail(what, token)
        return self.integers(token)

    def integers(self, token: Token) -> tuple[int, ...]:
        """Return the integers of a word of kind "int" or "dims"."""
        try:
            return tuple(map(int, token.text.split("x")))
        except ValueError:  # more digits than Python converts
            self.fail("an integer of reasonable length", token)

    def fail(self, expected: str, token: Token, help: str = "") -> NoReturn:
        """Raise the error for a word that is not what was expected."""
        shown = f"`{token.text[:40]}`" if token.kind != "end" else "the end of the text"
        self.refuse(f"found {shown}, expected {expected}", token, help)

    def refuse(
        self, message: str, token: Token, help: str = "", notes: Iterable[str] = ()
    ) -> NoReturn:
        """Raise an error at `token`."""
        start = self.source.rfind("\n", 0, token.offset) + 1
        line = self.source[start:].split("\n", 1)[0]
        raise BadKernelText(
            message, line=self.source.count("\n", 0, token.offset) + 1,
            column=token.offset - start + 1, text=line, help=help, notes=notes,
        )  # fmt: skip
