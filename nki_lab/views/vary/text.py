"""Describes the variants of a kernel in plain text."""

from __future__ import annotations

from collections.abc import Sequence

from nki_lab.profiler.text_table import cut, text_table
from nki_lab.source import text_of
from nki_lab.views.vary.variants import Variant, Variants, value_words

#: What is said where a profile is all that is known.
NO_VARIANTS = (
    "only the profile of this run is known; its kernel cannot be compiled for other values"
)
_UNKNOWN = "-"
_NOTES = 6
_NOTE_LETTERS = 150


def variants_text(
    variants: Variants, lines: int | None = None, shown: Sequence[Variant] | None = None
) -> str:
    """Return a table of variants of limited length; by default of `sweep`, timed now, and of all timed before."""
    if variants.problem:
        return variants.problem
    start = variants.variant(variants.start)
    timed = [start, *variants] if shown is None else [start, *shown]
    listed = list(dict.fromkeys([*timed, *(variants.visited if shown is None else ())]))
    notes = _Notes()
    rows = [_row(variants, variant, start, notes) for variant in listed]
    heads = (
        *(parameter.name for parameter in variants.parameters),
        "total us", "vs start", "bound by", "SBUF in time", "PSUM banks", "instructions",
    )  # fmt: skip
    below = [*notes.lines, *_best(variants), *_rest(variants, len(listed)), *_fixed(variants)]
    room = None if lines is None else max(lines - len(below), lines // 2)
    return text_of(cut([*text_table(heads, rows, room), *below], lines))


class _Notes:
    """What is said below the table, each once, with a number."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def mark(self, text: str) -> str:
        text = headline(text)
        if text not in self._texts:
            self._texts.append(text)
        return f"({self._texts.index(text) + 1})"

    @property
    def lines(self) -> list[str]:
        shown = [
            f"({n}) {text if len(text) <= _NOTE_LETTERS else text[: _NOTE_LETTERS - 2] + '..'}"
            for n, text in enumerate(self._texts[:_NOTES], 1)
        ]
        more = len(self._texts) - _NOTES
        return [*shown, f"and {more} more such notes"] if more > 0 else shown


def change(variant: Variant, start: Variant) -> str:
    """Say how much longer or shorter than the start a variant takes."""
    if variant.numbers == start.numbers:
        return "start"
    if variant.total_ns is None or not start.total_ns:
        return _UNKNOWN
    return f"{variant.total_ns / start.total_ns - 1:+.1%}"


def headline(problem: str) -> str:
    """Return the first line of the error that a variant ends with."""
    return problem.partition("\n")[0]


def _row(variants: Variants, variant: Variant, start: Variant, notes: _Notes) -> tuple[str, ...]:
    chosen = [p.texts[n] for p, n in zip(variants.parameters, variant.numbers, strict=True)]
    if variant.problem:
        text = f"error {notes.mark(variant.problem)}"
        return (*chosen, _UNKNOWN, _UNKNOWN, text, _UNKNOWN, _UNKNOWN, _UNKNOWN)
    figures = (variant.sbuf_bytes, variant.psum_banks, variant.instructions)
    return (
        *chosen,
        f"{(variant.total_ns or 0) / 1000:,.3f}",
        change(variant, start),
        f"{variant.bound} {notes.mark(variant.doubt)}" if variant.doubt else variant.bound,
        *(_UNKNOWN if figure is None else f"{figure:,}" for figure in figures),
    )


def _best(variants: Variants) -> list[str]:
    best = variants.best()
    if best is None:
        return []
    chosen = ", ".join(f"{name}={value_words(value)}" for name, value in best.values.items())
    start = variants.variant(variants.start)
    against = (
        "the start"
        if best.numbers == start.numbers
        else f"{change(best, start)} compared with the start"
    )
    return [
        f"fastest: {chosen}, {(best.total_ns or 0) / 1000:,.3f} us ({against}); modelled, no value was computed"
    ]


def _rest(variants: Variants, told: int) -> list[str]:
    remaining = variants.combinations - told
    if remaining <= 0:
        return []
    return [
        f"{remaining:,} more combinations are timed when they are chosen, or by vary(...).at(...)"
    ]


def _fixed(variants: Variants) -> list[str]:
    if not variants.fixed:
        return []
    kept = ", ".join(f"{name}={value_words(value)}" for name, value in variants.fixed.items())
    return [f"left as they are: {kept}; name values to change one: vary(name=[...])"]
