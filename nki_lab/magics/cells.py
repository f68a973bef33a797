"""Turns the text of a cell into source with the lines its author sees."""

from __future__ import annotations
import __future__

import ast
import linecache
import re
from dataclasses import dataclass
from types import CodeType

from IPython.core.interactiveshell import InteractiveShell

from nki_lab.errors import BadSyntax
from nki_lab.source import Span, Stack, characters, keep_lines, lines_of, register_cell

_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_EXAMPLE = "the first line of the cell is %%nki, everything below it is Python"


@dataclass(frozen=True)
class Cell:
    """A `%%nki` cell as source.

    Attributes:
        filename: its name in linecache; tracebacks and `inspect.getsource` find the text there.
        text: valid Python whose line numbers are those of the editor: the magic is a comment.
        typed: the line of the magic as it was typed.
        first_line: number of that line; larger than 1 below blank lines.
    """

    filename: str
    text: str
    typed: str
    first_line: int

    @classmethod
    def of(cls, shell: InteractiveShell, magic: str, line: str, body: str) -> Cell:
        """Register a cell that is being run.

        Args:
            shell: the IPython that runs it.
            magic: "%%nki".
            line: what follows on the line of the magic.
            body: the lines below it.
        """
        typed = f"{magic} {line}".rstrip()
        raw = _raw_cell(shell, magic, body)
        above = raw[: raw.index(magic)].count("\n")
        text = _python_ends("\n" * above + f"# {typed}\n{body}")
        number = len(shell.user_ns.get("In", ("",))) - 1
        _check_encodable(text)
        # ipykernel names a cell by its raw text, and the debugger knows it by that name.
        filename = shell.compile.cache(text, number, raw_code=raw)
        keep_lines(filename, text)  # IPython has split it at other places than Python does
        register_cell(filename, number if number > 0 else None)
        cell = cls(filename, text, typed, above + 1)
        register_cell(cell._typed_filename, number if number > 0 else None)
        return cell

    @classmethod
    def unrun(cls, filename: str, magic: str, text: str) -> Cell:
        """Return a cell that is not being run, as `text` an editor has; `forget` takes its text out of linecache."""
        head, _, rest = _python_ends(text).partition(magic)
        line, _, body = rest.partition("\n")
        typed = f"{magic}{line}".rstrip()
        above = head.count("\n")
        cell = cls(filename, "\n" * above + f"# {typed}\n{body}", typed, above + 1)
        _check_encodable(cell.text)
        keep_lines(filename, cell.text)
        register_cell(filename, None)
        register_cell(cell._typed_filename, None)
        return cell

    def forget(self) -> None:
        """Take the text out of linecache."""
        linecache.cache.pop(self.filename, None)
        linecache.cache.pop(self._typed_filename, None)

    @property
    def options(self) -> str:
        """What stands behind the name of the magic."""
        return self.typed.partition(" ")[2]

    def parse(self) -> ast.Module:
        """Return the syntax tree; BadSyntax, with the place, for text that is not Python."""
        try:
            return ast.parse(self.text, self.filename)
        except SyntaxError as error:
            raise BadSyntax(
                f"this is not Python: {error.msg}",
                stack=(self._span_of(error),) if error.lineno else self.magic_stack,
                help=_instead(self._line(error.lineno or 1)),
            ) from None
        except ValueError as error:  # Python 3.11: a null byte
            raise BadSyntax(
                f"this is not Python: {error}",
                stack=self.magic_stack,
                help=_EXAMPLE,
            ) from None

    def compile(self, tree: ast.Module, shell: InteractiveShell) -> CodeType:
        """Return the code of the cell, under the `from __future__` imports of earlier cells."""
        return self.compile_text(tree, future_flags(shell))

    def compile_text(self, tree: ast.Module, flags: int) -> CodeType:
        """Return the code of a tree of the cell's text under flags of the compiler."""
        try:
            return compile(tree, self.filename, "exec", flags=flags, dont_inherit=True)
        except SyntaxError as error:  # `return` outside a function, and the like
            # The compiler, unlike the parser, counts columns in bytes.
            line = self._line(error.lineno or 1)
            error.offset = characters(line, (error.offset or 1) - 1) + 1
            if error.end_offset:
                error.end_offset = characters(line, error.end_offset - 1) + 1
            raise BadSyntax.of(error.msg, self._span_of(error)) from None

    def option_stack(self, word: str, column: int = 0, width: int = 0) -> Stack:
        """Return the place of a word of the magic's line: `width` characters from `column` of it."""
        return typed_stack(self._typed_filename, self.typed, self.first_line, word, column, width)

    @property
    def magic_stack(self) -> Stack:
        """The line of the magic, as typed: the place of what has none in the text below it."""
        return self.option_stack("")

    @property
    def _typed_filename(self) -> str:
        return f"{self.filename} as typed"

    def _line(self, number: int) -> str:
        lines = lines_of(self.text)
        return lines[number - 1] if number <= len(lines) else ""

    def _span_of(self, error: SyntaxError) -> Span:
        line = error.lineno or 1
        start = max((error.offset or 1) - 1, 0)
        same_line = error.end_lineno in (None, line)
        end = error.end_offset - 1 if same_line and error.end_offset else start + 1
        return Span(self.filename, line, start, line, max(end, start + 1))


def future_flags(shell: InteractiveShell) -> int:
    """Return the compiler's flags that `from __future__` imports of earlier cells have set."""
    return shell.compile.flags & _FUTURE


def _python_ends(text: str) -> str:
    """Return a text with the ends of lines that Python makes of those of Windows."""
    return re.sub(r"\r\n?", "\n", text)


def _check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise BadSyntax(
            f"line {line} holds {text[error.start]!a}, half of a character, which cannot be saved in a file",
            help="type the character again",
        ) from None


def typed_stack(
    filename: str, typed: str, line: int, word: str, column: int = 0, width: int = 0
) -> Stack:
    """Return the place of a word in the line of a magic, which errors about its options show.

    Args:
        filename: name to keep the line under.
        typed: the line, with the magic's name.
        line: its number in the cell.
        word: option or value to mark; empty, or not found, marks the whole line.
        column, width: part of the word to mark; 0 is all of it.
    """
    text = "\n" * (line - 1) + typed + "\n"
    # Kept apart from the source of the cell, since Python cannot read `%%nki`.
    keep_lines(filename, text)
    start = typed.find(word, typed.find(" ") + 1) if word else -1
    if start < 0:
        return (Span(filename, line),)
    start += column
    end = min(start + (width or len(word)), len(typed))
    return (Span(filename, line, start, line, max(end, start + 1)),)


def _raw_cell(shell: InteractiveShell, magic: str, body: str) -> str:
    """Return the whole cell as it was sent, or an equivalent where the magic was called by a program."""
    history = shell.history_manager
    raw = history.input_hist_raw[-1] if history is not None and history.input_hist_raw else ""
    if raw.lstrip().startswith(magic) and body.strip() and body.strip() in raw:
        return raw
    return f"{magic}\n{body}"


def _instead(line: str) -> str:
    start = line.lstrip()[:1]
    if start in ("%", "!", "?"):
        return f"lines that start with `{start}` belong in a separate cell, without %%nki"
    return _EXAMPLE
