"""Draws the tensors of a kernel, and the parts that its instructions touch."""

from __future__ import annotations

from itertools import islice

from nki_lab.views.head import heading
from nki_lab.views.layout.model import TENSORS_SHOWN, axis_labels, boxes, grid_of, slice_label
from nki_lab.views.run import Tensor, ViewData
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, Picture, VectorPicture, cut
from nki_lab.widgets.theme import FAINT, ON_FILL, RULE, SERIES

_MARGIN = 12
_LINE = TEXT_HEIGHT + 6
_BLOCK = 72
_TENSORS_SHOWN = 8
_SLICES_SHOWN = 64
_BOXES_SHOWN = 400
#: Partitions between two lines across a tile.
_ROWS_APART = 8
_ROOM = (WIDTH - 2 * _MARGIN) // LETTER
_SPACES = {"shared_hbm": "HBM", "private_hbm": "HBM", "sbuf": "SBUF", "psum": "PSUM"}


def layout_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the first tensors with the slices that instructions touch, each in its own colour."""
    shown = _chosen(data)
    more = len(data.tensors) - len(shown)
    block = _BLOCK + 2 * _LINE + _MARGIN
    height = 3 * _MARGIN + 2 * _LINE + len(shown) * block + _LINE * (more > 0)
    picture = paper(WIDTH, height, theme)
    heading(picture, data, _of(data), line=_LINE)
    y = 2 * _MARGIN + 2 * _LINE
    for number, tensor in shown:
        _tensor(picture, data, number, tensor, y)
        y += block
    if more > 0:
        picture.text(_MARGIN, y, f"and {more:,} more tensors", FAINT)
    return picture.done()


def _chosen(data: ViewData) -> list[tuple[int, Tensor]]:
    """Return the tensors that are shown: what goes in and out, then one tile of each line that makes some."""
    chosen: dict[object, tuple[int, Tensor]] = {}
    tensors = list(islice(enumerate(data.tensors), TENSORS_SHOWN))
    for number, tensor in sorted(tensors, key=lambda entry: entry[1].on_chip):
        chosen.setdefault(
            tensor.place if tensor.on_chip and tensor.place else number, (number, tensor)
        )
    return list(chosen.values())[:_TENSORS_SHOWN]


def _of(data: ViewData) -> str:
    return "a colour is a part that instructions read or write" if data.tensors else "no tensor is known"  # fmt: skip


def _tensor(picture: Paper, data: ViewData, number: int, tensor: Tensor, y: int) -> None:
    shape = " x ".join(map(str, tensor.shape))
    place = ""
    if tensor.on_chip and tensor.address is not None:
        place = f", at byte {tensor.address[1]:,} of partition {tensor.address[0]}"
    name = f"{tensor.name}  {shape} {tensor.dtype} in {_SPACES.get(tensor.memory, tensor.memory)}{place}"
    picture.text(_MARGIN, y, cut(name, _ROOM))
    axes = "; ".join(filter(None, axis_labels(tensor)))
    picture.text(_MARGIN, y + _LINE, cut(axes, _ROOM), FAINT)
    top = y + 2 * _LINE
    rows, elements = grid_of(tensor)
    across, down = (WIDTH - 2 * _MARGIN) / (elements * tensor.itemsize), _BLOCK / rows
    picture.fill(_MARGIN, top, WIDTH - 2 * _MARGIN, _BLOCK, RULE)
    parts = data.slices(number)
    for k, part in enumerate(parts[:_SLICES_SHOWN]):
        scale = elements * tensor.itemsize // part.itemsize
        if part.dynamic or scale * part.itemsize != elements * tensor.itemsize:
            continue  # where it lies is not known, or not by rows
        for box in islice(boxes(part, scale), _BOXES_SHOWN):
            x = box.column * part.itemsize * across
            wide = ((box.columns - 1) * box.column_step + 1) * part.itemsize * across
            high = ((box.rows - 1) * box.row_step + 1) * down
            # A hair of background between neighbours keeps them apart.
            picture.fill(
                _MARGIN + x, top + box.row * down, max(1.0, wide - 1), max(1.0, high - 1), SERIES[k % len(SERIES)]
            )  # fmt: skip
            if tensor.on_chip:  # a partition is a row of memory
                for row in range(_ROWS_APART, box.rows, _ROWS_APART):
                    picture.fill(
                        _MARGIN + x,
                        top + (box.row + row * box.row_step) * down,
                        max(1.0, wide - 1),
                        0.5,
                        RULE,
                    )
            text = slice_label(tensor, part)
            if high >= TEXT_HEIGHT + 4 and wide > LETTER * (len(text) + 1):
                middle = top + box.row * down + high / 2
                picture.text(_MARGIN + x + 6, middle - TEXT_HEIGHT / 2, text, ON_FILL)
