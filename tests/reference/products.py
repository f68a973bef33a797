"""Matrix products, statistics, searches, registers and random numbers of nki.isa, one function each.

Page: nki/api/nki/isa/__init__.py.
"""

from __future__ import annotations

import math

import numpy as np

from tests.reference import numbers as n
from tests.reference.instructions import raw_of, scalar, shaped, sure
from tests.reference.machine import core
from tests.reference.numbers import FREE, Array, Val, f32
from tests.reference.tensors import Register, Scalar, Tensor, number


def _product(dst: Tensor, s: Val, m: Val, accumulate, right: Array | None = None) -> None:
    """Write s.T @ m into PSUM by the rule of accumulation; `right` is the result where it is fixed to the bit."""
    with np.errstate(all="ignore"):
        if right is None:
            r = s.v.T @ m.v
            size = np.abs(s.v).T @ np.abs(m.v)
            grid = max(2.0**-20, min(_grid(s.v), 1)) * max(2.0**-20, min(_grid(m.v), 1))
            whole = size / grid < 2**24
            error = np.where(whole, 0.0, size * n.EPS * 4 * len(s.v) + 1e-40)
            error = np.where(np.isfinite(size) & (size < 2.0**127), error, FREE)
            spoiled = (s.dirty.any(0)[:, None]) | (m.dirty.any(0)[None])
            error[spoiled] = FREE
            if _grid(s.v) < 2.0**-20 or _grid(m.v) < 2.0**-20:
                error = np.fmax(error, size * n.EPS * 4 * len(s.v))
        else:
            r, error = right, np.zeros(right.shape)
        at, _ = dst.places(group=32)
        state = dst.memory.psum.reshape(-1, dst.dtype.size)[at].max(-1).reshape(r.shape)
        old = dst.read()
        add = (
            np.zeros(r.shape, bool)
            if accumulate is False
            else (state != 0)
            if accumulate is None
            else np.ones(r.shape, bool)
        )
        loose = add & ((state == 0) | (state == 2) & (core().chip < 4))
        result = np.where(add, old.v + r, r)
        both = np.abs(old.v) + np.abs(r)
        plain = (old.e == 0) & (error == 0) & (f32(result) == result)
        more = np.where(plain, 0.0, old.e + error + both * n.EPS * 2)
        error = np.where(add, more, error)
        error = np.where(loose, FREE, error)
        zero = (result == 0) & (error == 0) & (right is None)
        final = Val(f32(result), np.where(zero, 1e-45, error))
    dst.write(final.map(lambda a: a.reshape(dst.shape)), group=32)
    dst.memory.psum.reshape(-1, dst.dtype.size)[at] = 1


def _grid(v: Array) -> float:
    """Return the largest power of two (at most 1) of which all values are multiples, 2**-40 where there is none."""
    for k in (0, 3, 6, 9, 20):
        if (np.rint(v * 2.0**k) == v * 2.0**k).all():
            return float(2.0**-k)
    return float(2.0**-40)


def nc_matmul(
    dst: Tensor, stationary: Tensor, moving: Tensor, is_stationary_onezero=False, is_moving_onezero=False,
    is_transpose=False, accumulate=None, tile_position=(), tile_size=(), perf_mode="none", name=None,
) -> None:  # fmt: skip
    s, m = stationary.read(32), moving.read(32)
    if perf_mode == "double_row":
        s, m = (x.map(lambda a: a.reshape(2 * len(a), -1)) for x in (s, m))
    identity = m.v.shape[0] == m.v.shape[1] and np.array_equal(m.v, np.eye(len(m.v)))
    right = s.v.T if is_transpose and identity and core().chip > 2 and not s.dirty.any() else None
    _product(dst, s, m, accumulate, right)


def _lanes_of(t: Tensor) -> Val:
    raw, error = raw_of(t)
    lane = t.dtype.lane
    assert lane is not None
    if t.dtype.size == 2:
        four = np.stack([raw >> (4 * q) & 15 for q in range(4)], -1).astype(np.uint8).view(lane.np)
    else:
        four = np.ascontiguousarray(raw).view(np.uint8).reshape(*raw.shape, 4).view(lane.np)
    return Val(four.astype(np.float32).astype(float), np.repeat(error[..., None], 4, -1))


