"""What does the use of SBUF and PSUM look like as a picture: addresses over time, and what is in use when?"""

from __future__ import annotations

import numpy as np

from nki_lab.profiler.occupancy import Occupancy, occupancy
from nki_lab.profiler.view_data import ViewData
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, Picture, VectorPicture, cut
from nki_lab.widgets.theme import FAINT, INK, LIMIT, RULE, SERIES

_MARGIN = 12
_LEFT = _MARGIN + 9 * LETTER
_HEIGHT = 200
_CURVE = 36
_TITLES = {"sbuf": "SBUF", "psum": "PSUM"}
#: Tiles drawn of one memory; the picture says how many more there are.
_TILES_SHOWN = 5_000


def memory_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the tiles of both on-chip memories as a picture, coloured by the line that made them."""
    target = data.profile.target
    usable = {
        "sbuf": target.sbuf_usable_bytes_per_partition,
        "psum": target.psum_bytes_per_partition,
    }
    used = [(m, occupancy(data, m)) for m in _TITLES]
    used = [(memory, tiles) for memory, tiles in used if len(tiles.tensor)]
    block = _HEIGHT + _CURVE + 3 * TEXT_HEIGHT + 2 * _MARGIN
    picture = paper(WIDTH, 2 * _MARGIN + TEXT_HEIGHT + max(1, len(used)) * block, theme)
    heading = (
        f"{data.name} on {target.name}: on-chip memory over {len(data.operations):,} instructions"
    )
    picture.text(_MARGIN, _MARGIN, cut(heading, (WIDTH - 2 * _MARGIN) // LETTER))
    y = 2 * _MARGIN + TEXT_HEIGHT
    colours: dict[str, int] = {}
    for memory, tiles in used:
        _memory(picture, data, memory, tiles, usable[memory], y, colours)
        y += block
    if not used:
        picture.text(_MARGIN, y, "no tile is used", FAINT)
    return picture.done()


def _memory(
    picture: Paper,
    data: ViewData,
    memory: str,
    tiles: Occupancy,
    usable: int,
    y: int,
    colours: dict[str, int],
) -> None:
    target = data.profile.target
    peak, moment = tiles.peak(target.partitions)
    end = int((tiles.address + tiles.size).max())
    more = len(tiles.tensor) - _TILES_SHOWN
    title = (
        f"{_TITLES[memory]}: {len(tiles.tensor):,} tiles, at most {peak:,} of {usable:,} bytes per partition"
        f" ({peak / usable:.1%}), at instruction {moment:,}"
    )
    picture.text(_MARGIN, y, cut(title, (WIDTH - 2 * _MARGIN) // LETTER), INK)
    top, floor = y + TEXT_HEIGHT + 6, y + TEXT_HEIGHT + 6 + _HEIGHT
    width = WIDTH - _LEFT - _MARGIN
    across, down = width / max(1, len(data.operations)), _HEIGHT / max(end, 64)
    for byte in np.linspace(0, end, 5).astype(int).tolist():
        picture.fill(_LEFT, floor - byte * down, width, 1, RULE)
        label = f"{byte:,}"
        picture.text(
            _LEFT - LETTER * (len(label) + 1),
            max(top, floor - byte * down - TEXT_HEIGHT),
            label,
            FAINT,
        )
    for k in range(min(len(tiles.tensor), _TILES_SHOWN)):
        place = data.tensors[int(tiles.tensor[k])].place
        line = place.label if place else ""
        colour = SERIES[colours.setdefault(line, len(colours)) % len(SERIES)]
        x = _LEFT + int(tiles.first[k]) * across
        w = (int(tiles.last[k]) + 1 - int(tiles.first[k])) * across
        h = int(tiles.size[k]) * down
        picture.fill(x, floor - int(tiles.address[k]) * down - h, w - (w > 3), h - (h > 3), colour)
    if end > usable:
        picture.fill(_LEFT, floor - usable * down, width, 2, LIMIT)
    picture.fill(_LEFT + (moment + 0.5) * across, top, 1, _HEIGHT, INK)
    _curve(picture, tiles, target.partitions, peak, floor, across)
    first = f"instructions 0 to {len(data.operations) - 1:,}; the line is where most is in use"
    note = f"{first}; {more:,} more tiles" if more > 0 else first
    picture.text(_LEFT, floor + _CURVE + 6, cut(note, width // LETTER), FAINT)


def _curve(
    picture: Paper, tiles: Occupancy, partitions: int, peak: int, floor: int, across: float
) -> None:
    """Draw the bytes in use over time, in the fullest partition."""
    moments, used = tiles.in_use(tiles.fullest(partitions))
    label = "in use"
    picture.text(_LEFT - LETTER * (len(label) + 1), floor + _CURVE - TEXT_HEIGHT, label, FAINT)
    for first, last, size in zip(
        moments[:-1].tolist(), moments[1:].tolist(), used.tolist(), strict=False
    ):
        height = (_CURVE - 6) * size / max(peak, 1)
        if size:
            picture.fill(
                _LEFT + first * across,
                floor + _CURVE - height,
                (last - first) * across,
                height,
                FAINT,
            )
