"""Draws the variants of a kernel: a bar for the time of each."""

from __future__ import annotations

from nki_lab.profiler.analyses.report import badge
from nki_lab.views.head import heading
from nki_lab.views.run import ViewData
from nki_lab.views.vary.text import NO_VARIANTS, change, headline
from nki_lab.views.vary.variants import Variant, Variants
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Picture, VectorPicture, cut
from nki_lab.widgets.theme import FAINT, INK, LIMIT, RULE, SERIES

_MARGIN = 12
_LINE = TEXT_HEIGHT + 8
_ROWS_SHOWN = 40
_FIGURES = 34  # letters behind a bar: its time, the difference, what bounds it
_ROOM = (WIDTH - 2 * _MARGIN) // LETTER
_BEST, _OTHER = SERIES[2], SERIES[0]


def vary_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the variants of a kernel as rows: the values, a bar for the time, and what bounds it."""
    variants = data.variants
    problem = NO_VARIANTS if variants is None else variants.problem
    if variants is None or problem:
        picture = paper(WIDTH, 2 * _MARGIN + 3 * _LINE, theme)
        heading(picture, data, "", problem)
        return picture.done()
    drawn = list(dict.fromkeys([*variants, *variants.visited]))
    rows = drawn[:_ROWS_SHOWN]
    texts = [_words(variants, variant) for variant in (None, *rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    more = len(drawn) - len(rows)
    top = 2 * _MARGIN + 3 * _LINE
    picture = paper(WIDTH, top + _LINE * (len(rows) + bool(more)) + _MARGIN, theme)
    heading(picture, data, f"with other values: {badge(data.profile)}")
    left = _MARGIN + LETTER * min(sum(widths) + 2 * len(widths), _ROOM // 2)
    wide = WIDTH - _MARGIN - left - LETTER * _FIGURES
    most = max((variant.total_ns or 0 for variant in rows), default=0) or 1
    best, start = variants.best(), variants.variant(variants.start)
    for k, (words, variant) in enumerate(zip(texts, (None, *rows), strict=True)):
        y = top - _LINE + k * _LINE
        line = "  ".join(word.ljust(width) for word, width in zip(words, widths, strict=True))
        colour = FAINT if variant is None else INK
        picture.text(_MARGIN, y, cut(line, (left - _MARGIN) // LETTER), colour)
        if variant is None:
            picture.text(left, y, "total time", FAINT)
            picture.fill(_MARGIN, y + _LINE - 5, WIDTH - 2 * _MARGIN, 1, RULE)
        elif variant.problem:
            picture.text(left, y, cut(headline(variant.problem), (WIDTH - left) // LETTER), LIMIT)
        else:
            width = wide * (variant.total_ns or 0) / most
            bar = FAINT if variant.doubt else _BEST if variant is best else _OTHER
            picture.fill(left, y + 2, width, TEXT_HEIGHT - 2, bar)
            doubt = ", doubtful" if variant.doubt else ""
            shown = f"{(variant.total_ns or 0) / 1000:,.3f} us {change(variant, start)}{doubt}, {variant.bound}"
            picture.text(left + width + LETTER, y, cut(shown, _FIGURES), FAINT)
    if more:
        picture.text(_MARGIN, top + _LINE * len(rows), f"and {more:,} more", FAINT)
    return picture.done()


def _words(variants: Variants, variant: Variant | None) -> list[str]:
    """Return the values of a variant, or the names of the parameters."""
    if variant is None:
        return [parameter.name for parameter in variants.parameters]
    return [p.texts[n] for p, n in zip(variants.parameters, variant.numbers, strict=True)]
