"""Places in the author's text: where something happened.

A *place* is `(code object, instruction offset)`: cheap to take while a kernel is traced, and turned
into file, line and columns only when somebody looks (`Span.of`). A cell of a notebook and a file on
disk are both `linecache` entries, so one look-up serves both. Where there is no code object (a line
that is not Python, an option of a magic) a `Span` itself is the place.
"""

from __future__ import annotations

import ast
import dis
import io
import itertools
import linecache
import os
import re
import sysconfig
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple, Union
from weakref import WeakKeyDictionary, ref

Place = Union[tuple[CodeType, int], "Span"]
Stack = tuple[Place, ...]

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Prebuilt kernels are kernel code: their lines are what an author wants to see.
_AUTHOR_ROOMS = (_PACKAGE + "kernels" + os.sep,)
# Libraries an author calls and did not write. Packages may lie in the folder of Python's library, and hold kernels.
_PACKAGES = tuple(os.path.join(sysconfig.get_path(n), "") for n in ("purelib", "platlib"))
_LIBRARY = tuple(os.path.join(sysconfig.get_path(n), "") for n in ("stdlib", "platstdlib"))
_LIBRARIES = tuple(
    f"{package}{name}{os.sep}" for package in _PACKAGES for name in ("numpy", "torch", "jax")
)
# (is hidden, code object, is internal) by identity of the code object, which would hash all it holds at every look-up.
# A cell that is gone takes its code objects with it.
# Where the instructions of a code begin (see `_starts`).
_starts_of: WeakKeyDictionary[CodeType, list[int]] = WeakKeyDictionary()
_seen: dict[int, tuple[bool, ref[CodeType], bool]] = {}
# Those that are hidden: most of the frames that are walked through for each instruction.
_hidden: set[int] = set()

_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_LONGEST_LINE = 2000  # characters; the longest remarks of ours have some hundred
_CELL_NAME = re.compile(r"(?:<ipython-input-(\d+)-[0-9a-f]+>|.*[\\/]ipykernel_\d+[\\/]\d+\.py)$")
_cell_numbers: dict[str, int | None] = {}
# Who knows the numbers of cells that were not declared, if anybody.
_numbering: list[Callable[[str], int | None]] = []


def is_internal(code: CodeType) -> bool:
    """Tell whether `code` belongs to nki_lab itself."""
    return _look(code)[2]


def is_prebuilt(code: CodeType) -> bool:
    """Tell whether `code` belongs to a prebuilt kernel."""
    return code.co_filename.startswith(_AUTHOR_ROOMS)


def is_hidden(code: CodeType) -> bool:
    """Tell whether no author should be shown `code`: it is nki_lab's, Python's own library's or NumPy's."""
    return _look(code)[0]


def _look(code: CodeType) -> tuple[bool, ref[CodeType], bool]:
    key = id(code)
    cached = _seen.get(key)
    if cached is None:
        name = code.co_filename
        package = name.startswith(_PACKAGE) and not name.startswith(_AUTHOR_ROOMS)
        # Binders of instructions are generated; their file name says so.
        internal = package or name.startswith("<nki_lab")
        hidden = internal or is_of_library(name)
        cached = _seen[key] = hidden, ref(code, lambda _: _forget(key)), internal
        if hidden:
            _hidden.add(key)
    return cached


def _forget(key: int) -> None:
    _seen.pop(key, None)
    _hidden.discard(key)


def is_of_library(filename: str) -> bool:
    """Tell whether a file is one of Python's own library, of NumPy, PyTorch or JAX."""
    if filename.startswith(("<frozen", *_LIBRARIES)):
        return True
    return filename.startswith(_LIBRARY) and not filename.startswith(_PACKAGES)


def is_of_package(filename: str) -> bool:
    """Tell whether a file is one of an installed package, which may hold kernels."""
    return filename.startswith(_PACKAGES)


def register_cell(filename: str, number: int | None) -> None:
    """Declare that the linecache entry `filename` is the notebook cell `number`."""
    _cell_numbers[filename] = number


def number_cells(look_up: Callable[[str], int | None]) -> None:
    """Ask `look_up` for the number of cells that nobody has declared: those without a magic of ours."""
    _numbering[:] = [look_up]


def cell_number(filename: str) -> int | None:
    """Return the number of a notebook cell, or None where it has none or is not known."""
    if filename in _cell_numbers:
        return _cell_numbers[filename]
    numbers = (look_up(filename) for look_up in _numbering if is_cell(filename))
    return next(numbers, None)


def is_cell(filename: str) -> bool:
    """Tell whether a file name stands for a notebook cell."""
    return filename in _cell_numbers or _CELL_NAME.match(filename) is not None


class Blame(NamedTuple):
    """Which arguments of a call a mistake is about.

    Attributes:
        callee: name of the function, without its module; "" is any.
        arguments: (name, position) of its parameters, the one to mark first; -1 is a keyword only.
    """

    callee: str
    arguments: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, name: str, position: int = -1) -> Blame:
        """Return the blame of one argument, whatever function of NKI it was given to."""
        return cls("", ((name, position),))


