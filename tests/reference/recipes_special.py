"""Random legal matrix products, statistics, searches and random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.reference.numbers import TYPES
from tests.reference.recipes import (
    ARITHMETIC,
    NUMBERS,
    dtype,
    free,
    fresh,
    maybe,
    mem,
    recipe,
    rows,
)
from tests.reference.tensors import Scalar
from tests.reference.writing import COLUMNS, INTEGERS, Handle, Writer, choice, op


@recipe(weight=6)
def nc_matmul(w: Writer) -> None:
    k, m, c = (
        w.pick.choice((1, 3, 16, 32, 64, 100, 128)),
        w.pick.choice((1, 2, 8, 16, 32)),
        w.pick.choice((1, 4, 8, 20)),
    )
    kinds = (
        ("float32", "float32")
        if w.pick.random() < 0.4
        else tuple(
            w.pick.choice(
                ("bfloat16", "float16", "float8_e5m2", *(("float8_e4m3",) if w.chip > 2 else ()))
            )
            for _ in range(2)
        )
    )
    out = "bfloat16" if w.chip == 4 and w.pick.random() < 0.3 else "float32"
    double = w.chip > 2 and w.pick.random() < 0.15
    if double:
        kinds = ("float8_e4m3", "float8_e5m2")
    wide = w.array((m, c), out, "psum")
    dst = wide
    first = w.pick.choice((None, False))
    for turn in range(w.pick.choice((1, 1, 2, 3))):
        s = w.read(
            k,
            (2, m) if double else m,
            kinds[0],
            style=w.pick.choice(("tame", "tame", "wide")),
            plain=double,
        )
        x = w.read(
            k,
            (2, c) if double else c,
            kinds[1],
            style=w.pick.choice(("tame", "tame", "wide")),
            plain=double,
        )
        dst = wide
        if turn and c > 2 and first is None and w.pick.random() < 0.3:
            part = w.pick.randint(1, c - 1)
            dst, x = (
                wide.then(f"[0:{m}, 0:{part}]"),
                w.read(k, (2, part) if double else part, kinds[1], style="tame", plain=double),
            )
        tiles: dict[str, Any] = {}
        if not double and k <= 64 and m <= 64 and w.pick.random() < 0.15:
            tiles = {"tile_position": (0, 0), "tile_size": (64, 64)}
        accumulate: Any = (None if turn else ...) if first is None else turn > 0
        w.call(
            "nc_matmul",
            dst=dst,
            stationary=s,
            moving=x,
            accumulate=accumulate,
            perf_mode=choice("matmul_perf_mode", "double_row") if double else ...,
            **tiles,
        )


def _scales(w: Writer, p: int, f: int, kind: str) -> Handle:
    """Return a tile for scales; up to four tensors share one, 4 partitions apart."""
    apart = w.pick.choice((0, 0, 4, 8, 12))
    tile = w.array((p // 8 + apart if p <= 32 else p, f), kind)
    if w.pick.random() < 0.7:  # what is not written stays
        w.fill(tile)
    return tile.then(f"[{apart}:{tile.t.shape[0]}, 0:{f}]") if apart else tile


@recipe(4, 4)
def nc_matmul_mx(w: Writer) -> None:
    k, m, c = w.pick.choice((32, 64, 96, 128)), w.pick.choice((2, 8, 16)), w.pick.choice((1, 4, 9))
    out = w.array((m, c), w.pick.choice(("float32", "bfloat16")), "psum")
    for turn in range(w.pick.choice((1, 1, 2))):
        parts: list[Handle] = []
        scale = w.pick.choice(("uint8", "float8_e8m0fnu"))
        for size in (m, c):
            if w.pick.random() < 0.3:  # what quantize_mx makes
                src = (
                    fresh(w, k, (4 * size,), w.pick.choice(("bfloat16", "float16")))
                    if 4 * size <= COLUMNS
                    else None
                )
                if src is not None:
                    parts += [
                        w.array((k, size), w.pick.choice(("float8_e5m2_x4", "float8_e4m3fn_x4"))),
                        _scales(w, k, size, scale),
                    ]
                    w.call("quantize_mx", dst=parts[-2], src=src, dst_scale=parts[-1])
                    continue
            parts.append(
                fresh(
                    w,
                    k,
                    (size,),
                    w.pick.choice(("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4")),
                )
            )
            tile = _scales(w, k, size, scale)
            raw = w.numbers.integers(121, 133, tile.t.shape).astype(np.uint8)
            w.call("dma_copy", dst=tile, src=w.given(scale, raw.view(TYPES[scale].np)))
            parts.append(tile)
        w.call(
            "nc_matmul_mx",
            dst=out,
            stationary=parts[0],
            moving=parts[2],
            stationary_scale=parts[1],
            moving_scale=parts[3],
            accumulate=maybe(w, turn > 0),
        )


@recipe(4, 4)
def quantize_mx(w: Writer) -> None:
    p, f = w.pick.choice((32, 64, 96, 128)), w.pick.choice((4, 8, 16))
    src = fresh(w, p, (f,), w.pick.choice(("bfloat16", "float16")))
    dst = w.array((p, f // 4), w.pick.choice(("float8_e5m2_x4", "float8_e4m3fn_x4")))
    w.call(
        "quantize_mx",
        dst=dst,
        src=src,
        dst_scale=_scales(w, p, f // 4, w.pick.choice(("uint8", "float8_e8m0fnu"))),
    )


# -- statistics and search -----------------------------------------------------------------------------------------


@recipe()
def bn_stats(w: Writer) -> None:
    p, parts = rows(w), w.pick.choice((1, 2))
    stats = w.array((p, 6 * parts), "float32")
    for k in range(parts):
        w.call(
            "bn_stats",
            dst=stats.then(f"[0:{p}, {6 * k}:{6 * k + 6}]"),
            data=w.read(p, free(w), dtype(w, True), mem(w)),
        )


@recipe()
def bn_aggr(w: Writer) -> None:
    p, parts = rows(w), w.pick.choice((1, 2, 4))
    values = np.stack(
        [
            w.numbers.integers(1, 9, (p, parts)),
            w.numbers.standard_normal((p, parts)),
            w.numbers.random((p, parts)) * 5,
        ],
        2,
    )
    stats = w.index(values.reshape(p, -1), "float32")
    w.call("bn_aggr", dst=w.write(p, 2, w.pick.choice(("float32", "bfloat16"))), data=stats)


@recipe(weight=3)
def max8(w: Writer) -> None:
    """Search for the largest values, where they are, and replace them."""
    p = rows(w)
    data = w.read(p, w.pick.choice(((8,), (16,), (2, 10))), dtype(w), mem(w))
    vals = w.array((p, 8), "float32")
    w.call("max8", dst=vals, src=data)
    if w.pick.random() < 0.6:
        w.call(
            "nc_find_index8",
            dst=w.write(p, 8, w.pick.choice(("uint32", "uint16")), avoid=(data,)),
            data=data,
            vals=vals,
        )
    if w.pick.random() < 0.6:
        index = (
            w.array((p, 8), w.pick.choice(("uint32", "uint16"))) if w.pick.random() < 0.7 else ...
        )
        dst = w.write(p, data.t.shape[1:], "float32", avoid=(data, vals))
        w.call("nc_match_replace8", dst=dst, data=data, vals=vals, imm=-1e30, dst_idx=index)


@recipe()
def nc_find_index8(w: Writer) -> None:
    p, kind = rows(w), dtype(w)
    data, vals = (
        w.read(p, w.pick.choice((8, 16, 20)), kind, style="tame"),
        w.read(p, 8, "float32", style="tame"),
    )
    w.call("nc_find_index8", dst=w.write(p, 8, "uint32"), data=data, vals=vals)


@recipe(3)
def nonzero_with_count(w: Writer) -> None:
    p, f = rows(w), w.pick.choice((1, 4, 8))
    src = w.index(w.numbers.integers(-1, 2, (p, f)), w.pick.choice(("int32", "float32")))
    tile = w.array((p, f + 1), "int32")
    w.fill(tile)
    w.call(
        "nonzero_with_count",
        dst=tile,
        src=src,
        index_offset=w.pick.choice((..., 16)),
        padding_val=w.pick.choice((..., -7)),
    )


@recipe()
def topk(w: Writer) -> None:
    p, count = w.pick.choice((16, 32, 128)), w.pick.choice((8, 16, 30, 42))
    k = w.pick.choice((1, 5, 8))
    src = w.read(p, -(-count // 16), "bfloat16", plain=True)
    w.call(
        "topk",
        val_dst=fresh(w, p, (k,), "bfloat16"),
        idx_dst=fresh(w, p, (k,), "uint32"),
        src=src,
        n=count,
    )


@recipe()
def sequence_bounds(w: Writer) -> None:
    ids = np.repeat(np.arange(6) * w.numbers.integers(0, 2, 6), w.numbers.integers(1, 5, 6))
    kind = w.pick.choice(("int32", "float32"))
    dst = w.array((1, 2, len(ids)), kind)
    w.call("sequence_bounds", dst=dst, segment_ids=w.index(ids[None], kind))


# -- random numbers ------------------------------------------------------------------------------------------------


def _two(
    w: Writer, draw: Callable[[Handle], None], p: int, f: int, kind: str, seed: Callable[[], None]
) -> None:
    made = []
    for _ in range(2):
        seed()
        dst = w.array((p, f), kind)
        w.tiles.pop()
        draw(dst)
        made.append(w.result(dst))
    w.program.equal.append((made[0], made[1]))


@recipe()
def set_rng_seed(w: Writer) -> None:
    p, f, kind = rows(w), w.pick.choice((1, 5, 8)), w.pick.choice(INTEGERS)
    seed = w.index(w.numbers.integers(0, 2**31, (1, 1)), w.pick.choice(("int32", "uint32")))
    _two(
        w,
        lambda dst: w.call("rng", dst=dst),
        p,
        f,
        kind,
        lambda: w.call("set_rng_seed", src_seeds=seed),
    )


@recipe(3)
def rand_set_state(w: Writer) -> None:
    engine = w.pick.choice(("gpsimd", "vector")) if w.chip == 4 else "gpsimd"
    p, words = 128, 24 if engine == "vector" else 6
    state = w.index(w.numbers.integers(1, 2**32, (p, words), dtype=np.uint64), "uint32")
    given: Any = ... if engine == "gpsimd" and w.pick.random() < 0.5 else choice("engine", engine)
    w.call("rand_set_state", src_seeds=state, engine=given)
    back = w.array((p, words), "uint32")
    w.call("rand_get_state", dst=back, engine=given)
    w.tiles.append(back)
    _two(
        w,
        lambda dst: w.call("rng", dst=dst, engine=choice("engine", engine)),
        p,
        4,
        "uint16",
        lambda: w.call("rand_set_state", src_seeds=state, engine=given),
    )


@recipe(4)
def rand2(w: Writer) -> None:
    low = w.pick.choice((0.0, -2.0, 5.0))
    high = low + w.pick.choice((1.0, 0.25, 100.0))
    dst = w.array((rows(w), 8), w.pick.choice(("float32", "bfloat16", "int16")))
    w.tiles.pop()
    w.call("rand2", dst=dst, min=low, max=high)
    name = w.result(dst)
    w.program.between.append(
        (
            name,
            math.floor(low) if dst.t.dtype.kind == "i" else low,
            math.ceil(high) if dst.t.dtype.kind == "i" else high,
        )
    )


@recipe()
def dropout(w: Writer) -> None:
    p, f, kind = rows(w), math.prod(free(w)), dtype(w)
    data = w.read(p, f, kind, plain=True)
    prob = w.pick.choice((0.0, 1.0, 0.5))
    w.call("dropout", dst=w.write(p, f, kind, avoid=(data,)), data=data, prob=prob)


# -- registers, gathers of elements --------------------------------------------------------------------------------


@recipe()
def register_store(w: Writer) -> None:
    r = w.register(100)
    w.registers.remove(r)
    if w.pick.random() < 0.5:
        w.call("register_move", dst=r, src=w.pick.randint(-50, 50))
    w.call(
        "register_store",
        dst=w.array(
            (1, 1), w.pick.choice(("int32", "uint32", "int16")) if r.t.value >= 0 else "int32"
        ),
        src=r,
    )


@recipe()
def scalars(w: Writer) -> None:
    """Compute with a scalar that a tile holds, past 32 bits too, and store it."""
    value, most = w.pick.randint(-9, 9), w.pick.choice((9, 2**31 - 1))
    tile, name = w.index(np.array([[value]]), "int32"), w.name("s")
    a, b = (w.pick.randint(-most, most) for _ in range(2))
    text = w.pick.choice(("{s} * {a} + {b}", "{a} - {s} * {b}", "{s} * {s} * {s} - {a}"))
    w.line(f"{name} = nisa.scalar_load({tile.text})")
    scalar = Scalar(value)
    w.line(f"{name} = {text.format(s=name, a=a, b=b)}")
    result = eval(text.format(s="scalar", a=a, b=b), {"scalar": scalar})
    w.env[name] = result
    w.call("scalar_store", dst=w.array((1, 1), "int32"), value=Handle(name, result))


@recipe(4, 3)
def indirect(w: Writer) -> None:
    """Gather elements of a tile by offsets, as an operand."""
    p, count = w.pick.choice((16, 32, 64, 128)), w.pick.choice((4, 16, 20))
    tile = w.array((p, 20), w.pick.choice(("float32", "bfloat16")))
    w.fill(tile)
    index = w.index(
        w.numbers.integers(0, 20, (p, -(-count // 16))), w.pick.choice(("uint16", "uint32"))
    )
    view = Handle(f"{tile}.indirect({index}, {count})", tile.t.indirect(index.t, count))
    dst = w.array((p, count), w.pick.choice(("float32", "bfloat16")))
    if w.pick.random() < 0.5:
        w.call("tensor_copy", dst=dst, src=view)
    else:
        w.call(
            "tensor_scalar",
            dst=dst,
            data=view,
            op0=op(w.pick.choice(ARITHMETIC)),
            operand0=w.pick.choice(NUMBERS),
        )
