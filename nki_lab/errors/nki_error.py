"""NkiError, the base of every error shown to an author: its place, its text, and the list of all kinds."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from nki_lab.rewrite import Edit, edits_of
from nki_lab.source import Blame, Span, Stack, printable, text_of

_CALLS_SHOWN = 20
# Weakly held: a class that a cell or a test defined is forgotten with it.
_KINDS: WeakValueDictionary[str, type[NkiError]] = WeakValueDictionary()


class Needs(NamedTuple):
    """The versions of NKI that take what an error is about.

    Attributes:
        what: the form or name, as the subject of a sentence.
        since: the first version that takes it; "" where all before `until` do.
        until: the last version that takes it; "" where all after `since` do.
        note: what the error says of these versions, where its message does not.
    """

    what: str
    since: str = ""
    until: str = ""
    note: str = ""


class NkiError(Exception):
    """Base of every error shown to a kernel author.

    Args:
        message: one sentence: what was found and what was expected.
        stack: places in the author's text, innermost first.
        notes: facts that help, each one line.
        help: what to write instead; that of the class where none is given.
        blame: arguments of the call at the innermost place; the first one written there is marked.
        needs: the versions of NKI that take what is refused here; None where it is wrong in all of them.
    """

    # A subclass with a `code` is a kind of error, listed by `explain`, the documentation and the extension.
    code = "NKI000"
    #: What the error means and how to get rid of it, as `explain` prints it.
    page = """
        Every error a kernel author is shown starts with a code. The first digit tells the stage: 1 the text
        of the kernel, 2 one instruction, 3 memory, 4 values, 5 hardware and official tools, 6 the use of
        notebooks, commands and files.
        """
    # A mistake and its correction: `%%nki` cells, commands (`$ nki-lab ...`), kernels in text form (`nkir 1`), scripts
    # (they begin with an import), modules with `kernel`, or lines of a kernel that has loaded its argument `x` [128, 4]
    # into a tile `t`. Tests run them: the wrong one ends with exactly this error, the right one without any. Both are
    # empty for a stage of which only the kinds are raised.
    wrong = ""
    right = ""
    #: What to write instead, where whoever raises it says nothing.
    usual_help = ""
    # What an author's own exception says may have several lines. Other messages are one, whatever they name.
    _is_one_line = True

    def __init__(
        self,
        message: str,
        *,
        stack: Stack = (),
        notes: Iterable[str] = (),
        help: str = "",
        blame: Blame | None = None,
        needs: Needs | None = None,
    ) -> None:
        if self._is_one_line:
            message = text_of([message])
        super().__init__(message)
        self.message = message
        self.stack = stack
        self.notes = (*notes, *([needs.note] if needs is not None and needs.note else ()))
        self.help = help or self.usual_help
        self.blame = blame
        self.needs = needs

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in vars(cls):
            _add_kind(cls)

    @property
    def spans(self) -> list[Span]:
        """The places of this error, innermost first."""
        span = self.span
        return [] if span is None else [span, *(Span.of(place) for place in self.stack[1:])]

    @property
    def span(self) -> Span | None:
        """The innermost place in the author's text, or None where there is none."""
        if not self.stack:
            return None
        span = Span.of(self.stack[0])
        return span if self.blame is None else span.narrowed(self.blame)

    @property
    def edits(self) -> list[Edit]:
        """The changes of the text that `help` asks for, where it is one that can be carried out."""
        span = self.span
        return [] if span is None else edits_of(self.help, span, Span.of(self.stack[0]))

    def render(self, heading: bool = False) -> list[str]:
        """Return the error as lines; `heading` adds the cell number a notebook shows."""
        lines = [*map(printable, f"error[{self.code}]: {self.message}".split("\n"))]
        spans = self.spans
        if spans:
            where = spans[0]
            lines.append(f"  --> {where.heading() if heading else where}")
            lines += [f"   {line}" for line in where.excerpt()]
            lines += _calls(
                [
                    f"{s.heading() if heading else s}" + f" in {s.function}" * bool(s.function)
                    for s in spans[1:]
                ]
            )
        lines += [text_of([f"  note: {note}"]) for note in self.notes]
        if self.help:
            lines += [printable(line, "\t") for line in f"  help: {self.help}".split("\n")]
        return lines

    def __str__(self) -> str:
        return "\n".join(self.render())

    def __reduce__(self) -> tuple[Any, ...]:
        # Code objects stay in their process, and so do classes that are made while it runs.
        kind = next(
            k for k in type(self).__mro__ if vars(sys.modules[k.__module__]).get(k.__name__) is k
        )
        kept = {k: v for k, v in vars(self).items() if k not in ("_render_traceback_", "nki_stack")}
        kept["stack"] = tuple(map(Span.of, self.stack))
        return _sent, (kind, self.args, kept)

    def _render_traceback_(self) -> list[str]:
        return self.render(heading=True)


