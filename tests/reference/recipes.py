"""Random legal uses of each instruction: one function each, named as the instruction, with the chips that have it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.reference import numbers as n
from tests.reference.writing import COLUMNS, FLOATS, INTEGERS, ROWS, Handle, Writer

Recipe = Callable[[Writer], None]
RECIPES: dict[str, tuple[Recipe, int, int]] = {}  # name -> (function, first chip, weight)
ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
ANY = (*ARITHMETIC, *ARITHMETIC, *n.COMPARES, *n.LOGICAL)
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
NUMBERS = (0.0, 1.0, -1.0, 0.5, -1.5, 2.0, 3.25, 1e-3, 100.0)
SIZES = (1, 2, 16, 31, 32, 32, 64, 65, 100, 128)


def recipe(chip: int = 2, weight: int = 2) -> Callable[[Recipe], Recipe]:
    def keep(f: Recipe) -> Recipe:
        RECIPES[f.__name__] = f, chip, weight
        return f

    return keep


def rows(w: Writer) -> int:
    return w.pick.choice(SIZES)


def free(w: Writer, least: int = 1) -> tuple[int, ...]:
    size = w.pick.choice([k for k in (1, 2, 3, 4, 6, 8, 12, 16, 20) if k >= least])
    if w.pick.random() < 0.08:  # rows long enough for other ways of computing
        size = w.pick.choice((64, 80, 96))
    if size % 2 == 0 and w.pick.random() < 0.25:
        return (2, size // 2) if w.pick.random() < 0.5 else (size // 2, 2)
    return (size,)


def dtype(w: Writer, floats: bool = False) -> str:
    return w.pick.choice(FLOATS if floats or w.pick.random() < 0.7 else INTEGERS)


def mem(w: Writer, share: float = 0.15) -> str:
    return "psum" if w.pick.random() < share else "sbuf"


def number(w: Writer, p: int, like: Handle | None = None) -> Any:
    """Return a number or one float32 value per partition."""
    if w.pick.random() < 0.6:
        return w.pick.choice(NUMBERS)
    return w.read(p, 1, "float32", plain=True)


def flag(w: Writer) -> Any:
    return True if w.pick.random() < 0.3 else ...


def maybe(w: Writer, value: Any, share: float = 0.3) -> Any:
    return value if w.pick.random() < share else ...


def hbm(w: Writer, kind: str, shape: tuple[int, ...], reading: bool) -> Handle:
    """Return a view of HBM: an argument, or a tensor of the kernel."""
    if reading and w.pick.random() < 0.7:
        source = w.source(kind)
        p, f = shape[0], math.prod(shape[1:])
        a, b = w.pick.randint(0, ROWS - p), w.pick.randint(0, COLUMNS - f)
        view = source.then(f"[{a}:{a + p}, {b}:{b + f}]")
        return view
    more = (
        w.pick.choice((0, 0, 4))
        if shape[0] + 4 <= ROWS and math.prod(shape[1:]) + 4 <= COLUMNS
        else 0
    )
    tensor = w.array(
        (shape[0] + more, math.prod(shape[1:]) + more),
        kind,
        w.pick.choice(("private_hbm", "shared_hbm")),
        "h",
    )
    w.call(
        "dma_copy",
        dst=tensor,
        src=w.source(kind).then(f"[0:{shape[0] + more}, 0:{tensor.t.shape[1]}]"),
    )
    a, b = w.pick.choice((0, more)), w.pick.choice((0, more))
    return tensor.then(f"[{a}:{a + shape[0]}, {b}:{b + tensor.t.shape[1] - more}]")


def free_of(w: Writer, f: tuple[int, ...]) -> tuple[int, ...]:
    """Return another shape of the same size, sometimes."""
    return (math.prod(f),) if w.pick.random() < 0.2 else f


def fresh(w: Writer, p: int, f: tuple[int, ...], kind: str) -> Handle:
    """Return a tile of its own that starts at partition 0: lanes hold accumulators."""
    tile = w.array((p, math.prod(f)), kind)
    w.fill(tile)
    return tile
