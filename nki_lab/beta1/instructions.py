"""`neuronxcc.nki.isa`: a table with one row for each instruction, and what no row can say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from nki_lab.beta1 import enums
from nki_lab.beta1.broadcasting import together
from nki_lab.beta1.elementwise import binary
from nki_lab.beta1.index import Box, Index
from nki_lab.beta1.masks import Mask, boxes
from nki_lab.beta1.operators import OPERATORS
from nki_lab.beta1.promotion import dtype_named, number, promoted
from nki_lab.beta1.results import new, part
from nki_lab.beta1.returning import (
    TODAY,
    Arguments,
    Row,
    anywhere,
    function_of,
    note,
    operator_or_none,
    refuse_others,
    tile_of,
)
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import bfloat16, bool_, float16, float32, uint8, uint32
from nki_lab.errors import NotModelled, WrongOperand
from nki_lab.errors.beta1 import older
from nki_lab.targets.engines import GPSIMD, Engine

# -- shapes, dtypes and places of results --------------------------------------------------------------------------


def _by_rows(box: Box, shape: tuple[int, ...]) -> Box:
    """Return the partitions of a box, with all free elements of a result that has others."""
    return (box[0], *[(0, n) for n in shape[1:]])


def _per_partition(count: int) -> Callable[[Arguments], Sequence[int]]:
    return lambda a: (next(v for v in a.values() if isinstance(v, Tile)).shape[0], count)


# -- tensor_tensor, tensor_scalar: engines and operators ------------------------------------------------------------

_POWER, _RSQRT = OPERATORS["power"], OPERATORS["rsqrt"]


def _aligned(first: str, second: str, a: Arguments) -> None:
    """Give two tiles the shape of their result."""
    x, y = a[first], a[second]
    if x.shape == y.shape:
        return
    if x.size == y.size and x.shape[0] == y.shape[0]:
        a[second] = y.reshape(x.shape)
        return
    x, y, shape = together(x, y, partitions=False)
    a[first], a[second] = (t if t.shape == shape else t.broadcast_to(shape) for t in (x, y))


def _two_tiles(a: Arguments) -> None:
    _aligned("data1", "data2", a)
    if a["op"] is _POWER and a["engine"] is Engine.unknown:
        a["engine"] = GPSIMD  # nki.api.shared.rst, nki-aluop: it alone has power


def _scanned(a: Arguments) -> None:
    _aligned("data0", "data1", a)


def _with_operands(a: Arguments) -> None:
    for op, operand in (("op0", "operand0"), ("op1", "operand1")):
        operator = a[op]
        if operator is _RSQRT and a["op1"] is not None:
            # Beside another operator, where GpSimd cannot take part.
            a[op], a[operand] = _POWER, -0.5
        elif operator is not None and operator.is_unary:
            a[operand] = None


def _moved_axes(a: Arguments) -> None:
    data = a["data"]
    axes = a["axis"] if isinstance(a["axis"], (tuple, list)) else (a["axis"],)
    a["axis"] = tuple(sorted(int(n) % data.ndim for n in axes))
    a["keepdims"] = bool(a["keepdims"])


def _reduced_shape(a: Arguments) -> Sequence[int]:
    if a["keepdims"]:
        return [1 if n in a["axis"] else size for n, size in enumerate(a["data"].shape)]
    kept = [size for n, size in enumerate(a["data"].shape) if n not in a["axis"]]
    return kept if len(kept) > 1 else [*kept, 1]


def _reduced_place(box: Box, shape: tuple[int, ...]) -> Box:
    """Return where a reduced box goes: what is kept is as in the grid, what is reduced has one element."""
    if len(shape) == len(box):  # reduced axes are kept with size 1
        return tuple((0, 1) if n == 1 else ab for ab, n in zip(box, shape, strict=True))
    return tuple(ab if n > 1 else (0, 1) for ab, n in zip(box[: len(shape)], shape, strict=True))


# -- positions ----------------------------------------------------------------------------------------------------

_COMPARED = {n: OPERATORS[n] for n in ("greater_equal", "equal", "not_equal")}


def affine_select(
    pred: Any, on_true_tile: Any, on_false_value: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any
) -> Tile:  # fmt: skip
    """Return elements of a tile where a comparison of index tensors holds, elsewhere a number. GpSimd."""
    refuse_others("affine_select", kwargs)
    tile = tile_of(on_true_tile, "affine_select", "on_true_tile")
    if isinstance(
        pred, (bool, np.bool_)
    ):  # known while tracing, as where a variable of a loop is compared
        kind, term = "greater_equal", Index((1,) * tile.ndim, (0,) * tile.ndim, int(pred) - 1)
    elif isinstance(pred, Mask) and pred.relation is not None:
        kind, term = pred.relation
    else:
        raise WrongOperand(
            "nisa.affine_select: `pred` must be one comparison of index tensors",
            help="apply several one after the other, or use nl.where with a tile of truth values",
        )
    if len(term.shape) != tile.ndim:
        raise WrongOperand(
            f"nisa.affine_select: `pred` is about {len(term.shape)} axes, {list(term.shape)}, and on_true_tile is"
            f" {tile.describe()}",
            help="give each index in pred one position for each axis of the tile",
        )
    out = new(tile.shape, tile.dtype if dtype is None else dtype_named(dtype))
    value = float(number(on_false_value))
    covered = [None] if mask is None else boxes(mask, tile.shape)
    made = []
    for box in covered:
        cut = box or tuple((0, n) for n in tile.shape)
        made.append(
            TODAY["affine_select"](
                dst=out.target(box),
                on_true_tile=tile.read(box),
                on_false_value=value,
                cmp_op=_COMPARED[kind],
                **_affine(term, cut),
            )
        )
    note(out, made, covered)
    return out


def iota(expr: Any, dtype: Any, *, mask: Any = None, **kwargs: Any) -> Tile:
    """Return a tile with the values of an index tensor, cast to a dtype. GpSimd."""
    refuse_others("iota", kwargs)
    if not isinstance(expr, Index):
        raise WrongOperand(
            f"nisa.iota: `expr` must be an affine expression of nl.arange or nl.mgrid, found {type(expr).__name__}"
            f" {expr!r}",
            help="a tile of one number is nisa.memset(shape, value, dtype)",
        )
    term = expr if len(expr.shape) > 1 else expr[:, None]
    out = new(term.shape, dtype_named(dtype))
    covered = [None] if mask is None else boxes(mask, term.shape)
    made = []
    for box in covered:
        cut = box or tuple((0, n) for n in term.shape)
        made.append(TODAY["iota"](dst=out.target(box), **_affine(term, cut)))
    note(out, made, covered)
    return out


def _affine(term: Any, box: Box) -> Arguments:
    """Return the arguments that say the values of an affine expression in a box of its grid."""
    sizes = [end - first for first, end in box]
    first = term.const + sum(c * a for c, (a, _) in zip(term.coef, box, strict=True))
    return {
        "pattern": [[c, n] for c, n in zip(term.coef[1:], sizes[1:], strict=True)],
        "channel_multiplier": term.coef[0],
        "offset": first,
    }


def memset(
    shape: Any, value: Any, dtype: Any, *, mask: Any = None, engine: Any = enums.engine.unknown, **kwargs: Any
) -> Tile:  # fmt: skip
    """Return a tile filled with a number. Vector or GpSimd."""
    refuse_others("memset", kwargs)
    out = new(tuple(shape) if isinstance(shape, (tuple, list)) else (shape,), dtype_named(dtype))
    filler = number(value)
    filler = float(filler) if out.dtype.is_float else int(filler)
    unit = enums.meant(engine, enums.engine, "memset", "engine")
    covered = [None] if mask is None else boxes(mask, out.shape)
    made = [TODAY["memset"](dst=out.target(box), value=filler, engine=unit) for box in covered]
    note(out, made, covered)
    return out


# -- moving ---------------------------------------------------------------------------------------------------------


def _gathered_shape(a: Arguments) -> Sequence[int]:
    given = a["index"].shape[1:]
    each, valid = a["num_elem_per_idx"], a["num_valid_indices"]
    count = 16 * prod(given)
    if valid in (None, count):
        return (a["src_buffer"].shape[0], prod(given), 16, each)
    return (a["src_buffer"].shape[0], valid, each)


def _whole_numbers(*names: str) -> Callable[[Arguments], None]:
    def adjust(a: Arguments) -> None:
        for name in names:
            a[name] = None if a[name] is None else int(a[name])

    return adjust


def _as_integers(a: Arguments) -> None:
    a["shuffle_mask"] = [int(n) for n in a["shuffle_mask"]]


def _predicate(a: Arguments) -> None:
    # Any tile of truth values may choose there; the instruction takes unsigned integers.
    predicate = a["predicate"]
    if predicate.dtype is bool_:
        view = predicate.read()
        a["predicate"] = Tile(view.view(uint8))
    elif predicate.dtype.kind != "uint":
        a["predicate"] = binary("not_equal", predicate, 0.0, "uint8")
    src, dst = a["src"], a["dst"]
    if isinstance(src, Tile) and src.dtype is not dst.dtype:
        a["src"] = src.astype(dst.dtype)


# By the number of axes, in the order that the page says; the instruction takes no other.
_ORDERS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def _listed_axes(a: Arguments) -> None:
    a["axes"] = None if a["axes"] is None else tuple(int(n) for n in a["axes"])


def _transposed(a: Arguments) -> Sequence[int]:
    src = a["src"]
    return [src.shape[n] for n in _ORDERS.get(src.ndim, range(src.ndim))]


def _transposed_place(box: Box, shape: tuple[int, ...]) -> Box:
    return tuple(box[n] for n in _ORDERS.get(len(box), range(len(box))))


def _sequences(a: Arguments) -> Sequence[int]:
    ids = a["segment_ids"]
    return (ids.shape[0], 2, prod(ids.shape[1:]))


def _biased(a: Arguments) -> None:
    """Check the dtypes of bias and scale, which are one value per partition."""
    for name, dtypes in (("bias", (float32, float16, bfloat16)), ("scale", (float32,))):
        value = a[name]
        if isinstance(value, Tile) and value.dtype not in dtypes:
            raise WrongOperand(
                f"nisa.activation: `{name}` must be a vector of {' or '.join(map(str, dtypes))}; found"
                f" {value.describe()}",
                notes=[older(f"err_activation_{name}_invalid_type")],
                help=f"cast it first: {name}=nl.copy({name}, dtype=nl.float32)",
            )


def _activated(a: Arguments) -> None:
    _biased(a)
    _accumulated(a)


def _accumulated(a: Arguments) -> None:
    """Reduce where a result is asked for and `reduce_cmd` says nothing: a register that nothing reset has no value."""
    if a["reduce_res"] is not None and a["reduce_cmd"] is enums.meant(0, enums.reduce_cmd, "", ""):
        a["reduce_cmd"] = enums.meant(enums.reduce_cmd.reset_reduce, enums.reduce_cmd, "", "")


def dma_copy(
    *, dst: Any, src: Any, mask: Any = None, dst_rmw_op: Any = None, oob_mode: Any = enums.oob_mode.error,
    dge_mode: Any = enums.dge_mode.unknown,
) -> None:  # fmt: skip
    """Copy a tensor with the DMA engine, or add it to what is there: both may be in HBM or SBUF."""
    source, target = anywhere(src, "dma_copy", "src"), anywhere(dst, "dma_copy", "dst")
    bounds = enums.meant(oob_mode, enums.oob_mode, "dma_copy", "oob_mode")
    descriptors = enums.meant(dge_mode, enums.dge_mode, "dma_copy", "dge_mode")
    operator = operator_or_none(dst_rmw_op, "dma_copy", "dst_rmw_op")
    if source.shape != target.shape and source.size == target.size:
        if source.on_chip and target.ndim == 1:  # one value per partition
            target = target.reshaped(source.shape)
        else:
            source = source.reshaped(target.shape)
    for box in [None] if mask is None else boxes(mask, target.shape):
        view, value = target.read(box), part(source, box, target.shape)
        if operator is None:
            TODAY["dma_copy"](dst=view, src=value, oob_mode=bounds, dge_mode=descriptors)
        else:
            TODAY["dma_compute"](dst=view, srcs=[view, value], reduce_op=operator, oob_mode=bounds)


def tensor_copy_dynamic_dst(
    *, dst: Any, src: Any, mask: Any = None, dtype: Any = None, engine: Any = enums.engine.unknown, **kwargs: Any
) -> None:  # fmt: skip
    """Copy a tile to a place that a value in SBUF names."""
    refuse_others("tensor_copy_dynamic_dst", kwargs)
    target, source = (
        tile_of(dst, "tensor_copy_dynamic_dst", "dst"),
        tile_of(src, "tensor_copy_dynamic_dst", "src"),
    )
    unit = enums.meant(engine, enums.engine, "tensor_copy_dynamic_dst", "engine")
    for box in [None] if mask is None else boxes(mask, target.shape):
        TODAY["tensor_copy"](
            dst=target.target(box), src=part(source, box, target.shape), engine=unit
        )


def builtin_custom_op(
    function_name: Any, lib_file_name: Any, ulib_to_ucode_version: Any, ulib_to_isa_version: Any, srcs: Any, dsts: Any,
    **kwargs: Any,
) -> None:  # fmt: skip
    """Refuse a C++ operator of GpSimd: its library runs on the chip only."""
    raise NotModelled(
        f"nisa.builtin_custom_op: the operator {function_name!r} is a C++ library for GpSimd, {lib_file_name!r}",
        help="write the operator with the instructions of nki.isa",
    )


# -- the table ------------------------------------------------------------------------------------------------------

_ENGINE = "engine: unit = engine.unknown"
_ROWS = (
    Row(
        TODAY["activation"],
        "op: operator, data: tile, *, bias: column = None, scale: column = 1.0, reduce_op: operator = None,"
        " reduce_res: column = None, reduce_cmd: command = reduce_cmd.idle, mask=None, dtype=None, **kwargs",
        "Return `op(data * scale + bias)`, and reduce it along the free axes. Scalar.",
        adjust=_activated,
    ),
    Row(
        TODAY["activation_reduce"],
        "op: operator, data: tile, *, reduce_op: operator, reduce_res: column, bias: column = None,"
        " scale: column = 1.0, mask=None, dtype=None, **kwargs",
        "Return `op(data * scale + bias)` and write its sum along the free axes into `reduce_res`. Scalar.",
        adjust=_biased,
    ),
    Row(
        TODAY["bn_aggr"],
        "data: tile, *, mask=None, dtype=None, **kwargs",
        "Return the mean and the variance of results of bn_stats. Vector.",
        shape=_per_partition(2),
        place=_by_rows,
    ),
    Row(
        TODAY["bn_stats"],
        "data: tile, *, mask=None, dtype=None, **kwargs",
        "Return count, mean and variance * count of the even and of the odd elements. Vector.",
        shape=_per_partition(6),
        place=_by_rows,
    ),
    Row(
        TODAY["dma_transpose"],
        "src: part, *, axes: plain = None, mask=None, dtype=None, **kwargs",
        "Return a tile with the axes in another order, moved by the DMA engine.",
        over="src",
        shape=_transposed,
        place=_transposed_place,
        adjust=_listed_axes,
        moves=True,
        also={"dge_mode": "descriptors", "oob_mode": "bounds"},
    ),
    Row(
        TODAY["dropout"],
        "data: tile, prob: column, *, mask=None, dtype=None, **kwargs",
        "Return a tile with elements replaced by zero at random. Vector.",
        moves=True,
    ),
    Row(
        TODAY["local_gather"],
        "src_buffer: whole, index: whole, num_elem_per_idx: plain = 1, num_valid_indices: plain = None, *, mask=None",
        "Return elements of each partition, at indices of its group of 16 partitions. GpSimd.",
        over="src_buffer",
        shape=_gathered_shape,
        adjust=_whole_numbers("num_elem_per_idx", "num_valid_indices"),
    ),
    Row(
        TODAY["max8"],
        "*, src: tile, mask=None, dtype=None, **kwargs",
        "Return the 8 largest values of each partition. Vector.",
        over="src",
        shape=_per_partition(8),
        place=_by_rows,
    ),
    Row(
        TODAY["nc_find_index8"],
        "*, data: tile, vals: rows, mask=None, dtype=None, **kwargs",
        "Return the places of 8 values in each partition. Vector.",
        shape=_per_partition(8),
        dtype=lambda a: uint32,
        place=_by_rows,
    ),
    Row(
        TODAY["nc_match_replace8"],
        "*, data: tile, vals: rows, imm: column, dst_idx: rows = None, mask=None, dtype=None, **kwargs",
        "Return a tile with the first occurrence of 8 values replaced, and write their places. Vector.",
    ),
    Row(
        TODAY["nc_stream_shuffle"],
        "src: rows, dst: tile, shuffle_mask: plain, *, dtype=None, mask=None, **kwargs",
        "Move rows between the partitions of each group of 32, into `dst`. Vector.",
        over="dst",
        into="dst",
        adjust=_as_integers,
    ),
    Row(
        TODAY["range_select"],
        "*, on_true_tile: tile, comp_op0: operator, comp_op1: operator, bound0: column, bound1: column,"
        " reduce_cmd: command = reduce_cmd.idle, reduce_res: column = None, reduce_op: operator = np.amax,"
        " range_start: plain = 0, on_false_value: column = fp32.min, mask=None, dtype=None, **kwargs",
        "Return elements whose position passes two comparisons, elsewhere the smallest float32. Vector.",
        over="on_true_tile",
        adjust=_accumulated,
    ),
    Row(
        TODAY["reciprocal"],
        "data: tile, *, dtype=None, mask=None, **kwargs",
        "Return `1 / data`. Vector.",
    ),
    Row(
        TODAY["scalar_tensor_tensor"],
        "*, data: tile, op0: operator, operand0: column, op1: operator, operand1: tile, reverse0: flag = False,"
        " reverse1: flag = False, dtype=None, mask=None, **kwargs",
        "Return `(data op0 operand0) op1 operand1`, of a number or column and a tile. Vector.",
    ),
    Row(
        TODAY["select_reduce"],
        "*, dst: tile, predicate: tile, on_true: tile, on_false: column, reduce_res: column = None,"
        " reduce_cmd: command = reduce_cmd.idle, reduce_op: operator = np.amax, reverse_pred: flag = False, mask=None,"
        " dtype=None, **kwargs",
        "Write elements of a tile where a predicate holds, elsewhere a value, and take their maximum. Vector.",
        over="dst",
        into="dst",
        adjust=_accumulated,
    ),
    Row(
        TODAY["sequence_bounds"],
        "*, segment_ids: whole, dtype=None",
        "Return the first and the last place of each element's segment. GpSimd.",
        over="segment_ids",
        shape=_sequences,
    ),
    Row(
        TODAY["tensor_copy"],
        f"src: tile, *, mask=None, dtype=None, {_ENGINE}, **kwargs",
        "Return a copy of a tile in SBUF. Vector, Scalar or GpSimd.",
        over="src",
    ),
    Row(
        TODAY["tensor_copy_predicated"],
        "*, src: tile_or_number, dst: tile, predicate: tile, reverse_pred: flag = False, mask=None, dtype=None,"
        " **kwargs",
        "Copy elements into `dst` where a predicate holds. Vector.",
        over="dst",
        into="dst",
        adjust=_predicate,
    ),
    Row(
        TODAY["tensor_partition_reduce"],
        "op: operator, data: tile, *, mask=None, dtype=None, **kwargs",
        "Return a tile reduced over its partitions. GpSimd.",
        shape=lambda a: (1, *a["data"].shape[1:]),
        place=lambda box, shape: ((0, 1), *box[1:]),
    ),
    Row(
        TODAY["tensor_reduce"],
        "op: operator, data: tile, axis: plain, *, mask=None, dtype=None, negate: flag = False, keepdims: flag = False,"
        " **kwargs",
        "Return a tile reduced over its last free axes. Vector.",
        shape=_reduced_shape,
        place=_reduced_place,
        adjust=_moved_axes,
    ),
    Row(
        TODAY["tensor_scalar"],
        "data: tile, op0: operator, operand0: column, reverse0: flag = False, op1: operator = None,"
        f" operand1: column = None, reverse1: flag = False, *, dtype=None, mask=None, {_ENGINE}, **kwargs",
        "Return `(data op0 operand0) op1 operand1`, of numbers or columns. Vector, Scalar or GpSimd.",
        adjust=_with_operands,
    ),
    Row(
        # Of releases after 2.26, whose tests are in this dialect.
        TODAY["tensor_scalar_cumulative"],
        "*, src: tile, dst: tile, op0: operator, op1: operator, imm0: column, imm1: column = None,"
        " reduce_cmd: command = reduce_cmd.reset_reduce, mask=None, dtype=None, **kwargs",
        "Write a running reduction by `op1` of `src op0 imm0` along each partition into `dst`. Vector.",
        over="dst",
        into="dst",
    ),
    Row(
        TODAY["tensor_scalar_reduce"],
        "*, data: tile, op0: operator, operand0: column, reduce_op: operator, reduce_res: column, reverse0: flag ="
        " False, dtype=None, mask=None, **kwargs",
        "Return `data op0 operand0` and write its reduction along the free axes into `reduce_res`. Vector.",
    ),
    Row(
        TODAY["tensor_tensor"],
        f"data1: tile, data2: tile, op: operator, *, dtype=None, mask=None, {_ENGINE}, **kwargs",
        "Return `data1 op data2`. Vector, or GpSimd for powers and 32-bit integers.",
        over="data1",
        dtype=lambda a: promoted(a["data1"].dtype, a["data2"].dtype),
        adjust=_two_tiles,
    ),
    Row(
        TODAY["tensor_tensor_scan"],
        "data0: tile, data1: tile, initial: column, op0: operator, op1: operator, reverse0: flag = False,"
        " reverse1: flag = False, *, dtype=None, mask=None, **kwargs",
        "Return a scan along each partition: `(data0 op0 result before it) op1 data1`. Vector.",
        over="data0",
        dtype=lambda a: promoted(a["data0"].dtype, a["data1"].dtype),
        adjust=_scanned,
    ),
)


#: Every function of `neuronxcc.nki.isa` that returns or writes a tile, by its name.
FUNCTIONS: dict[str, Callable[..., Any]] = {row.name: function_of(row) for row in _ROWS}
for _written in (affine_select, builtin_custom_op, dma_copy, iota, memset, tensor_copy_dynamic_dst):
    FUNCTIONS[_written.__name__] = _written


def tensor_copy_dynamic_src(
    src: Any, *, mask: Any = None, dtype: Any = None, engine: Any = enums.engine.unknown, **kwargs: Any
) -> Tile:  # fmt: skip
    """Return a copy of a tile whose place a value in SBUF names."""
    return FUNCTIONS["tensor_copy"](src, mask=mask, dtype=dtype, engine=engine, **kwargs)  # type: ignore[no-any-return]


FUNCTIONS["tensor_copy_dynamic_src"] = tensor_copy_dynamic_src
