"""What the instructions of nki.isa do on one core, one function each, called as in a kernel.

Page: nki/api/nki/isa/__init__.py. Instructions in which cores or ranks meet stand in `machine.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.reference import numbers as n
from tests.reference.machine import core
from tests.reference.numbers import (
    FREE,
    Array,
    Val,
    activate,
    alu,
    exact,
    f32,
    fold,
    total,
)
from tests.reference.tensors import (
    Refused,
    Tensor,
    copy_elements,
)

FP32_MIN = float(np.finfo(np.float32).min)


def scalar(x: Any, rows: int) -> Val:
    """Return a number, or one value per partition, as a column."""
    if isinstance(x, Tensor):
        return x.read()
    return exact(np.full((rows, 1), f32(np.float64(x))))


def sure(t: Tensor) -> Array:
    """Return stored elements of which every one is fixed, rows by elements."""
    at, _ = t.places()
    if (t.error(at) != 0).any():
        raise Refused("what an instruction does depends on values that the pages leave open")
    return t.raw(at).reshape(t.shape[0], -1)


def shaped(dst: Tensor, x: Val) -> None:
    """Write rows by elements, in the order of elements."""
    dst.write(
        Val(
            np.broadcast_to(x.v, (dst.shape[0], dst.free)),
            np.broadcast_to(x.e, (dst.shape[0], dst.free)),
        )
    )


def store_raw(dst: Tensor, raw: Array, error: Array, keep: Array | None = None) -> None:
    dst.put(raw, error, keep=keep)


def raw_of(t: Tensor) -> tuple[Array, Array]:
    at, _ = t.places()
    return t.raw(at).reshape(t.shape[0], -1), t.error(at).reshape(t.shape[0], -1)


# -- copies --------------------------------------------------------------------------------------------------------


def dma_copy(
    dst: Tensor, src: Tensor, priority=None, oob_mode=None, dge_mode=None, engine=None, name=None
) -> None:
    copy_elements(dst, src, skip=oob_mode == "skip")


def tensor_copy(dst: Tensor, src: Tensor, engine=None, name=None) -> None:
    copy_elements(dst, src)


def memset(dst: Tensor, value, engine=None, name=None) -> None:
    if dst.dtype.kind == "p":
        dst.put(np.zeros(dst.shape, dst.dtype.np), np.zeros(dst.shape))
    elif dst.dtype.kind in "iu":
        dst.write_integers(np.full(dst.shape, int(value)), np.zeros(dst.shape))
    else:
        shaped(dst, scalar(value, dst.shape[0]))


def tensor_copy_predicated(
    dst: Tensor, src, predicate: Tensor, reverse_pred=False, name=None
) -> None:
    keep = (sure(predicate) != 0) == bool(reverse_pred)
    if isinstance(src, Tensor):
        dst.put(*raw_of(src), keep=keep)
    else:
        dst.write(Val(np.full(dst.shape, f32(np.float64(src))), np.zeros(dst.shape)), keep=keep)


def nc_transpose(dst: Tensor, data: Tensor, engine=None, name=None) -> None:
    raw, error = raw_of(data)
    if core().chip == 2 and dst.buffer == "psum" and data.dtype.kind == "f":
        error = np.where(np.isfinite(raw.astype(float)), np.where(raw == 0, 1e-45, error), FREE)
        error = np.where(
            np.isfinite(raw.astype(float)).all(), error, FREE
        )  # 0 * inf meets every row
    dst.put(raw.T, error.T)


def dma_transpose(
    dst: Tensor, src: Tensor, axes=None, priority=None, dge_mode=None, oob_mode=None, name=None
) -> None:
    order = axes or {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[src.ndim]
    if src.rows is not None:  # the indices go column by column
        index, step, count = src.rows
        flat = (
            index.raw().reshape(index.shape[0], -1).T.reshape(-1)[: src.shape[0]].astype(np.int64)
        )
        rest = np.zeros((), np.int64)
        for size, stride in zip(src.shape[1:], src.strides[1:], strict=True):
            rest = rest[..., None] + np.arange(size) * stride
        if (flat >= count).any():
            raise Refused("an index is out of range")
        at = src.offset + (flat * step).reshape(-1, *[1] * (src.ndim - 1)) + rest
    else:
        at, _ = src.places()
    dst.put(src.raw(at).transpose(order), src.error(at).transpose(order))


def dma_compute(
    dst: Tensor, srcs, reduce_op, scales=None, unique_indices=True, oob_mode=None, name=None
) -> None:
    moving = [t for t in (*srcs, dst) if t.rows is not None]
    skip = oob_mode == "skip" and bool(moving)
    bad = None
    values = []
    for t in srcs:
        at, gone = t.places(skip=skip)
        bad = bad if gone is None else gone
        with np.errstate(all="ignore"):
            v = t.raw(at).astype(np.float32).astype(float)
        e = t.error(at)
        values.append(Val(v.reshape(dst.shape), np.where(e < 0, 0.0, e).reshape(dst.shape)))
    if len(values) == 1:
        result = values[0]
    elif len(values) == 2:
        result = alu("add", *values)
    else:
        stacked = Val(np.stack([x.v for x in values], -1), np.stack([x.e for x in values], -1))
        result = total(stacked).map(lambda a: a[..., 0])
    keep = None if bad is None else bad.reshape(dst.shape)
    if dst.rows is None:
        dst.write(result, keep)
        return
    at, _ = dst.places(skip=skip)
    value, open_ = n.rounded(result.v, dst.dtype)
    if result.dirty.any():
        open_ = np.where(result.dirty, FREE, open_)
    with np.errstate(all="ignore"):
        dst.put(value.astype(dst.dtype.np), open_, at, keep)


def nc_stream_shuffle(dst: Tensor, src: Tensor, shuffle_mask, name=None) -> None:
    raw, error = raw_of(src)
    old, before = raw_of(dst)
    for q in range(0, dst.shape[0], 32):
        for i, m in enumerate(shuffle_mask[: dst.shape[0] - q]):
            if m != 255:
                if q + m >= len(raw):
                    raise Refused("the mask names a partition that is not there")
                old[q + i], before[q + i] = raw[q + m], error[q + m]
    dst.put(old, before)


def local_gather(
    dst: Tensor,
    src_buffer: Tensor,
    index: Tensor,
    num_elem_per_idx=1,
    num_valid_indices=None,
    name=None,
) -> None:
    raw, error = raw_of(src_buffer)
    ids, e = sure(index).astype(np.int64), num_elem_per_idx
    out, errors = (
        np.zeros((dst.shape[0], dst.free), dst.dtype.np),
        np.full((dst.shape[0], dst.free), FREE),
    )
    old, before = raw_of(dst)
    out, errors = old.copy(), before.copy()
    for g in range(0, dst.shape[0], 16):
        chosen = ids[g : g + 16].ravel(order="F")[:num_valid_indices]
        for k, first in enumerate(chosen):
            out[g : g + 16, k * e : (k + 1) * e] = raw[g : g + 16, first : first + e]
            errors[g : g + 16, k * e : (k + 1) * e] = error[g : g + 16, first : first + e]
    dst.put(out, errors)


def nc_n_gather(dst: Tensor, data: Tensor, indices: Tensor, name=None) -> None:
    raw, error = raw_of(data)
    ids = sure(indices).astype(np.int64)
    if (ids >= raw.shape[1]).any():
        raise Refused("an index is out of range")
    dst.put(np.take_along_axis(raw, ids, 1), np.take_along_axis(error, ids, 1))


# -- element by element --------------------------------------------------------------------------------------------


def _bits(t: Any, like: Tensor) -> tuple[Array, Array]:
    if not isinstance(t, Tensor):
        mask = (1 << 8 * like.dtype.size) - 1
        return np.full((like.shape[0], 1), int(t) & mask, np.uint64), np.zeros((like.shape[0], 1))
    raw, error = raw_of(t)
    return raw.view(f"u{t.dtype.size}").astype(np.uint64), error


def _bitwise(
    op: str, a: tuple[Array, Array], b: tuple[Array, Array] | None, width: int
) -> tuple[Array, Array]:
    mask = np.uint64((1 << width) - 1)
    if op == "invert":
        return ~a[0] & mask, a[1]
    assert b is not None
    error = np.maximum(a[1], b[1])
    if "shift" in op:
        error = np.where(b[0] >= width, FREE, error)
        return n.BITVEC[op](a[0], np.minimum(b[0], np.uint64(63))) & mask, error
    return n.BITVEC[op](a[0], b[0]) & mask, error


def _store_bits(dst: Tensor, r: tuple[Array, Array]) -> None:
    size = dst.dtype.size
    raw = np.broadcast_to(r[0], (dst.shape[0], dst.free)).astype(f"u{size}").view(dst.dtype.np)
    dst.put(raw, np.where(np.broadcast_to(r[1], raw.shape) != 0, FREE, 0.0))


def tensor_tensor(dst: Tensor, data1: Tensor, data2: Tensor, op, engine=None, name=None) -> None:
    if op in n.BITVEC:
        _store_bits(dst, _bitwise(op, _bits(data1, dst), _bits(data2, dst), 8 * dst.dtype.size))
        return
    whole = all(
        t.dtype.name in ("int32", "uint32") and t.buffer == "sbuf" for t in (dst, data1, data2)
    )
    if not (whole and engine in (None, "unknown", "gpsimd")):
        shaped(dst, alu(op, data1.read(), data2.read()))
        return
    (a, e1), (b, e2) = data1.integers(), data2.integers()
    error = np.where((e1 != 0) | (e2 != 0), FREE, 0.0)
    if op == "power":
        base = a.astype(float) ** np.clip(b, 0, 62)
        error = np.where((b < 0) | (np.abs(base) >= 2.0**31), FREE, error)
        r = np.where(error == 0, base, 0).astype(np.int64)
    elif op in ("abs_max", "abs_min"):
        r = n.BINARY[op][0](a, b)
    else:
        r = np.asarray(n.BINARY[op][0](a, b)).astype(np.int64)  # keeps the low 32 bits
    dst.put(r.astype(np.uint64).astype(np.uint32).view(dst.dtype.np), error)


def tensor_scalar(
    dst: Tensor, data: Tensor, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False, engine=None,
    name=None,
) -> None:  # fmt: skip
    if op0 in n.BITVEC or op0 == "invert":
        width = 8 * dst.dtype.size
        r = _bits(data, dst)
        for op, operand, reverse in ((op0, operand0, reverse0), (op1, operand1, reverse1)):
            if op is not None:
                other = None if op == "invert" else _bits(operand, dst)
                pair = (other, r) if reverse and other is not None else (r, other)
                r = _bitwise(op, pair[0], pair[1], width)  # type: ignore[arg-type]
        _store_bits(dst, r)
        return
    rows = data.shape[0]
    x = data.read()
    for op, operand, reverse in ((op0, operand0, reverse0), (op1, operand1, reverse1)):
        if op is not None:
            x = alu(op, x, None if op in n.UNARY else scalar(operand, rows), reverse)
    shaped(dst, x)


def scalar_tensor_tensor(
    dst: Tensor,
    data: Tensor,
    op0,
    operand0,
    op1,
    operand1: Tensor,
    reverse0=False,
    reverse1=False,
    name=None,
) -> None:
    x = alu(op0, data.read(), None if op0 in n.UNARY else scalar(operand0, data.shape[0]), reverse0)
    shaped(dst, alu(op1, x, operand1.read(), reverse1))


def reciprocal(dst: Tensor, data: Tensor, name=None) -> None:
    shaped(dst, alu("reciprocal", data.read()))


def tensor_tensor_scan(
    dst: Tensor,
    data0: Tensor,
    data1: Tensor,
    initial,
    op0,
    op1,
    reverse0=False,
    reverse1=False,
    name=None,
) -> None:
    a, b, state = data0.read(), data1.read(), scalar(initial, data0.shape[0])
    columns = []
    for k in range(a.v.shape[1]):
        one, two = (x.map(lambda y, k=k: y[:, k : k + 1]) for x in (a, b))  # type: ignore[misc]
        state = alu(op1, alu(op0, one, state, reverse0), two, reverse1)
        columns.append(state)
    shaped(dst, _joined(columns))


def _joined(columns: list[Val]) -> Val:
    return Val(np.concatenate([c.v for c in columns], 1), np.concatenate([c.e for c in columns], 1))


def iota(dst: Tensor, pattern, offset=0, channel_multiplier=0, name=None) -> None:
    v = _affine(dst.shape[0], pattern, offset, channel_multiplier)
    error = np.zeros(v.shape)
    if dst.dtype.kind in "iu":
        info = np.iinfo(dst.dtype.np)
        error[(v < info.min) | (v > info.max)] = FREE
    dst.write_integers(v.reshape(dst.shape), error.reshape(dst.shape))


def _affine(rows: int, pattern, offset, channel_multiplier) -> Array:
    v = offset + np.arange(rows, dtype=np.int64) * channel_multiplier
    for step, count in pattern:
        v = v[..., None] + np.arange(count) * step
    return v.reshape(rows, -1)


def affine_select(
    dst: Tensor,
    pattern,
    channel_multiplier,
    on_true_tile: Tensor,
    on_false_value,
    cmp_op="equal",
    offset=0,
    name=None,
) -> None:
    take = np.asarray(
        n.BINARY[cmp_op][0](_affine(dst.shape[0], pattern, offset, channel_multiplier), 0), bool
    )
    x = on_true_tile.read()
    if on_true_tile.dtype is dst.dtype:
        raw, error = raw_of(on_true_tile)
        with np.errstate(all="ignore"):
            other, open_ = n.rounded(np.full(raw.shape, f32(np.float64(on_false_value))), dst.dtype)
            dst.put(np.where(take, raw, other.astype(dst.dtype.np)), np.where(take, error, open_))
        return
    shaped(dst, Val(np.where(take, x.v, f32(np.float64(on_false_value))), np.where(take, x.e, 0)))


# -- reductions ----------------------------------------------------------------------------------------------------


def tensor_reduce(
    dst: Tensor, op, data: Tensor, axis, negate=False, keepdims=False, name=None
) -> None:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    width = math.prod(data.shape[a] for a in axes)
    if op in n.BITVEC:
        bits, error = _bits(data, data)
        bits, error = bits.reshape(-1, width), error.reshape(-1, width)
        whole = getattr(n.BITVEC[op], "reduce")(bits, axis=1)  # noqa: B009
        _store_bits(dst, (whole.reshape(dst.shape[0], -1), error.max(1).reshape(dst.shape[0], -1)))
        return
    x = fold(op, data.read().map(lambda a: a.reshape(-1, width)))
    if negate:
        x = Val(-x.v, x.e)
    shaped(dst, x.map(lambda a: a.reshape(dst.shape[0], -1)))


def tensor_partition_reduce(dst: Tensor, op, data: Tensor, name=None) -> None:
    if op in n.BITVEC:
        bits, error = _bits(data, data)
        _store_bits(dst, (getattr(n.BITVEC[op], "reduce")(bits, axis=0)[None], error.max(0)[None]))  # noqa: B009
        return
    x = data.read().map(lambda a: a.T)
    r = fold("add" if op == "average" else op, x)
    if op == "average":
        with np.errstate(all="ignore"):
            r = Val(
                f32(r.v / data.shape[0]),
                r.e / data.shape[0] + np.abs(np.nan_to_num(r.v, posinf=0, neginf=0)) * n.EPS * 4,
            )
    shaped(dst, r.map(lambda a: a.T))


def _accumulate(state: Val, at: slice, cmd: str, op: str, x: Val, start: Any = 0.0) -> Val:
    """Return the accumulators after a command, one per row of `x`."""
    rows = x.v.shape[0]
    if cmd in ("reset", "reset_reduce"):
        base: Val | None = exact(np.full((rows, 1), n.IDENTITY[op]))
    elif cmd == "load_reduce":
        base = scalar(start, rows)
    else:
        base = state.map(lambda a: a[at])
    if cmd == "reset" or cmd == "idle":
        r = base
    else:
        r = fold(op, x, base)
    assert r is not None
    state.v[at], state.e[at] = r.v, r.e
    return r


def _lanes(t: Tensor) -> slice:
    return slice(t.start, t.start + t.shape[0])


def _result(res: Tensor | None, r: Val, negate: bool = False) -> None:
    if res is not None:
        shaped(res, Val(-r.v if negate else r.v, r.e))


def _vector(data: Tensor, cmd: str, op: str, x: Val, start: Any = 0.0) -> Val:
    state = core().vector
    if cmd == "idle":
        state.e[:] = FREE
    return _accumulate(state, _lanes(data), cmd, op, x, start)


def tensor_scalar_reduce(
    dst: Tensor, data: Tensor, op0, operand0, reduce_op, reduce_res=None, reverse0=False, reduce_cmd="reset_reduce",
    reduce_init=None, reduce_res_negate=False, name=None,
) -> None:  # fmt: skip
    x = alu(op0, data.read(), None if op0 in n.UNARY else scalar(operand0, data.shape[0]), reverse0)
    r = _vector(data, reduce_cmd, reduce_op, _kept(dst, x), reduce_init)
    shaped(dst, x)
    _result(reduce_res, r, reduce_res_negate)


def _kept(dst: Tensor, x: Val) -> Val:
    """Return values for a reduction; it is open whether it sees them before or after the rounding to `dst`."""
    v, _ = n.rounded(x.v, dst.dtype)
    with np.errstate(all="ignore"):
        apart = np.nan_to_num(np.abs(v - x.v), nan=0.0, posinf=FREE)
    same = (v == x.v) | (np.isnan(v) & np.isnan(x.v))
    return Val(x.v, x.e + np.where(same, 0.0, apart + 1e-45))


def tensor_scalar_cumulative(
    dst: Tensor, src: Tensor, op0, op1, imm0, imm1=None, reduce_cmd="reset_reduce", name=None
) -> None:
    rows = src.shape[0]
    x = alu(op0, src.read(), scalar(imm0, rows))
    state, at = core().vector, _lanes(src)
    if reduce_cmd == "reduce":
        reg = state.map(lambda a: a[at].copy())
    else:
        reg = (
            exact(np.full((rows, 1), n.IDENTITY[op1]))
            if reduce_cmd == "reset_reduce"
            else scalar(imm1, rows)
        )
    columns = []
    for k in range(x.v.shape[1]):
        reg = alu(op1, x.map(lambda a, k=k: a[:, k : k + 1]), reg)  # type: ignore[misc]
        columns.append(reg)
    state.v[at], state.e[at] = reg.v, reg.e
    shaped(dst, _joined(columns))


def range_select(
    dst: Tensor, on_true_tile: Tensor, comp_op0, comp_op1, bound0: Tensor, bound1: Tensor, reduce_cmd="reset_reduce",
    reduce_res=None, reduce_op="maximum", range_start=0, on_false_value=FP32_MIN, name=None,
) -> None:  # fmt: skip
    x = on_true_tile.read()
    at = exact(f32(range_start + np.arange(x.v.shape[1], dtype=float))[None])
    first, second = alu(comp_op0, at, bound0.read()), alu(comp_op1, at, bound1.read())
    mask = (first.v * second.v) != 0
    open_ = (first.dirty | second.dirty) * FREE if (first.dirty | second.dirty).any() else 0.0
    chosen = Val(np.where(mask, x.v, FP32_MIN), np.where(mask, x.e, 0) + open_)
    r = _vector(on_true_tile, reduce_cmd, "maximum", _kept(dst, chosen))
    shaped(dst, chosen)
    _result(reduce_res, r)


def select_reduce(
    dst: Tensor, predicate: Tensor, on_true: Tensor, on_false, reduce_res=None, reduce_cmd="idle", reduce_op="maximum",
    reverse_pred=False, name=None,
) -> None:  # fmt: skip
    take = (sure(predicate) != 0) != bool(reverse_pred)
    x, y = on_true.read(), scalar(on_false, on_true.shape[0])
    chosen = Val(np.where(take, x.v, y.v), np.where(take, x.e, y.e))
    r = _vector(on_true, reduce_cmd, "maximum", _kept(dst, chosen))
    shaped(dst, chosen)
    _result(reduce_res, r)


# -- activations ---------------------------------------------------------------------------------------------------


def _argument(x: Val, steps: list[tuple[str, Any, bool]], rows: int) -> tuple[Val, Any]:
    """Apply the operators before a function; return the input and its error, for it may be rounded once or twice."""
    error: Any = 0.0
    for op, operand, reverse in steps:
        y = scalar(operand, rows)
        r = alu(op, x, y, reverse)
        with np.errstate(all="ignore"):
            whole = np.asarray(n.BINARY[op][0](*((y.v, x.v) if reverse else (x.v, y.v))), float)
            inexact = np.isfinite(whole) & (whole != r.v)
            scale = np.abs(r.v) + (np.abs(x.v) if op != "multiply" else 0)
            error = error * (np.abs(y.v) if op == "multiply" else 1) + np.where(
                inexact, scale * n.EPS * 2, 0.0
            )
        x = r
    return x, np.nan_to_num(error, nan=FREE)


def _activation(
    dst: Tensor, data: Tensor, op, x: Val, error: Any, reduce_op, reduce_res, cmd, slope: Any = 0.0
) -> None:
    y = activate(op, x, scalar(slope, dst.shape[0]), error)
    name = reduce_op or "add"
    r = _accumulate(core().scalar, _lanes(data), cmd, name, _kept(dst, y))
    shaped(dst, y)
    _result(reduce_res, r)


def activation(
    dst: Tensor,
    op,
    data: Tensor,
    bias=None,
    scale=1.0,
    reduce_op=None,
    reduce_res=None,
    reduce_cmd="idle",
    name=None,
) -> None:
    steps = [("multiply", scale, False)]
    if bias is not None:
        steps.append(("add", bias, False))
    x, error = _argument(data.read(), steps, data.shape[0])
    _activation(dst, data, op, x, error, reduce_op, reduce_res, reduce_cmd)


def activation_reduce(
    dst: Tensor, op, data: Tensor, reduce_op, reduce_res, bias=None, scale=1.0, name=None
) -> None:
    activation(dst, op, data, bias, scale, reduce_op, reduce_res, "reset_reduce")


def activate2(
    dst: Tensor, op, data: Tensor, imm0, imm1, op0, op1, relu_param=0.0, reverse0=False, reverse1=False, reduce_op=None,
    reduce_res=None, reduce_cmd="idle", name=None,
) -> None:  # fmt: skip
    steps = [
        (o, i, r) for o, i, r in ((op0, imm0, reverse0), (op1, imm1, reverse1)) if o != "bypass"
    ]
    x, error = _argument(data.read(), steps, data.shape[0])
    _activation(dst, data, op, x, error, reduce_op, reduce_res, reduce_cmd, relu_param)


def exponential(
    dst: Tensor,
    src: Tensor,
    max_value=0.0,
    reduce_res=None,
    reduce_cmd="idle",
    reduce_init=0.0,
    name=None,
) -> None:
    x, error = _argument(src.read(), [("subtract", max_value, False)], src.shape[0])
    y = activate("exp", x, None, error)
    r = _vector(src, reduce_cmd, "add", _kept(dst, y), reduce_init)
    shaped(dst, y)
    _result(reduce_res, r)
