"""Draws SBUF and PSUM: addresses over the program, and how much is in use."""

from __future__ import annotations

from nki_lab.views.memory.occupancy import Occupancy, occupancy
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, Picture, VectorPicture, cut
from nki_lab.widgets.theme import FAINT, INK, LIMIT, ON_FILL, PAPER, RULE, SERIES

_MARGIN = 12
_LEFT = _MARGIN + 9 * LETTER
_HEIGHT = 200
_CURVE = 36
_KEY = TEXT_HEIGHT + 4
_LINES_NAMED = 12
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
    texts = _lines(data, [tiles for _, tiles in used])
    keys = min(len(texts), _LINES_NAMED + 1) * _KEY
    picture = paper(
        WIDTH, 2 * _MARGIN + TEXT_HEIGHT + max(1, len(used)) * block + keys + _MARGIN, theme
    )
    count = f"{len(data.operations):,} instructions"
    heading = f"{data.name} on {target.name}: on-chip memory over {count}, addresses upwards"
    picture.text(_MARGIN, _MARGIN, cut(heading, (WIDTH - 2 * _MARGIN) // LETTER))
    y = 2 * _MARGIN + TEXT_HEIGHT
    colours = {line: number for number, line in enumerate(texts)}
    for memory, tiles in used:
        _memory(picture, data, memory, tiles, usable[memory], y, colours)
        y += block
    if not used:
        picture.text(_MARGIN, y, "no tile is used", FAINT)
    _legend(picture, colours, texts, y)
    return picture.done()


def _lines(data: ViewData, memories: list[Occupancy]) -> dict[str, str]:
    """Return the lines that made the tiles with what they say, in the order of the tiles."""
    places = (data.tensors[n].place for tiles in memories for n in tiles.tensor.tolist())
    return {place.label if place else "": place.text.strip() if place else "" for place in places}


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
        f" in program order, at instruction {moment:,}"
    )
    picture.text(_MARGIN, y, cut(title, (WIDTH - 2 * _MARGIN) // LETTER), INK)
    top, floor = y + TEXT_HEIGHT + 6, y + TEXT_HEIGHT + 6 + _HEIGHT
    width = WIDTH - _LEFT - _MARGIN
    across, down = width / max(1, len(data.operations)), _HEIGHT / max(end, 64)
    bank = target.psum_bank_bytes if memory == "psum" else 0
    for byte in _marks(end, bank):
        picture.fill(_LEFT, floor - byte * down, width, 1, RULE)
        label = f"bank {byte // bank}" if bank else f"{byte:,}"
        # The name of a bank stands above its lower edge, a byte beside its line.
        beside = floor - byte * down - (TEXT_HEIGHT if bank else TEXT_HEIGHT / 2)
        if beside >= top - TEXT_HEIGHT:
            picture.text(_LEFT - LETTER * (len(label) + 1), max(beside, top), label, FAINT)
    for k in range(min(len(tiles.tensor), _TILES_SHOWN)):
        place = data.tensors[int(tiles.tensor[k])].place
        line = place.label if place else ""
        colour = SERIES[colours[line] % len(SERIES)]
        x = _LEFT + int(tiles.first[k]) * across
        w = (int(tiles.last[k]) + 1 - int(tiles.first[k])) * across
        h = int(tiles.size[k]) * down
        low = floor - int(tiles.address[k]) * down
        picture.fill(x, low - h, w - (w > 3), h - (h > 3), colour)
        _stripe(picture, colours[line], x, low, w, h)
        name = data.tensors[int(tiles.tensor[k])].name
        if h > TEXT_HEIGHT and w > LETTER * (min(len(name), 6) + 1):
            room = int(w / LETTER) - 1
            picture.text(x + 6, low - h / 2 - TEXT_HEIGHT / 2, cut(name, room), ON_FILL)
    if end > usable:
        picture.fill(_LEFT, floor - usable * down, width, 2, LIMIT)
    picture.fill(_LEFT + (moment + 0.5) * across, top, 1, _HEIGHT, INK)
    _curve(picture, tiles, target.partitions, peak, floor, across)
    first = (
        f"instructions 0 to {len(data.operations) - 1:,}; the line is where most bytes are in use"
    )
    note = f"{first}; {more:,} more tiles" if more > 0 else first
    picture.text(_LEFT, floor + _CURVE + 6, cut(note, width // LETTER), FAINT)


def _marks(end: int, bank: int) -> list[int]:
    """Return the bytes that are marked: the begin of each bank, or a few multiples of a power of two."""
    step = bank or 64
    while not bank and end / step > 4:
        step *= 2
    return list(range(0, max(end, 1) + (0 if bank else step // 4), step))


def _stripe(picture: Paper, number: int, x: float, low: float, width: float, height: float) -> None:
    """Mark what has the colour of another line: there are fewer colours than lines may be."""
    if number >= len(SERIES) and height >= 5:
        picture.fill(x, low - 4, width, 2, PAPER)


def _legend(picture: Paper, colours: dict[str, int], texts: dict[str, str], y: int) -> None:
    """Say which line made the tiles of a colour; lines that share a colour stand together."""
    room = (WIDTH - 2 * _MARGIN) // LETTER - 2
    for k, (line, number) in enumerate(list(colours.items())[:_LINES_NAMED]):
        top = y + k * _KEY
        picture.fill(_MARGIN, top + 2, 14, 14, SERIES[number % len(SERIES)])
        _stripe(picture, number, _MARGIN, top + 16, 14, 14)
        picture.text(
            _MARGIN + 22,
            top,
            cut(f"{line}: {texts[line]}" if line else "line not known", room),
            FAINT,
        )
    more = len(colours) - _LINES_NAMED
    if more > 0:
        picture.text(
            _MARGIN + 22,
            y + _LINES_NAMED * _KEY,
            f"and {more:,} more lines, in the same colours in turn",
            FAINT,
        )


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
