"""Functions of `neuronxcc.nki.language` that reduce, normalize, gather or draw: instructions of nki.isa in disguise.

A mask leaves elements out: `nl.sum` adds those that it leaves, and `nl.mean` divides by their number (no page says).
"""

from __future__ import annotations

from math import prod as product_of
from typing import Any

from nki_lab.beta1.broadcasting import across
from nki_lab.beta1.elementwise import binary, unary
from nki_lab.beta1.inserted import in_two_groups
from nki_lab.beta1.instructions import FUNCTIONS
from nki_lab.beta1.masks import boxes
from nki_lab.beta1.operators import OPERATORS
from nki_lab.beta1.promotion import dtype_named, free_axes, number
from nki_lab.beta1.reducing import all_reduce, loop_reduce
from nki_lab.beta1.results import new, on_chip
from nki_lab.beta1.returning import TODAY, Row, function_of, note
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import float32, int32
from nki_lab.errors import NotModelled, WrongOperand
from nki_lab.errors.beta1 import IndirectIndex, older
from nki_lab.ir.building.builder import current
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.language import random as drawn

_reduce = FUNCTIONS["tensor_reduce"]
_TITLES = {
    "add": "nl.sum", "multiply": "nl.prod", "maximum": "nl.max", "minimum": "nl.min", "logical_and": "nl.all",
}  # fmt: skip


def _reduced(
    name: str, x: Any, axis: Any, dtype: Any, mask: Any, keepdims: bool, negate: bool = False
) -> Tile:
    """Return a tile reduced with an operator; axes before the last are brought to the end first."""
    return tensor_reduce(
        OPERATORS[name],
        on_chip(x, _TITLES[name]),
        axis,
        mask=mask,
        dtype=dtype,
        negate=negate,
        keepdims=keepdims,
    )


def tensor_reduce(
    op: Any, data: Any, axis: Any, *, mask: Any = None, dtype: Any = None, negate: Any = False, keepdims: Any = False,
    **kwargs: Any,
) -> Tile:  # fmt: skip
    """Return a tile reduced along free axes; those before the last are brought to the end first."""
    if not isinstance(data, Tile):
        raise WrongOperand(
            f"a reduction takes a tile, found {type(data).__name__} {data!r}",
            help="load arrays first with nl.load; reduce numbers by Python",
        )
    rank, keywords = data.ndim, {"dtype": dtype, "negate": negate, **kwargs}
    axes = free_axes(axis, rank, "a reduction")
    kept = [n for n in range(rank) if n not in axes]
    order = kept + axes
    if mask is None and 0 not in axes and rank > 1 + current().target.access_pattern_free_dims_max:
        view, count = in_two_groups(_permuted(data, order).read(), len(kept))
        last = list(range(1 + count, view.ndim))
        sizes = [1 if n in axes else data.shape[n] for n in (range(rank) if keepdims else kept)]
        result = _reduce(op, Tile(view), last, **keywords)
        return result.reshape(sizes if len(sizes) > 1 else [*sizes, 1])  # type: ignore[no-any-return]
    if order == list(range(rank)) or 0 in axes:
        return _reduce(op, data, axes, mask=mask, keepdims=keepdims, **keywords)  # type: ignore[no-any-return]
    if mask is not None:
        mask = [tuple(box[n] for n in order) for box in boxes(mask, data.shape)]
    last = list(range(len(kept), rank))
    result = _reduce(op, _permuted(data, order), last, mask=mask, **keywords)
    if not keepdims:
        return result  # type: ignore[no-any-return]
    if result.covers is not None:
        raise NotModelled(
            f"a reduction of {data.describe()} over axes {axes}, which are not the last, that keeps them, under a mask",
            help="leave out keepdims, and reshape the result",
        )
    return result.reshape([n if d in kept else 1 for d, n in enumerate(data.shape)])  # type: ignore[no-any-return]


def _permuted(x: Tile, order: list[int]) -> Tile:
    view = x.read()
    shape, strides = (tuple(values[n] for n in order) for values in (view.shape, view.strides))
    return Tile(
        NkiTensor._make(view.storage, shape, strides, view.offset, view.dtype, view.dynamic)
    )


def sum(
    x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kwargs: Any
) -> Tile:
    """Return the sums along free axes."""
    return _reduced("add", x, axis, dtype, mask, keepdims)


def prod(
    x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kwargs: Any
) -> Tile:
    """Return the products along free axes."""
    return _reduced("multiply", x, axis, dtype, mask, keepdims)


def max(
    x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kwargs: Any
) -> Tile:
    """Return the largest elements along free axes."""
    return _reduced("maximum", x, axis, dtype, mask, keepdims)


def min(
    x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kwargs: Any
) -> Tile:
    """Return the smallest elements along free axes."""
    return _reduced("minimum", x, axis, dtype, mask, keepdims)


