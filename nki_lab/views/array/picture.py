"""The multiplier array during a product as a picture."""

from __future__ import annotations

from nki_lab.views.array.products import matmul_of, matmul_times, times_text
from nki_lab.views.head import heading
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Picture, VectorPicture, cut
from nki_lab.widgets.theme import FAINT, INK, RULE, SERIES

_MARGIN = 12
_LINE = TEXT_HEIGHT + 6
_ARROW = 9
_ROOM = (WIDTH - 2 * _MARGIN) // LETTER


def array_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the first product on the multiplier array: what streams in, what is held, what comes out."""
    positions = data.products
    product = matmul_of(data, int(positions[0])) if len(positions) else None
    side = 260
    top = 3 * _MARGIN + 4 * _LINE
    picture = paper(WIDTH, top + (_LINE if product is None else side + 150), theme)
    heading(picture, data, line=_LINE)
    if product is None:
        picture.text(_MARGIN, top, "no instruction multiplies on the Tensor engine's array", FAINT)
        return picture.done()
    k, m, n = product.sizes
    target = data.profile.target
    picture.text(_MARGIN, _MARGIN + 2 * _LINE, cut(f"{product.position}: {product.text}", _ROOM))
    times = times_text(matmul_times(data, product.position))
    used = k * m / (target.pe_rows * target.pe_columns)
    facts = f"K = {k} (summed over), M = {m}, N = {n}; {min(used, 1):.0%} of the array; {times}"
    picture.text(_MARGIN, _MARGIN + 3 * _LINE, cut(facts, _ROOM), FAINT)
    cell = side / max(target.pe_rows, target.pe_columns)
    x = WIDTH - _MARGIN - 420 - side
    held, high, wide = min(m * cell, side), min(k * cell, side), min(m * cell, side)
    picture.fill(x, top, side, side, RULE)
    picture.fill(x, top, held, high, SERIES[0])
    streams = min(n * cell, x - 3 * _MARGIN - 60)
    left = x - 60 - streams
    picture.fill(left, top, streams, high, SERIES[1])
    picture.fill(x, top + side + 40, wide, 70, SERIES[2])
    picture.line([(x - 52, top + high / 2), (x - 12, top + high / 2)], FAINT)
    picture.line([(x + wide / 2, top + side + 6), (x + wide / 2, top + side + 34)], FAINT)
    for step in range(_ARROW):  # rows of the arrows, from their points
        picture.fill(x - 8 - step, top + high / 2 - step / 2, 1, step + 1, FAINT)
        picture.fill(x + wide / 2 - step / 2, top + side + 38 - step, step + 1, 1, FAINT)
    right = x + side + _MARGIN
    for text, y in (
        (f"stationary {product.stationary.text}", top),
        (f"K x M = {k} x {m}", top + _LINE),
        ("it stays in the multipliers", top + 2 * _LINE),
        ("grey ones are not used" if used < 1 else "", top + 3 * _LINE),
        (f"sums in PSUM: {product.dst.text}", top + side + 40),
        (f"M x N = {m} x {n}", top + side + 40 + _LINE),
    ):
        picture.text(right, y, cut(text, (WIDTH - right - _MARGIN) // LETTER), INK)
    low = top + high + 6
    room = int(x - left) // LETTER
    picture.text(left, low, cut(f"moving {product.moving.text} streams in", room))
    picture.text(left, low + _LINE, cut(f"K x N = {k} x {n}", room))
    return picture.done()