@dataclass(frozen=True)
class Span:
    """A range of the author's text: 1-based lines, 0-based columns counted in characters."""

    filename: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    function: str = ""

    @classmethod
    def of(cls, place: Place) -> Span:
        """Turn a place into the span of the expression that was being evaluated there."""
        if isinstance(place, Span):
            return place
        code, offset = place
        positions = list(code.co_positions())
        line, end_line, column, end_column = (
            positions[offset // 2] if offset // 2 < len(positions) else (None,) * 4
        )
        name = code.co_filename
        if line is None:
            return cls(name, code.co_firstlineno, function=code.co_name)
        text = linecache.getline(name, line)
        if column is not None:
            column = characters(text, column)
        if end_column is not None:
            end_column = characters(linecache.getline(name, end_line or line), end_column)
        return cls(name, line, column, end_line, end_column, code.co_name)

    @classmethod
    def of_node(cls, node: ast.stmt | ast.expr, code: CodeType) -> Span:
        """Return where a node of the parsed file of a function stands."""
        name, line, end = code.co_filename, node.lineno, node.end_lineno or node.lineno
        start = characters(linecache.getline(name, line), node.col_offset)
        stop = characters(linecache.getline(name, end), node.end_col_offset or 0)
        return cls(name, line, start, end, stop, code.co_name)

    @cached_property
    def text(self) -> str:
        """The source line, without its line break."""
        return linecache.getline(self.filename, self.line).rstrip("\n")

    @property
    def file_label(self) -> str:
        """Name the file without its folder, or `cell`: the same on every machine and run."""
        return "cell" if is_cell(self.filename) else printable(os.path.basename(self.filename))

    def __str__(self) -> str:
        return f"{self.file_label}, line {self.line}"

    def heading(self) -> str:
        """Name the place as a person in a notebook knows it: with the cell number."""
        number = cell_number(self.filename)
        return f"cell [{number}], line {self.line}" if number is not None else str(self)

    def narrowed(self, blame: Blame) -> Span:
        """Return the span of the first blamed argument that the call in this span writes out.

        Where the text is not a plain call of that function (another name for it, `*args`), this is the whole span.
        """
        text = self.covered
        try:
            call = ast.parse(f"({text}\n)", mode="eval").body
        except (SyntaxError, ValueError):
            return self
        if not isinstance(call, ast.Call) or blame.callee not in ("", _called(call)):
            return self
        for name, position in blame.arguments:
            node = _argument(call, name, position)
            if node is not None:
                return self.inner(node, text)
        return self

    @property
    def covered(self) -> str:
        """The text in this span; empty where its columns are not known."""
        if self.column is None or self.end_line is None or self.end_column is None:
            return ""
        lines = [
            linecache.getline(self.filename, n).rstrip("\n")
            for n in range(self.line, self.end_line + 1)
        ]
        lines[-1] = lines[-1][: self.end_column]
        lines[0] = lines[0][self.column :]
        return "\n".join(lines)

    def inner(self, node: ast.expr, text: str) -> Span:
        """Return where a part of `text`, which this span covers and which was parsed in brackets, stands."""
        lines = text.split("\n")

        def column(line: int, offset: int) -> int:
            # The first line has the bracket that was added and lacks what stands before the call.
            if line > 1:
                return characters(lines[line - 1], offset)
            return characters(lines[0], offset - 1) + (self.column or 0)

        end_line = node.end_lineno or node.lineno
        return Span(
            self.filename,
            self.line + node.lineno - 1,
            column(node.lineno, node.col_offset),
            self.line + end_line - 1,
            column(end_line, node.end_col_offset or 0),
            self.function,
        )

    def excerpt(self, context: int = 0) -> list[str]:
        """Return the source line with carets under the span, after `context` lines before it."""
        first = max(1, self.line - context)
        width = len(str(self.line))
        lines = []
        for number in range(first, self.line + 1):
            shown = printable(linecache.getline(self.filename, number).rstrip(), "\t")
            lines.append(f"{number:>{width}} | {shown}")
        text = self.text
        if not text:
            return []
        if self.column is not None:
            end = self.end_column if self.end_line == self.line and self.end_column else len(text)
            before, marked = (
                printable(part, "\t") for part in (text[: self.column], text[self.column : end])
            )
            marks = "^" * max(1, len(blanks(marked).expandtabs(1)))
            lines.append(f"{'':>{width}} | {blanks(before)}{marks}")
        return lines


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    before = call.args[: position + 1]
    if not 0 <= position < len(call.args) or any(isinstance(a, ast.Starred) for a in before):
        return None
    return call.args[position]


def place_text(location: str) -> str:
    """Return a place of a profile, such as "add.py:42", as errors and views write it: "add.py, line 42"."""
    file, colon, line = location.rpartition(":")
    return f"{file}, line {line}" if colon and line.isdigit() else location


def printable(text: str, keep: str = "") -> str:
    """Return a text as one line that no terminal obeys and no table breaks at.

    Control characters, ends of lines, marks that turn the direction of writing, characters that cannot be seen and
    halves of characters are written as Python writes them in a string, except those in `keep`.
    """
    if text.isprintable():
        return text
    return _UNSHOWN.sub(lambda m: m[0] if m[0] in keep else repr(m[0])[1:-1], text)


def text_of(lines: Iterable[str]) -> str:
    """Return a text of lines, in each of which names of any kind may stand: every report and table is made here."""
    return "\n".join(
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[:_LONGEST_LINE]} ... {len(line):,} characters"
        for line in map(printable, lines)
    )


