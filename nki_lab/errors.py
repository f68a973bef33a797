"""Which mistakes can a user of nki_lab make, and what does each one say?

    NkiError                         everything shown to a kernel author
    +-- KernelErrors       NKI001    all errors of one kernel
    +-- LanguageError      NKI1xx    what the kernel's text may say
    +-- InstructionError   NKI2xx    a rule of one instruction
    +-- ResourceError      NKI3xx    memory that does not fit
    +-- SimulationError    NKI4xx    found while values are computed
    +-- ToolchainError     NKI5xx    hardware and the official tools
    +-- UsageError         NKI6xx    notebooks, command line, files

An error has a place in the author's text, says what was found and what was expected, and what to
write instead. `str(error)` is the same on every run (no paths, ids or times), since nbval compares
it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

# Most errors that give a help look for close matches.
from nki_lab.rewrite import Edit, edits_of
from nki_lab.rewrite import close_matches as close_matches
from nki_lab.source import (
    Blame,
    Span,
    Stack,
    authors_traceback,
    blanks,
    headline,
    printable,
    stack_in_cells,
    text_of,
)

_CALLS_SHOWN = 20


class NkiError(Exception):
    """Base of every error shown to a kernel author.

    Args:
        message: one sentence: what was found and what was expected.
        stack: places in the author's text, innermost first.
        notes: facts that help, each one line.
        help: what to write instead.
        blame: arguments of the call at the innermost place; the first one written there is marked.
    """

    code = "NKI000"
    #: The version of NKI that refuses this first. Before it, or where the code is allowed, it is a finding.
    refused_since = ""
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
    ) -> None:
        if self._is_one_line:
            message = text_of([message])
        super().__init__(message)
        self.message = message
        self.stack = stack
        self.notes = tuple(notes)
        self.help = help
        self.blame = blame

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
            lines += _calls([f"{s.heading() if heading else s} in {s.function}" for s in spans[1:]])
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
            made: NkiError = base.__new__(kind, *args)
            break
        except TypeError:
            continue
    made.args = args
    vars(made).update(kept)
    return made


def _calls(places: Sequence[str]) -> list[str]:
    """Return the lines of a call stack; one call made again and again is one line, and a deep stack is cut."""
    counted = [(place, len(list(same))) for place, same in itertools.groupby(places)]
    lines = [f"  called from {printable(p)}{f' ({n} times)' if n > 1 else ''}" for p, n in counted]
    if len(lines) > _CALLS_SHOWN:
        half = _CALLS_SHOWN // 2
        lines[half:-half] = [f"  ... {len(lines) - 2 * half} more calls"]
    return lines


class LanguageError(NkiError):
    """The kernel's text says something NKI does not allow."""

    code = "NKI100"


class InstructionError(NkiError):
    """An instruction breaks one of its rules."""

    code = "NKI200"


class ResourceError(NkiError):
    """On-chip memory does not hold what the kernel keeps in it."""

    code = "NKI300"


class SimulationError(NkiError):
    """Something only the values could show."""

    code = "NKI400"
    #: `nki_lab.step` gets to the same instruction: the run has one core and one rank.
    can_be_stepped = False


class ToolchainError(NkiError):
    """The official toolchain or the device is missing or refused."""

    code = "NKI500"


class UsageError(NkiError):
    """A notebook cell, command line or file was used wrongly."""

    code = "NKI600"


class OutsideKernel(LanguageError):
    """An instruction or nki.language function was called outside a kernel."""

    code = "NKI101"


class NotModelled(LanguageError):
    """A real NKI feature that this version does not model."""

    code = "NKI102"


class TensorOperator(LanguageError, TypeError):
    """A Python operator was applied to a tensor."""

    code = "NKI103"


class TileAssignment(LanguageError, TypeError):
    """What is no tensor was assigned by `t[...] = value`, or an attribute of a tensor was."""

    code = "NKI104"


class ViewError(LanguageError, ValueError):
    """A view of a tensor was asked for that its layout cannot give."""

    code = "NKI105"