def _sent(kind: type[NkiError], args: tuple[Any, ...], kept: dict[str, Any]) -> NkiError:
    """Return an error as it was in another process."""
    for base in (b for b in kind.__mro__ if "__new__" in vars(b)):
        try:  # some are errors of Python, too, of which one alone knows how to make them
            error: NkiError = base.__new__(kind, *args)
            break
        except TypeError:
            continue
    error.args = args
    vars(error).update(kept)
    return error


def _calls(places: Sequence[str]) -> list[str]:
    """Return the lines of a call stack; one call made again and again is one line, and a deep stack is cut."""
    counted = [(place, len(list(same))) for place, same in itertools.groupby(places)]
    lines = [f"  called from {printable(p)}{f' ({n} times)' if n > 1 else ''}" for p, n in counted]
    if len(lines) > _CALLS_SHOWN:
        half = _CALLS_SHOWN // 2
        lines[half:-half] = [f"  ... {len(lines) - 2 * half} more calls"]
    return lines


def _add_kind(kind: type[NkiError]) -> None:
    """List a class under its code; what it does not say itself it does not inherit."""
    earlier = _KINDS.get(kind.code)
    if earlier is not None and _place(earlier) != _place(kind):  # a cell may be run again
        raise TypeError(f"{_place(earlier)} and {_place(kind)} have the same code, {kind.code}")
    _KINDS[kind.code] = kind
    for name in ("page", "wrong", "right"):
        setattr(kind, name, _without_indent(vars(kind).get(name, "")))


def _place(kind: type[NkiError]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _without_indent(text: str) -> str:
    """Return the lines of an indented block; other text as it is."""
    if not text.startswith("\n"):
        return text
    lines = text.strip("\n").rstrip(" ")
    indent = lines[: len(lines) - len(lines.lstrip(" "))]
    return lines.removeprefix(indent).replace(f"\n{indent}", "\n").rstrip("\n")


_add_kind(NkiError)


def error_classes() -> tuple[type[NkiError], ...]:
    """Return every kind of error, in the order of their codes."""
    return tuple(kind for _, kind in sorted(_KINDS.items()))


class KernelErrors(NkiError):
    """All independent errors of one kernel, in the order of their lines."""

    code = "NKI001"
    page = """
        Several independent errors of one kernel, in the order of their lines. Correct the first one and run
        again: later ones are sometimes its consequences.
        """
    wrong = """
        nisa.tensor_copy(dst=t, src=t[:, 0:2])
        nisa.memset(dst=t, value=one)
        """
    right = """
        nisa.tensor_copy(dst=t[:, 2:4], src=t[:, 0:2])
        nisa.memset(dst=t, value=1.0)
        """

    def __init__(self, errors: Sequence[NkiError]) -> None:
        self.errors = tuple(in_order(errors))
        super().__init__(f"{len(self.errors)} errors", stack=self.errors[0].stack)

    def render(self, heading: bool = False) -> list[str]:
        """Return every error as lines, one after the other."""
        lines = [line for error in self.errors for line in (*error.render(heading), "")]
        return [*lines, f"{len(self.errors)} errors in this kernel"]


def joined(errors: Iterable[NkiError]) -> NkiError:
    """Return several errors as one, each mistake once: the text may show what the run meets again."""
    flat: list[NkiError] = []
    for error in errors:
        for one in error.errors if isinstance(error, KernelErrors) else (error,):
            if not any((one.message, one.span) == (e.message, e.span) for e in flat):
                flat.append(one)
    return flat[0] if len(flat) == 1 else KernelErrors(flat)


def in_order(errors: Iterable[NkiError]) -> list[NkiError]:
    """Return errors in the order of their lines, those without a place last."""

    def place(error: NkiError) -> tuple[bool, str, int, int]:
        span = error.span
        if span is None:
            return True, "", 0, 0
        return False, span.filename, span.line, span.column or 0

    return sorted(errors, key=place)