def blanks(text: str) -> str:
    """Return white space as wide as `text` in a fixed-width font; tabs stay tabs."""
    return "".join(
        "\t" if c == "\t"
        else "" if unicodedata.combining(c)
        else "  " if unicodedata.east_asian_width(c) in "WF"
        else " "
        for c in text
    )  # fmt: skip


def lines_of(text: str) -> list[str]:
    """Return the lines of Python's text, with their ends, as Python counts them.

    `str.splitlines` also ends a line at form feeds and at separators of Unicode, which may stand in a string.
    """
    return io.StringIO(text, newline=None).readlines()


def keep_lines(filename: str, text: str) -> None:
    """Let errors show `text` as the file `filename`; without a time of change it is never dropped."""
    linecache.cache[filename] = (len(text), None, lines_of(text), filename)


def characters(text: str, byte_column: int) -> int:
    """Return the column in characters of a column that Python counts in bytes of UTF-8."""
    return len(text.encode()[:byte_column].decode(errors="ignore"))


def _starts(code: CodeType) -> list[int]:
    """Return, per two bytes of a code, where the instruction begins that they belong to.

    Once Python has run a call a few times it counts it at the cache behind its instruction, so a place would have two
    numbers.
    """
    starts = _starts_of.get(code)
    if starts is None:
        starts = [0] * (len(code.co_code) // 2)
        for instruction in dis.get_instructions(code):
            starts[instruction.offset // 2] = instruction.offset
        starts = _starts_of[code] = list(itertools.accumulate(starts, max))
    return starts


def stack_of_frame(frame: FrameType | None, root: CodeType | None = None) -> Stack:
    """Return the author's places from `frame` outwards to `root`, innermost first."""
    places = []
    while frame is not None:
        code = frame.f_code
        if not is_hidden(code):
            places.append((code, _starts(code)[frame.f_lasti // 2]))
        if code is root:
            break
        frame = frame.f_back
    return tuple(places)


def key_of_frame(frame: FrameType | None, root: CodeType | None = None) -> tuple[int, ...]:
    """Return what is equal for equal stacks of frames that run, for a fraction of what a stack and its hash cost."""
    key: list[int] = []
    while frame is not None:
        code = frame.f_code
        at = id(code)
        if at not in _hidden and not (_look(code) if at not in _seen else _seen[at])[0]:
            key.append(at)
            key.append(frame.f_lasti)
        if code is root:
            break
        frame = frame.f_back
    return tuple(key)


def stack_of_traceback(tb: TracebackType | None, root: CodeType | None = None) -> Stack:
    """Return the author's places a traceback went through from `root` on, innermost first."""
    places: list[Place] = []
    seen_root = root is None
    while tb is not None:
        code = tb.tb_frame.f_code
        seen_root = seen_root or code is root
        if seen_root and not is_hidden(code):
            places.append((code, _starts(code)[tb.tb_lasti // 2]))
        tb = tb.tb_next
    return tuple(reversed(places))


def authors_traceback(tb: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that is the author's: a debugger stops there, and no other frame is kept."""
    entries = []
    while tb is not None:
        if not is_hidden(tb.tb_frame.f_code):
            entries.append(tb)
        tb = tb.tb_next
    chain: TracebackType | None = None
    for entry in reversed(entries):
        chain = TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return chain


def headline(error: BaseException) -> str:
    """Return name and message of an exception; just the name where it has no message, or fails to give one."""
    try:
        message = str(error)
    except Exception:
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def came_at(error: BaseException, stack: Stack) -> None:
    """Note the instruction that ran when `error` came from outside: nothing of the author's is being called then."""
    if not hasattr(error, "nki_stack"):
        error.nki_stack = stack  # type: ignore[attr-defined]


def stack_in_cells(error: BaseException) -> Stack:
    """Return the author's places in notebook cells, or all of them where none is in a cell.

    What was interrupted from outside may stand deep in a library; its author looks for the cell.
    """
    places = getattr(error, "nki_stack", ()) + stack_of_traceback(error.__traceback__)
    return tuple(p for p in places if is_cell(Span.of(p).filename)) or places
