"""Functions of nki.language that are methods of tiles, too, and printing."""

from __future__ import annotations

from typing import Any

from nki_lab.beta1.masks import boxes
from nki_lab.beta1.tile import Tile
from nki_lab.errors import WrongOperand
from nki_lab.language.printing import device_print as printed


def _tile(value: Any, function: str) -> Tile:
    if not isinstance(value, Tile):
        raise WrongOperand(
            f"nl.{function}: expected a tile, found {type(value).__name__} {value!r}",
            help="make one with nl.load or nl.ndarray",
        )
    return value


def broadcast_to(src: Any, *, shape: Any, **kwargs: Any) -> Tile:
    """Return a tile with axes of size 1 repeated."""
    return _tile(src, "broadcast_to").broadcast_to(shape)


def expand_dims(data: Any, axis: int) -> Tile:
    """Return a tile with an axis of size 1 before `axis`."""
    return _tile(data, "expand_dims").expand_dims(axis)


def device_print(prefix: str, x: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Print a prefix and the values of a tile, or of what a mask leaves of it, when the kernel gets there."""
    tile = _tile(x, "device_print")
    for box in [None] if mask is None else boxes(mask, tile.shape):
        printed(prefix, tile.read(box))