def _scale_rows(scale: Tensor, rows: int) -> Val:
    """Return the scale of each partition: one row per 8 partitions, 4 of them in each quadrant of 32."""
    raw, error = raw_of(scale)
    raw = raw.view(np.uint8)
    group = np.arange(rows) // 8
    at = group if rows <= 32 else group // 4 * 32 + group % 4
    value = np.where(raw[at] == 255, math.nan, 2.0 ** (raw[at].astype(float) - 127))
    return Val(value, error[at])


def nc_matmul_mx(
    dst: Tensor, stationary: Tensor, moving: Tensor, stationary_scale: Tensor, moving_scale: Tensor, tile_position=None,
    tile_size=None, accumulate=None, name=None,
) -> None:  # fmt: skip
    parts = []
    for data, scale in ((stationary, stationary_scale), (moving, moving_scale)):
        x, y = _lanes_of(data), _scale_rows(scale, data.shape[0])
        with np.errstate(all="ignore"):
            v = x.v * y.v[:, : x.v.shape[1], None]
        e = np.maximum(x.e, y.e[:, : x.v.shape[1], None])
        parts.append(Val(v, e).map(lambda a: a.transpose(0, 2, 1).reshape(-1, a.shape[1])))
    _product(dst, parts[0], parts[1], accumulate)


