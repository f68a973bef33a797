"""Describes errors and findings so that an editor can mark them in the cells of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nki_lab.errors import KernelErrors, NkiError
from nki_lab.ir.program.nodes import Finding
from nki_lab.rewrite import Edit, edits_of
from nki_lab.source import Span, headline, stack_in_cells

#: A mark: plain data, with lines counted from 1 and columns in characters from 0, as in `Span`.
Diagnostic = dict[str, Any]
#: Marks by the id of the cell they are in.
ByCell = dict[str, list[Diagnostic]]
_TYPED = " as typed"


class CellIds:
    """Which cell of the front end is a file name, and how many lines of it stand above the file's first?"""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int]] = {}

    def note(self, filename: str, cell: str, above: int = 0) -> None:
        """Declare that `filename` is the text of a cell, `above` blank lines of which were left out."""
        self._known[filename] = cell, above

    def and_also(self, filename: str, cell: str) -> CellIds:
        """Return the same with one more file name."""
        ids = CellIds()
        ids._known = {**self._known, filename: (cell, 0)}
        return ids

    def find(self, span: Span) -> tuple[str, int] | None:
        """Return the cell a span is in, and the number to add to its lines; None where it is in none."""
        return self._known.get(span.filename.removesuffix(_TYPED))


def diagnostics(
    ids: CellIds,
    origin: str,
    errors: Iterable[BaseException] = (),
    findings: Iterable[Finding] = (),
    text: str = "",
) -> ByCell:
    """Return the marks of what running a cell brought to light, each once.

    Args:
        ids: knows the cells.
        origin: id of the cell that ran; what happened in another one is marked there, and where this one called it.
        errors: what was raised.
        findings: what did not stop the kernel.
        text: that of the origin, whose first line that is not blank has what is in no cell.
    """
    by_cell: ByCell = {origin: []}
    marks = [
        *(mark for error in errors for mark in _of_error(error)),
        *(_of_finding(finding) for finding in findings),
    ]
    for data, spans, edits in marks:
        for cell, mark in _placed(ids, origin, data, spans, edits, text):
            there = by_cell.setdefault(cell, [])
            if mark not in there:
                there.append(mark)
    for there in by_cell.values():
        there.sort(key=lambda mark: (mark["line"], mark["column"]))
    return by_cell


_Mark = tuple[Diagnostic, list[Span], list[Edit]]


def _of_error(error: BaseException) -> Iterator[_Mark]:
    if isinstance(error, KernelErrors):
        for one in error.errors:
            yield from _of_error(one)
    elif isinstance(error, NkiError):
        data = _data(error.code, "error", error.message, error.notes, error.help)
        yield data, error.spans, error.edits
    else:
        places = stack_in_cells(error)
        yield (
            _data(type(error).__name__, "error", headline(error)),
            [Span.of(place) for place in places],
            [],
        )


def _of_finding(finding: Finding) -> _Mark:
    severity = "warning" if finding.is_serious else "info"
    spans = [Span.of(place) for place in finding.stack]
    edits = edits_of(finding.help, spans[0], spans[0]) if spans else []
    return _data(finding.kind, severity, finding.message, help=finding.help), spans, edits


def _data(
    code: str, severity: str, message: str, notes: Iterable[str] = (), help: str = ""
) -> Diagnostic:
    return {
        "code": code,
        "severity": severity,
        "message": message,
        "notes": list(notes),
        "help": str(help),
        "fixes": [],
    }


def _placed(
    ids: CellIds, origin: str, data: Diagnostic, spans: list[Span], edits: list[Edit], text: str
) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the mark at its innermost place in a cell and, where that is another one, at the call in the origin."""
    places = [(span, at) for span in spans if (at := ids.find(span)) is not None]
    if not places:
        yield origin, data | _first_line(text)
        return
    span, (cell, above) = places[0]
    data = data | {"notes": [*data["notes"], *_inside(spans[0], span), *_calls(spans, span)]}
    fixes = [_fix(edit, above) for edit in edits if ids.find(edit.span) == (cell, above)]
    yield cell, data | _range(span, above) | {"fixes": fixes}
    for span, (other, above) in places[1:] if cell != origin else ():
        if other == origin:
            where = f"in {places[0][0].heading()}"
            yield origin, data | _range(span, above) | {"notes": [where, *data["notes"]]}
            return


def _first_line(text: str) -> Diagnostic:
    below = text.lstrip()
    line = text[: len(text) - len(below)].count("\n") + 1
    shown = below.partition("\n")[0].rstrip()
    return {"line": line, "column": 0, "endLine": line, "endColumn": len(shown), "text": shown}


def _inside(innermost: Span, shown: Span) -> list[str]:
    return [] if innermost is shown else [f"in {innermost.function}, {innermost.heading()}"]


def _calls(spans: list[Span], shown: Span) -> list[str]:
    outer = spans[spans.index(shown) + 1 :]
    return [f"called from {span.heading()} in {span.function}" for span in outer[:3]]


def _range(span: Span, above: int) -> Diagnostic:
    """Return a span as plain data, with the text of its line: who shows it can see whether the cell has changed."""
    same_line = span.end_line in (None, span.line)
    whole = span.column is None
    end = span.end_column if span.end_column is not None and not whole else len(span.text)
    return {
        "line": span.line + above,
        "column": span.column or 0,
        "endLine": (span.line if same_line else span.end_line or span.line) + above,
        "endColumn": end,
        "text": span.text,
    }


def _fix(edit: Edit, above: int) -> Diagnostic:
    place = _range(edit.span, above)
    if edit.span.column == edit.span.end_column:
        place["endColumn"] = edit.span.column
    return {"title": edit.title, "insert": edit.text, **place}