class OutOfBounds(LanguageError, IndexError):
    """An index or slice reaches outside its tensor."""

    code = "NKI106"


class TensorArgument(LanguageError, ValueError):
    """A tensor was created with a shape, dtype, buffer or address NKI does not have."""

    code = "NKI107"


class UnknownName(LanguageError, AttributeError):
    """A name that NKI does not have; close matches are offered."""

    code = "NKI108"


class KernelRaised(LanguageError):
    """The author's own Python raised while the kernel was traced."""

    code = "NKI109"
    _is_one_line = False


class NotAllowed(LanguageError):
    """A Python construct that no NKI front end compiles."""

    code = "NKI110"


class KernelResult(LanguageError):
    """A kernel returned nothing, or something that is not a tensor in shared HBM."""

    code = "NKI111"


class KernelArgument(LanguageError, TypeError):
    """A kernel was called with an argument it cannot take."""

    code = "NKI112"


class ObjectFields(LanguageError, TypeError):
    """An NKIObject was built with fields that its class does not have."""

    code = "NKI113"


class OlderDialect(LanguageError, ImportError):
    """A module of the older dialect, neuronxcc.nki, was imported."""

    code = "NKI114"


class StrictFinding(LanguageError):
    """A finding, where `strict` asks for none."""

    code = "NKI115"


class BadSyntax(LanguageError):
    """The text of a cell is not Python."""

    code = "NKI116"


class RegisterValue(LanguageError, TypeError):
    """Python asked for the value of a register, which is known only while the kernel runs."""

    code = "NKI117"


class LoopControl(LanguageError):
    """A device loop is left with break, continue or return, or written where it cannot be."""

    code = "NKI118"


class CoresDiffer(LanguageError):
    """The programs of the two cores of a logical core do not fit together."""

    code = "NKI119"


class RemovedLoop(LanguageError):
    """A form of a device loop that a later NKI no longer has."""

    code = "NKI120"
    refused_since = "0.7"


class WrongCall(InstructionError, TypeError):
    """An instruction or function of NKI was called with missing, extra or unknown arguments."""

    code = "NKI201"


class WrongOperand(InstructionError, TypeError):
    """An operand is not a tensor, or not in a memory the instruction can reach."""

    code = "NKI202"


class RuleBroken(InstructionError, ValueError):
    """A hardware rule of an instruction does not hold."""

    code = "NKI203"


class NotOnTarget(InstructionError):
    """The target does not have the instruction or the form of it."""

    code = "NKI204"


class BrokenProgram(InstructionError):
    """Parts of a program do not fit together: a faulty pass, or a text form edited by hand."""

    code = "NKI205"


class RawEnum(InstructionError, TypeError):
    """An integer was given where an instruction takes a member of an enumeration."""

    code = "NKI206"
    refused_since = "0.3"


class OverCapacity(ResourceError, MemoryError):
    """Tensors in use at one time need more bytes than the memory has."""

    code = "NKI301"


class AddressConflict(ResourceError, ValueError):
    """An explicit address is outside its memory, misaligned, or used by another tensor in use."""

    code = "NKI302"


class UninitializedRead(SimulationError):
    """Elements that nothing has written since their tensor was made were read."""

    code = "NKI401"


class AddressOutOfRange(SimulationError, IndexError):
    """A value of the device addressed elements outside its tensor."""

    code = "NKI402"


class UnwrittenRegister(SimulationError):
    """A register was read before anything had been written to it."""

    code = "NKI403"


class MissingPartner(SimulationError):
    """A core or rank waits for another one, which never comes."""

    code = "NKI405"


class RanksDiffer(SimulationError):
    """The ranks of a collective do not fit together."""

    code = "NKI406"


class TooManyTrips(SimulationError):
    """The device loops of a run make more trips than a run may: one of them may never end."""

    code = "NKI407"


class CheckFailed(UsageError, AssertionError):
    """A result differs from its reference by more than the tolerance.

    Attributes:
        comparisons: how the results compare up to the one that differs, a Comparison for each.
    """

    code = "NKI601"
    comparisons: tuple[Any, ...] = ()