def quantize_mx(dst: Tensor, src: Tensor, dst_scale: Tensor, name=None) -> None:
    x = src.read()
    lane = dst.dtype.lane
    assert lane is not None
    rows, columns = x.v.shape
    groups = x.v.reshape(rows // 8, 8, columns // 4, 4)
    most = np.abs(groups).max((1, 3))
    top = {"float8_e4m3fn": 8, "float8_e5m2": 15}[lane.name]
    with np.errstate(all="ignore"):
        power = np.where(
            most > 0, np.frexp(np.where(np.isfinite(most), most, 1.0))[1] - 1 - (top - 1), -127
        )
    low = power < -127  # the page gives no rule for scales below the smallest
    power = np.maximum(power, -127)
    loose = ~np.isfinite(most) | low | (x.e.reshape(groups.shape).max((1, 3)) > 0)
    scaled = groups / 2.0 ** power[:, None, :, None]
    value, _ = n.rounded(f32(scaled), lane)
    packed = np.ascontiguousarray(value.astype(lane.np).reshape(rows, columns)).view(np.uint32)
    dst.put(packed, np.where(np.repeat(loose, 8, 0), FREE, 0.0))
    raw, error = raw_of(dst_scale)
    stored = (power + 127).astype(np.uint8)
    if rows <= 32:
        at = np.arange(rows // 8)
    else:
        at = np.arange(rows // 8) // 4 * 32 + np.arange(rows // 8) % 4
    bytes_ = raw.view(np.uint8).copy()
    bytes_[at], error[at] = stored, np.where(loose, FREE, 0.0)
    dst_scale.put(bytes_.view(raw.dtype), error)


# -- statistics and search -----------------------------------------------------------------------------------------


def bn_stats(dst: Tensor, data: Tensor, name=None) -> None:
    x = data.read()
    parts, errors = [], []
    for first in (0, 1):
        v, e = x.v[:, first::2], x.e[:, first::2].max(1, initial=0)
        count = v.shape[1]
        with np.errstate(all="ignore"):
            mean = v.mean(1) if count else np.zeros(len(v))
            spread = ((v - mean[:, None]) ** 2).sum(1)
            size = np.abs(v).max(1, initial=0)
            fine = np.isfinite(spread) & (size < 1e15) & (e == 0)
        parts += [np.full(len(v), float(count)), mean, spread]
        errors += [
            np.zeros(len(v)),
            np.where(fine, size * 1e-5 + 1e-38, FREE),
            np.where(fine, size**2 * count * 2e-5 + 1e-38, FREE),
        ]
    with np.errstate(all="ignore"):
        shaped(dst, Val(f32(np.stack(parts, 1)), np.stack(errors, 1)))


def bn_aggr(dst: Tensor, data: Tensor, name=None) -> None:
    x = data.read()
    count, mean, spread = (x.v[:, k::3] for k in range(3))
    with np.errstate(all="ignore"):
        number_ = count.sum(1)
        middle = (count * mean).sum(1) / number_
        variance = (spread + count * (mean - middle[:, None]) ** 2).sum(1) / number_
        size = np.abs(mean).max(1)
        fine = (
            (number_ > 0)
            & (count >= 0).all(1)
            & np.isfinite(variance)
            & (size < 1e15)
            & (np.abs(spread).max(1) < 1e30)
        )
        fine &= (count * np.abs(mean) < 1e30).all(1) & (x.e.max(1) == 0)
        scale = (
            np.abs(spread).sum(1) / number_
            + (count * (np.abs(mean) + size[:, None]) ** 2).sum(1) / number_
        )
        e = np.stack(
            [np.where(fine, size * 1e-5 + 1e-38, FREE), np.where(fine, scale * 2e-5 + 1e-38, FREE)],
            1,
        )
        shaped(dst, Val(f32(np.stack([middle, variance], 1)), e))


def max8(dst: Tensor, src: Tensor, name=None) -> None:
    x = src.read()
    loose = np.isnan(x.v).any(1) | (x.e.max(1) > 0)
    v = -np.sort(-x.v, 1)[:, :8]
    shaped(dst, Val(v, np.where(loose[:, None], FREE, np.where(v == 0, 1e-45, 0))))


def _matches(x: Val, v: Val, row: int, order: range) -> list[int | None]:
    taken: set[int] = set()
    result: list[int | None] = [None] * 8
    for k in order:
        hits = [int(h) for h in np.nonzero(x.v[row] == v.v[row, k])[0] if int(h) not in taken]
        if hits:
            result[k] = hits[0]
            taken.add(hits[0])
    return result


def nc_find_index8(dst: Tensor, data: Tensor, vals: Tensor, name=None) -> None:
    x, v = data.read(), vals.read()
    loose = (x.e.max(1) > 0) | (v.e.max(1) > 0)
    none = np.iinfo(dst.dtype.np).max
    rows = [_matches(x, v, r, range(8)) for r in range(len(x.v))]
    out = np.array([[none if h is None else h for h in row] for row in rows]).astype(dst.dtype.np)
    # What a repeated value gets beyond its last occurrence is open.
    spent = np.array(
        [
            [h is None and (x.v[r] == v.v[r, k]).any() for k, h in enumerate(row)]
            for r, row in enumerate(rows)
        ]
    )
    dst.put(out, np.where(loose[:, None] | spent, FREE, 0.0))


def nc_match_replace8(
    dst: Tensor, data: Tensor, vals: Tensor, imm, dst_idx=None, name=None
) -> None:
    x, v = data.read(), vals.read()
    loose = (x.e.max(1) > 0) | (v.e.max(1) > 0) | (v.v == f32(np.float64(imm))).any(1)
    rows = [_matches(x, v, r, range(7, -1, -1)) for r in range(len(x.v))]
    out = x.v.copy()
    for r, row in enumerate(rows):
        out[r, [h for h in row if h is not None]] = f32(np.float64(imm))
    shaped(dst, Val(out, np.where(loose[:, None], FREE, x.e)))
    if dst_idx is not None:
        where = np.array([[0 if h is None else h for h in row] for row in rows])
        missing = np.array([[h is None for h in row] for row in rows])
        dst_idx.put(where.astype(dst_idx.dtype.np), np.where(loose[:, None] | missing, FREE, 0.0))


def nonzero_with_count(dst: Tensor, src: Tensor, index_offset=0, padding_val=-1, name=None) -> None:
    raw, error = raw_of(src)
    old, before = raw_of(dst)
    for r in range(0, len(raw), 16):
        hits = np.nonzero(raw[r])[0]
        old[r] = padding_val
        old[r, : len(hits)] = hits + index_offset
        old[r, -1] = len(hits)
        before[r] = 0.0 if (error[r] == 0).all() else FREE
    dst.put(old, before)


def sequence_bounds(dst: Tensor, segment_ids: Tensor, name=None) -> None:
    ids = sure(segment_ids)[0]
    count = len(ids)
    first, last = np.full(count, count), np.full(count, -1)
    start = 0
    for k in range(1, count + 1):
        if k == count or ids[k] != ids[k - 1]:
            if ids[start] != 0:
                first[start:k], last[start:k] = start, k
            start = k
    dst.write_integers(np.stack([first, last])[None], np.zeros(dst.shape))


def topk(val_dst: Tensor, idx_dst: Tensor, src: Tensor, n, name=None) -> None:
    # Results go as the elements do, down 16 partitions (nki-library 2.32, experimental/topk/gpsimd_topk.py).
    raw, error = raw_of(src)
    (values, value_error), (ids, id_error) = raw_of(val_dst), raw_of(idx_dst)
    k = val_dst.free
    for g in range(0, len(raw), 16):
        flat = raw[g : g + 16].T.reshape(-1)[:n].astype(float)
        order = np.argsort(flat, kind="stable")[-k:]
        spoilt_ = (error[g : g + 16] != 0).any() or np.isnan(flat).any()
        for j, e in enumerate(order):
            at = g + j % 16, j // 16
            values[at], ids[at] = flat[e], e
            value_error[at] = FREE if spoilt_ else 1e-45 if flat[e] == 0 else 0.0
            id_error[at] = FREE if spoilt_ or (flat == flat[e]).sum() > 1 else 0.0
    val_dst.put(values, value_error)
    idx_dst.put(ids, id_error)


# -- registers and random numbers ----------------------------------------------------------------------------------


def register_alloc(x: int | None = None) -> Register:
    return Register(x)


def register_move(dst: Register, src) -> None:
    dst.value = src.value if isinstance(src, Register) else src


def register_load(dst: Register, src: Tensor) -> None:
    sure(src)
    dst.value = number(src)


def register_store(dst: Tensor, src: Register) -> None:
    assert src.value is not None
    dst.write_integers(np.full(dst.shape, src.value), np.zeros(dst.shape))


def scalar_load(src: Tensor) -> Scalar:
    sure(src)
    return Scalar(number(src))


def scalar_store(dst: Tensor, value: Scalar) -> None:
    dst.write_integers(np.full(dst.shape, value.value), np.zeros(dst.shape))


def _open(dst: Tensor) -> None:
    dst.put(np.zeros(dst.shape, dst.dtype.np), np.full(dst.shape, FREE))


def rng(dst: Tensor, engine="vector", name=None) -> None:
    core().states.pop(engine, None)
    _open(dst)


def rand2(dst: Tensor, min, max, name=None) -> None:
    core().states.pop("vector", None)
    _open(dst)


def dropout(dst: Tensor, data: Tensor, prob, name=None) -> None:
    core().states.pop("vector", None)
    raw, error = raw_of(data)
    p = scalar(prob, data.shape[0])
    keep, drop = (p.v <= 0) & ~p.dirty, (p.v >= 1) & ~p.dirty
    dst.put(
        np.where(drop, np.zeros(raw.shape, raw.dtype), raw),
        np.where(keep, error, np.where(drop, 0.0, FREE)),
    )


def set_rng_seed(src_seeds: Tensor, name=None) -> None:
    core().states.pop("vector", None)


def rand_set_state(src_seeds: Tensor, engine="gpsimd", name=None) -> None:
    core().states[engine] = (src_seeds.start, *raw_of(src_seeds))


def rand_get_state(dst: Tensor, engine="gpsimd", name=None) -> None:
    held = core().states.get(engine)
    if held is None or (held[0], held[1].shape) != (dst.start, (dst.shape[0], dst.free)):
        _open(dst)
    else:
        dst.put(held[1], held[2])
