"""Reads the comments that say which version of NKI a kernel is written for, such as `# nki: 0.6`.

One holds for the kernel that it stands above or in, or, before the first function of a cell or file, for all of them.
"""

from __future__ import annotations

import io
import itertools
import linecache
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nki_lab.choices import NKI as NKI_VERSION
from nki_lab.errors import UnknownOption
from nki_lab.source import Span

#: Without a colon, a comment that says more than a version is about something else.
VERSION_COMMENT = re.compile(
    r"#\s*nki\s*(?:[:=]+\s*(?P<said>[^#]*[^#\s])|\s(?P<bare>\d+\.\d[\d.]*|beta\d)\s*$)",
    re.IGNORECASE,
)
_FUNCTION = re.compile(r"@|(async\s+)?def\b|class\b")
_BETWEEN = re.compile(r"\s*(#|%%|$)")  # comments, magics and blank lines


class _Comment(NamedTuple):
    place: Span
    said: str


def version_said(filename: str, first: int, length: int) -> str:
    """Return the version of NKI that comments name for a function, or "".

    Args:
        filename: the file or cell.
        first: line that the function begins at, with its decorators.
        length: its number of lines.

    Raises:
        UnknownOption: a comment names no version, or several; two of them differ; one belongs to no function.
    """
    lines = linecache.getlines(filename)
    if not any(map(VERSION_COMMENT.search, lines)):
        return ""
    written = _by_line(filename, lines)
    begins = [n for n, line in enumerate(lines) if _FUNCTION.match(line)]
    start = _above(lines, begins[0]) if begins else len(lines)
    head = range(start or (begins[0] if begins else 0))
    own = _own(lines, first, length)
    for n, comment in written.items():
        if n not in head and n not in own and not _is_of_a_function(lines, n):
            raise _refused(comment, "is above no function, so no kernel is held to it")
    return _only(written, own) or _only(written, head)


def comment_of(filename: str, first: int, length: int) -> tuple[Span | None, bool]:
    """Return where a comment names the version of a function, and whether it stands above or in the function itself."""
    lines = linecache.getlines(filename)
    written = _by_line(filename, lines)
    own = next((written[n].place for n in _own(lines, first, length) if n in written), None)
    return own or next((comment.place for comment in written.values()), None), own is not None


def _own(lines: Sequence[str], first: int, length: int) -> range:
    """Return the lines above and in a function."""
    return range(_above(lines, first - 1), first - 1 + length)


def _by_line(filename: str, lines: Sequence[str]) -> dict[int, _Comment]:
    return {comment.place.line - 1: comment for comment in _comments(filename, lines)}


def _comments(filename: str, lines: Sequence[str]) -> Iterator[_Comment]:
    python = "".join("\n" if line.startswith(("%", "!")) else line for line in lines)
    try:
        for token in tokenize.generate_tokens(io.StringIO(python).readline):
            if token.type == tokenize.COMMENT and (match := VERSION_COMMENT.match(token.string)):
                group = "said" if match["said"] else "bare"
                line, column = token.start
                columns = (column + k for k in match.span(group))
                yield _Comment(
                    Span(filename, line, next(columns), line, next(columns)), match[group]
                )
    except (
        tokenize.TokenError,
        SyntaxError,
    ):  # something that is not Python, such as a magic, follows
        return


def _above(lines: Sequence[str], at: int) -> int:
    """Return where the comments and blank lines above a line begin."""
    above = itertools.takewhile(lambda n: _BETWEEN.match(lines[n]), range(at - 1, -1, -1))
    return at - sum(1 for _ in above)


def _is_of_a_function(lines: Sequence[str], at: int) -> bool:
    """Tell whether a line is in a function, or only comments and blank lines stand between it and one."""
    below = (line for line in lines[at:] if not _BETWEEN.match(line))
    return bool(re.match(r"\s", lines[at]) or _FUNCTION.match(next(below, "")))


def _only(written: dict[int, _Comment], lines: Iterable[int]) -> str:
    """Return the one version that the comments of some lines name; "" where there is none."""
    version = ""
    for n in lines:
        if (comment := written.get(n)) is None:
            continue
        if len(comment.said.split()) > 1:
            raise _refused(comment, "is not one version")
        try:
            named = NKI_VERSION.take(comment.said, "# nki")
        except UnknownOption as error:
            error.stack = (comment.place,)
            raise
        if version and named != version:
            raise _refused(comment, f"stands beside another comment, which says {version}")
        version = named
    return version


def _refused(comment: _Comment, why: str) -> UnknownOption:
    return UnknownOption(
        f"# nki: {comment.said} {why}",
        stack=(comment.place,),
        help="write one comment with one version, such as `# nki: 0.6`, directly above the kernel or at the head of"
        " its cell or file",
    )
