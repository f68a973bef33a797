"""Reads a large JSON document piece by piece: of its arrays one element at a time, never the whole text at once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

#: Characters read at once, and the most that one element of an array, or one value that is no array, may have.
_PIECE, _LONGEST = 1 << 20, 1 << 26
_SPACE = re.compile(r"[ \t\r\n]*")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def members(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the members of the object in a file: its name with a value, and for each element of an array, the name too.

    An array without elements is yielded as an empty list. Raises ValueError where the text is damaged or cut off, and
    RecursionError where it is nested too deeply.
    """
    with path.open(encoding="utf-8-sig") as file:
        text = _Text(file)
        text.expect("{")
        while text.peek() != "}":
            name = text.value()
            if not isinstance(name, str):
                raise json.JSONDecodeError("expected a name", "", 0)
            text.expect(":")
            if text.peek() != "[":
                yield name, text.value()
            else:
                text.expect("[")
                if text.peek() == "]":
                    yield name, []
                while text.peek() != "]":
                    yield name, text.value()
                    if text.peek() != "]":
                        text.expect(",")
                text.expect("]")
            if text.peek() != "}":
                text.expect(",")
        text.expect("}")
        if text.peek():
            raise json.JSONDecodeError("expected the end", "", 0)


class _Text:
    """What has been read of a file and not yet used."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._ended = False

    def _more(self) -> bool:
        """Read on, dropping what has been used; False at the end of the file."""
        piece = "" if self._ended else self._file.read(max(_PIECE, len(self._text) - self._at))
        self._ended = not piece
        self._text, self._at = self._text[self._at :] + piece, 0
        return not self._ended

    def peek(self) -> str:
        """Return the next character that is no space; empty at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def expect(self, character: str) -> None:
        """Pass over a character. Raises ValueError for another one."""
        if self.peek() != character:
            raise json.JSONDecodeError(f"expected {character}", "", 0)
        self._at += 1

    def value(self) -> Any:
        """Return the next value. Raises ValueError where there is none, or one that is too long."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if len(self._text) - self._at > _LONGEST or not self._more():
                    raise
                continue
            # A number may go on in what has not been read.
            if end == len(self._text) and self._more():
                continue
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a number is too large")
            self._at = end
            return value
