"""Random legal copies, transposes and gathers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.reference.recipes import (
    NUMBERS,
    dtype,
    flag,
    free,
    free_of,
    hbm,
    maybe,
    mem,
    recipe,
    rows,
)
from tests.reference.writing import FLOATS, INTEGERS, ROWS, Handle, Writer, choice, op


@recipe(weight=4)
def dma_copy(w: Writer) -> None:
    p, f, kind = rows(w), free(w), dtype(w)
    if kind == "tfloat32":
        kind = "float32"
    other = kind if w.pick.random() < 0.6 else dtype(w).replace("tfloat32", "float32")
    way = w.pick.random()
    if way < 0.4:
        src, dst = hbm(w, kind, (p, *f), True), w.write(p, f, other)
    elif way < 0.7:
        src = w.read(p, f, kind)
        dst = hbm(w, other, (p, *f), False)
    else:
        src = w.read(p, f, kind)
        dst = w.write(p, f, other, avoid=(src,))
    w.call("dma_copy", dst=dst, src=src)


@recipe(3, 4)
def dma_copy_rows(w: Writer) -> None:
    """Gather or scatter rows of HBM by a vector of indices, some of them out of range and skipped."""
    p, f, kind = (
        w.pick.choice((2, 16, 32, 64, 128)),
        w.pick.choice((1, 4, 8, 12)),
        dtype(w).replace("tfloat32", "float32"),
    )
    high, skip = w.pick.choice((p, ROWS)), w.pick.random() < 0.4
    scatter = w.pick.random() < 0.5
    values = w.numbers.permutation(high)[:p] if scatter else w.numbers.integers(0, high, p)
    if skip:
        far = w.numbers.integers(high, 2 * high, p) if w.pick.random() < 0.7 else np.full(p, high)
        values = np.where(w.numbers.random(p) < 0.3, far, values)
    index = w.index(values.reshape(p, 1), w.pick.choice(("int32", "uint32")))
    tensor = w.array((high, f), kind, w.pick.choice(("private_hbm", "shared_hbm")), "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{high}, 0:{f}]"))
    if w.pick.random() < 0.5:
        view = Handle(f"{tensor}.vector_select(0, {index})", tensor.t.vector_select(0, index.t))
    else:
        first = w.pick.randint(0, f - 1)
        form = [[f, p], [1, f - first]]
        view = Handle(
            f"{tensor}.ap(pattern={form}, offset={first}, vector_offset={index}, indirect_dim=0)",
            tensor.t.ap(form, first, vector_offset=index.t, indirect_dim=0),
        )
    how = choice("oob_mode", "skip") if skip else ...
    if scatter:
        w.call("dma_copy", dst=view, src=w.read(p, view.t.shape[1], kind), oob_mode=how)
    else:
        dst = w.write(p, view.t.shape[1], kind)
        if skip and not w.clean(dst.t):
            w.fill(
                Handle(
                    dst.text.split("[")[0].split(".")[0],
                    w.env[dst.text.split("[")[0].split(".")[0]],
                )
            )
        w.call("dma_copy", dst=dst, src=view, oob_mode=how)


@recipe(weight=3)
def dma_copy_register(w: Writer) -> None:
    """Copy a part of HBM that a register or a tile of one number selects."""
    p, f, kind = (
        w.pick.choice((1, 3, 16, 32)),
        w.pick.choice((1, 4, 8)),
        dtype(w).replace("tfloat32", "float32"),
    )
    by = (
        w.register(3)
        if w.pick.random() < 0.6
        else w.index(w.numbers.integers(0, 4, (1, 1)), "int32")
    )
    tensor = w.array((4 * p, f), kind, w.pick.choice(("private_hbm", "shared_hbm")), "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{4 * p}, 0:{f}]"))
    way = w.pick.random()
    if way < 0.4 and not isinstance(by.t, type(w.env.get("none"))):
        whole = tensor.then(f".reshape((4, {p}, {f}))")
        view = Handle(
            f"{whole}.ap(pattern=[[{f}, {p}], [1, {f}]], scalar_offset={by}, indirect_dim=0)",
            tensor.t.ap([[f, p], [1, f]], scalar_offset=by.t, indirect_dim=0),
        )
        view = Handle(
            f"{tensor}.ap(pattern=[[{f}, {p}], [1, {f}]], scalar_offset={by}, indirect_dim=0)",
            view.t,
        )
    elif way < 0.7 and by.text[0] != "r":
        view = Handle(
            f"{tensor}.reshape((4, {p}, {f})).select(0, {by})",
            tensor.then(f".reshape((4, {p}, {f}))").t.select(0, by.t),
        )
    else:
        view = Handle(f"{tensor}[nl.ds({by}, {p}), :]", tensor.t[w.env["nl"].ds(by.t, p), :])
    if w.pick.random() < 0.5:
        w.call("dma_copy", dst=view, src=w.read(p, f, kind))
    else:
        w.call("dma_copy", dst=w.write(p, f, kind), src=view)


@recipe(weight=3)
def tensor_copy(w: Writer) -> None:
    p, f, kind = rows(w), free(w), w.pick.choice((*FLOATS, *INTEGERS, "bool_"))
    src = w.read(p, f, kind, mem(w))
    w.call(
        "tensor_copy",
        dst=w.write(p, free_of(w, f), kind if w.pick.random() < 0.5 else dtype(w), mem(w), (src,)),
        src=src,
    )


@recipe()
def tensor_copy_bits(w: Writer) -> None:
    """Copy a view of another type."""
    p = rows(w)
    kind, other = w.pick.choice(
        (
            ("float32", "int32"),
            ("bfloat16", "uint16"),
            ("uint8", "float8_e4m3"),
            ("int32", "float32"),
            ("float32", "bfloat16"),
            ("int16", "int32"),
            ("uint32", "uint8"),
        )
    )
    src = w.read(p, 8, kind, plain=True).then(f".view(nl.{other})")
    w.call("tensor_copy", dst=w.write(p, src.t.shape[1], other, avoid=(src,)), src=src)


@recipe()
def memset(w: Writer) -> None:
    kind = w.pick.choice((*FLOATS, *INTEGERS))
    value = (
        w.pick.choice((0, 1, 3, 7))
        if kind in INTEGERS
        else w.pick.choice((*NUMBERS, -0.0, 1e30, 2.0**-30))
    )
    if kind.startswith("float8") and abs(value) > 200:
        value = 1.0
    w.call("memset", dst=w.write(rows(w), free(w), kind, mem(w)), value=value)


@recipe()
def tensor_copy_predicated(w: Writer) -> None:
    p, f, kind = rows(w), free(w), dtype(w)
    size = math.prod(f)
    mask = w.index(
        w.numbers.integers(0, 2, (p, size)) * w.pick.choice((1, 3)),
        w.pick.choice(("uint8", "uint16", "uint32")),
    )
    src: Any = (
        w.read(p, f, kind) if w.pick.random() < 0.7 or kind in INTEGERS else w.pick.choice(NUMBERS)
    )
    tile = w.array((p, size), kind)
    w.fill(tile)
    w.call("tensor_copy_predicated", dst=tile, src=src, predicate=mask, reverse_pred=flag(w))


@recipe()
def nc_transpose(w: Writer) -> None:
    p, f = w.pick.choice((1, 8, 16, 32, 32, 64, 128)), w.pick.choice((1, 3, 8, 16, 24, 32))
    vector = p <= 32 and w.pick.random() < 0.6
    kind = w.pick.choice(
        ("float32", "bfloat16", "int32") if vector else ("float32", "bfloat16", "float16")
    )
    data = w.read(p, f, kind, style="tame" if not vector and w.chip == 2 else None)
    if vector:
        w.call(
            "nc_transpose",
            dst=w.write(f, p, kind, avoid=(data,)),
            data=data,
            engine=choice("engine", "vector"),
        )
    else:
        w.call("nc_transpose", dst=w.array((f, p), kind, "psum"), data=data)


@recipe()
def dma_transpose(w: Writer) -> None:
    kind, many = (
        w.pick.choice(("bfloat16", "float16", "uint16", "int32", "float32")),
        w.pick.random(),
    )
    if many < 0.6:
        a, b = w.pick.choice((16, 32, 3, 64)), w.pick.choice((1, 4, 16, 32))
        src = (
            hbm(w, kind, (a, b), True) if w.pick.random() < 0.5 else w.read(a, b, kind, plain=True)
        )
        w.call(
            "dma_transpose",
            dst=w.write(b, a, kind, avoid=(src,), plain=True),
            src=src,
            axes=maybe(w, (1, 0)),
        )
    elif many < 0.8:
        a, b, c = w.pick.choice((1, 2, 4, 8)), w.pick.choice((2, 4)), w.pick.choice((3, 8))
        src = w.read(a, (b, c), kind, plain=True)
        w.call("dma_transpose", dst=w.array((c, b, a), kind), src=src)
        w.tiles.pop()
    else:
        a, b, c, d = 2, w.pick.choice((1, 3)), 2, w.pick.choice((4, 6))
        src = w.read(a, (b, c, d), kind, plain=True)
        w.call("dma_transpose", dst=w.array((d, b, c, a), kind), src=src, axes=(3, 1, 2, 0))


@recipe(3)
def dma_transpose_rows(w: Writer) -> None:
    kind, p, f = (
        w.pick.choice(("bfloat16", "float16", "int16")),
        w.pick.choice((16, 32, 64)),
        w.pick.choice((4, 16, 32)),
    )
    tensor = w.array((ROWS, f), kind, "private_hbm", "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{ROWS}, 0:{f}]"))
    index = w.index(w.numbers.integers(0, ROWS, (p, 1)), "uint32")
    form = [[f, p], [1, f]]
    src = Handle(
        f"{tensor}.ap(pattern={form}, vector_offset={index}, indirect_dim=0)",
        tensor.t.ap(form, vector_offset=index.t),
    )
    w.call("dma_transpose", dst=w.array((f, p), kind), src=src, axes=(1, 0))


@recipe()
def dma_compute(w: Writer) -> None:
    p, f = rows(w), (math.prod(free(w)),)
    kinds = [dtype(w).replace("tfloat32", "float32") for _ in range(w.pick.choice((1, 2, 2, 3, 5)))]
    srcs = [hbm(w, k, (p, *f), True) if w.pick.random() < 0.3 else w.read(p, f, k) for k in kinds]
    dst = w.write(p, f, dtype(w).replace("tfloat32", "float32"), avoid=tuple(srcs))
    w.call(
        "dma_compute", dst=dst, srcs=srcs, reduce_op=op("add"), scales=maybe(w, [1.0] * len(srcs))
    )


@recipe(3, 3)
def dma_compute_rows(w: Writer) -> None:
    """Add to rows of HBM, or rows of HBM to a tile."""
    kind, p, f = (
        w.pick.choice(("float32", "bfloat16", "int32")),
        w.pick.choice((4, 16, 32, 128)),
        w.pick.choice((1, 4, 12)),
    )
    tensor = w.array((ROWS, f), kind, "shared_hbm", "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{ROWS}, 0:{f}]"))
    values, skip = w.numbers.permutation(ROWS)[:p], w.pick.random() < 0.3
    if skip:
        values = np.where(w.numbers.random(p) < 0.3, ROWS + np.arange(p), values)
    index = w.index(values.reshape(p, 1), w.pick.choice(("int32", "uint32")))
    view = Handle(
        f"{tensor}.ap(pattern=[[{f}, {p}], [1, {f}]], vector_offset={index}, indirect_dim=0)",
        tensor.t.ap([[f, p], [1, f]], vector_offset=index.t),
    )
    tile = w.array((p, f), kind)
    w.fill(tile)
    srcs = [view, tile] if w.pick.random() < 0.5 else [tile, view]
    dst = w.pick.choice((view, tile))
    w.call(
        "dma_compute",
        dst=dst,
        srcs=srcs,
        reduce_op=op("add"),
        oob_mode=choice("oob_mode", "skip") if skip else ...,
    )


@recipe()
def nc_stream_shuffle(w: Writer) -> None:
    p, f, kind = w.pick.choice((32, 64, 128)), w.pick.choice((1, 4, 8)), dtype(w)
    src = w.read(p, f, kind, plain=True)
    mask = [w.pick.choice((k, 255, w.pick.randrange(32))) for k in range(32)]
    tile = w.array((p, f), kind)
    w.fill(tile)
    w.call("nc_stream_shuffle", dst=tile, src=src, shuffle_mask=mask)


@recipe()
def local_gather(w: Writer) -> None:
    p, k, each = (
        w.pick.choice((16, 32, 64, 128)),
        w.pick.choice((1, 2)),
        w.pick.choice((1, 1, 2, 4)),
    )
    kind = dtype(w)
    src = w.read(p, 20, kind)
    ids = w.numbers.integers(0, 20 // each - 1, (p, k)) * each
    valid = w.pick.choice((16 * k, 16 * k, 16 * k - 5))
    dst = w.write(
        p, valid * each if valid == 16 * k else 16 * k * each, kind, avoid=(src,), plain=True
    )
    if valid != 16 * k:
        dst = w.array((p, valid * each), kind)
    w.call(
        "local_gather",
        dst=dst,
        src_buffer=src,
        index=w.index(ids, "uint16"),
        num_elem_per_idx=each if each > 1 else ...,
        num_valid_indices=valid if valid != 16 * k else ...,
    )


@recipe()
def nc_n_gather(w: Writer) -> None:
    p, kind, count = rows(w), dtype(w), w.pick.choice((1, 3, 8, 16))
    data = w.read(p, free(w, 4), kind)
    index = w.index(w.numbers.integers(0, data.t.free, (p, count)), "uint32")
    w.call("nc_n_gather", dst=w.write(p, count, kind, avoid=(data,)), data=data, indices=index)