def all(x: Any, axis: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> Tile:
    """Return whether all elements along free axes are other than 0."""
    return _reduced("logical_and", x, axis, dtype, mask, kwargs.get("keepdims", False))


def _count(x: Tile, axis: Any, mask: Any) -> int:
    """Return how many elements are reduced into one."""
    axes = free_axes(axis, x.ndim, "a reduction")
    covered = boxes(mask, x.shape)
    box = covered[0] if covered else tuple((0, n) for n in x.shape)
    return product_of(end - first for d, (first, end) in enumerate(box) if d in axes)


def mean(
    x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, keepdims: bool = False, **kwargs: Any
) -> Tile:
    """Return the means along free axes; those of integers are float32."""
    x = on_chip(x, "nl.mean")
    kind = dtype if dtype is not None else x.dtype if x.dtype.is_float else float32
    total = _reduced("add", x, axis, float32, mask, keepdims)
    out = new(total.shape, dtype_named(kind))
    covered = [None] if total.covers is None else total.covers
    count = float(_count(x, axis, mask))
    made = [
        TODAY["tensor_scalar"](
            dst=out.target(box), data=total.read(box), op0=OPERATORS["divide"], operand0=count
        )
        for box in covered
    ]
    note(out, made, covered)
    return out


def var(x: Any, axis: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """Return the variances along free axes: the means of squared distances from the mean."""
    x = on_chip(x, "nl.var")
    kind = dtype if dtype is not None else x.dtype if x.dtype.is_float else float32
    center = mean(x, axis, dtype=float32, mask=mask, keepdims=True)
    distance = binary("subtract", x, center, float32, mask)
    squares = unary("square", distance, float32, mask)
    return mean(squares, axis, dtype=kind, mask=mask, keepdims=kwargs.get("keepdims", False))


def softmax(
    x: Any, axis: Any, *, dtype: Any = None, compute_dtype: Any = None, mask: Any = None, **kwargs: Any
) -> Tile:  # fmt: skip
    """Return exp(x) divided by its sum along free axes; computed in float32."""
    x = on_chip(x, "nl.softmax")
    kind = dtype_named(dtype or compute_dtype or x.dtype)
    largest = _reduced("maximum", x, axis, float32, mask, True)
    powers = unary("exp", binary("subtract", x, largest, float32, mask), float32, mask)
    return binary("divide", powers, _reduced("add", powers, axis, float32, mask, True), kind, mask)


def rms_norm(
    x: Any, w: Any, axis: Any, n: Any, epsilon: Any = 1e-06, *, dtype: Any = None, compute_dtype: Any = None,
    mask: Any = None, **kwargs: Any,
) -> Tile:  # fmt: skip
    """Return x / sqrt(sum(x * x) / n + epsilon) * w; computed in float32."""
    x = on_chip(x, "nl.rms_norm")
    kind = dtype_named(dtype or compute_dtype or x.dtype)
    total = _reduced("add", unary("square", x, float32, mask), axis, float32, mask, True)
    scale = FUNCTIONS["tensor_scalar"](
        total, OPERATORS["multiply"], 1 / number(n), op1=OPERATORS["add"], operand1=float(number(epsilon))
    )  # fmt: skip
    scale = FUNCTIONS["tensor_scalar"](scale, OPERATORS["power"], -0.5)
    return binary("multiply", binary("multiply", x, scale, float32, mask), w, kind, mask)


def load_transpose2d(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """Return a tile with a matrix of HBM, transposed while it is moved."""
    if isinstance(src, Tile) and src.by is not None:
        raise IndirectIndex(
            f"nl.load_transpose2d takes no rows that a tile of indices names, as of {src.describe()}",
            notes=[older("err_indirect_indices_are_not_supported_with_nki_api")],
            help="load the rows with nl.load, and transpose them with nl.transpose",
        )
    return FUNCTIONS["dma_transpose"](src, mask=mask, dtype=dtype)  # type: ignore[no-any-return]


def rand(shape: Any, dtype: Any = float32, **kwargs: Any) -> Tile:
    """Return a tile of uniform random numbers from 0 to 1."""
    sizes = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    return Tile(drawn.rand(sizes if len(sizes) > 1 else (*sizes, 1), dtype_named(dtype)))


def random_seed(seed: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Seed the random numbers of nl.rand and nl.dropout: a number of 32 bits, or a tile with one."""
    if mask is False:
        return
    if not isinstance(seed, Tile):
        seed = FUNCTIONS["memset"]((1, 1), int(number(seed)), int32)
    drawn.random_seed(on_chip(seed, "nl.random_seed", "seed").read())


def dropout(x: Any, rate: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """Return a tile with elements replaced by zero at random."""
    x = on_chip(x, "nl.dropout")
    if isinstance(rate, Tile) and rate.size == 1:
        rate = across(on_chip(rate, "nl.dropout", "rate").reshape((1, 1)), x.shape[0])
    return FUNCTIONS["dropout"](x, rate, dtype=dtype, mask=mask)  # type: ignore[no-any-return]


_ROWS = (
    Row(
        TODAY["nc_n_gather"],
        "data: rows, indices: tile, *, mask=None, dtype=None, **kwargs",
        "Return elements of each partition of `data`, whose free axes are one row, at the indices of that partition.",
        over="indices",
        dtype=lambda a: a["data"].dtype,
        moves=True,
        title="gather_flattened",
    ),
)

#: Functions of this module and of its table, by their names in nki.language.
LANGUAGE = {
    f.__name__: f
    for f in (
        all, all_reduce, dropout, load_transpose2d, loop_reduce, max, mean, min, prod, rand, random_seed, rms_norm,
        softmax, sum, var,
        *map(function_of, _ROWS),
    )
}  # fmt: skip