class TimedOut(UsageError, TimeoutError):
    """A kernel did not finish within its time limit."""

    code = "NKI602"


class UnknownOption(UsageError):
    """An option that the magic or command does not have, or a value it cannot take."""

    code = "NKI603"


class BadFile(UsageError, ValueError):
    """A file that is not what it should be: corrupt, of another kind or from a newer version."""

    code = "NKI604"


class UnknownTarget(UsageError, ValueError):
    """A target name that nki_lab has no data for."""

    code = "NKI605"


class BadKernelText(BadFile):
    """The text form of a kernel (.nkir) says something that cannot be read.

    Args:
        line, column: where, both counted from 1.
        text: the whole line.
    """

    code = "NKI606"

    def __init__(
        self,
        message: str,
        *,
        line: int,
        column: int,
        text: str,
        notes: Iterable[str] = (),
        help: str = "",
    ) -> None:
        super().__init__(f"line {line}, column {column}: {message}", notes=notes, help=help)
        self.line = line
        self.column = column
        self.text = text

    def render(self, heading: bool = False) -> list[str]:
        """Return the error as lines, the line of the text among them."""
        first, *rest = super().render(heading)
        gutter = f"   {self.line} | "
        before = printable(self.text[: self.column - 1], "\t")
        mark = f"{'| ':>{len(gutter)}}{blanks(before)}^"
        return [first, gutter + printable(self.text, "\t"), mark, *rest]


class NoKernel(UsageError):
    """A cell, file or expression holds no kernel, or leaves open which one is meant."""

    code = "NKI607"


class UnknownTopic(UsageError, LookupError):
    """There is nothing of this name to explain; close matches are offered."""

    code = "NKI608"


class ErrorNotRaised(UsageError):
    """A cell was to end with an error, and ended well."""

    code = "NKI609"


class ExerciseFailed(UsageError, AssertionError):
    """The answer to an exercise is wrong, or not there yet."""

    code = "NKI610"


class UnknownExercise(UsageError, LookupError):
    """There is no exercise of this number."""

    code = "NKI611"


class KernelErrors(NkiError):
    """All independent errors of one kernel, in the order of their lines."""

    code = "NKI001"

    def __init__(self, errors: Sequence[NkiError]) -> None:
        self.errors = tuple(in_order(errors))
        super().__init__(f"{len(self.errors)} errors", stack=self.errors[0].stack)

    def render(self, heading: bool = False) -> list[str]:
        """Return every error as lines, one after the other."""
        lines = [line for error in self.errors for line in (*error.render(heading), "")]
        return [*lines, f"{len(self.errors)} errors in this kernel"]


def show_place(error: BaseException) -> None:
    """Let IPython show what ended a cell from outside with its place in the author's text, without our frames."""

    # IPython asks an exception for this before it makes a traceback of its own.
    error._render_traceback_ = _place_lines  # type: ignore[attr-defined]


def _place_lines() -> list[str]:
    # The error that is handled when IPython asks, since its whole traceback is known then. The error itself must not be
    # held by what it holds: it and all its frames would stay.
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if error is None:
        return []
    shown = NkiError("", stack=stack_in_cells(error)).render(heading=True)
    return [*map(printable, headline(error).split("\n")), *shown[1:]]


def without_our_frames(error: BaseException) -> None:
    """Let an error keep the author's frames alone.

    An error is kept until the next one, for debuggers; frames of the simulator would keep memories and arrays with it.
    """
    error.__traceback__ = authors_traceback(error.__traceback__)
    if error.__suppress_context__:
        error.__context__ = None
    for one in getattr(error, "errors", ()):
        without_our_frames(one)


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


def error_classes() -> tuple[type[NkiError], ...]:
    """Return every class of errors, in the order of their codes."""
    return tuple(sorted(_tree(NkiError), key=lambda kind: kind.code))


def _tree(kind: type[NkiError]) -> Iterator[type[NkiError]]:
    # Not the classes of tests, nor those made of an author's exception.
    if globals().get(kind.__name__) is kind:
        yield kind
        for below in kind.__subclasses__():
            yield from _tree(below)
