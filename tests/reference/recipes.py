"""Random legal uses of each instruction: one function each, named as the instruction, with the chips that have it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.reference import numbers as n
from tests.reference.numbers import TYPES
from tests.reference.tensors import Refused
from tests.reference.writing import FLOATS, INTEGERS, ROWS, Handle, Name, Writer, choice, op

Recipe = Callable[[Writer], None]
RECIPES: dict[str, tuple[Recipe, int, int]] = {}  # name -> (function, first chip, weight)
_ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
_ANY = (*_ARITHMETIC, *_ARITHMETIC, *n.COMPARES, *n.LOGICAL)
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
_NUMBERS = (0.0, 1.0, -1.0, 0.5, -1.5, 2.0, 3.25, 1e-3, 100.0)
_ROWS = (1, 2, 16, 31, 32, 32, 64, 65, 100, 128)


def recipe(chip: int = 2, weight: int = 2) -> Callable[[Recipe], Recipe]:
    def keep(f: Recipe) -> Recipe:
        RECIPES[f.__name__] = f, chip, weight
        return f

    return keep


def rows(w: Writer) -> int:
    return w.pick.choice(_ROWS)


def free(w: Writer, least: int = 1) -> tuple[int, ...]:
    size = w.pick.choice([k for k in (1, 2, 3, 4, 6, 8, 12, 16, 20) if k >= least])
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
        return w.pick.choice(_NUMBERS)
    return w.read(p, 1, "float32", plain=True)


def flag(w: Writer) -> Any:
    return True if w.pick.random() < 0.3 else ...


def maybe(w: Writer, value: Any, share: float = 0.3) -> Any:
    return value if w.pick.random() < share else ...


# -- copies --------------------------------------------------------------------------------------------------------


def _hbm(w: Writer, kind: str, shape: tuple[int, ...], reading: bool) -> Handle:
    """Return a view of HBM: an argument, or a tensor of the kernel."""
    if reading and w.pick.random() < 0.7:
        source = w.source(kind)
        p, f = shape[0], math.prod(shape[1:])
        a, b = w.pick.randint(0, ROWS - p), w.pick.randint(0, 40 - f)
        view = source.then(f"[{a}:{a + p}, {b}:{b + f}]")
        return view.then(f".reshape({shape})") if len(shape) > 2 and f == 40 else view
    more = w.pick.choice((0, 0, 4))
    tensor = w.array((shape[0] + more, math.prod(shape[1:]) + more), kind, w.pick.choice(("private_hbm", "shared_hbm")), "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{shape[0] + more}, 0:{tensor.t.shape[1]}]"))
    a, b = w.pick.choice((0, more)), w.pick.choice((0, more))
    return tensor.then(f"[{a}:{a + shape[0]}, {b}:{b + tensor.t.shape[1] - more}]")


@recipe(weight=4)
def dma_copy(w: Writer) -> None:
    p, f, kind = rows(w), free(w), dtype(w)
    if kind == "tfloat32":
        kind = "float32"
    other = kind if w.pick.random() < 0.6 else dtype(w).replace("tfloat32", "float32")
    way = w.pick.random()
    if way < 0.4:
        src, dst = _hbm(w, kind, (p, *f), True), w.write(p, f, other)
    elif way < 0.7:
        src = w.read(p, f, kind)
        dst = _hbm(w, other, (p, *f), False)
    else:
        src = w.read(p, f, kind)
        dst = w.write(p, f, other, avoid=(src,))
    w.call("dma_copy", dst=dst, src=src)


@recipe(weight=4)
def dma_copy_rows(w: Writer) -> None:
    """Gather or scatter rows of HBM by a vector of indices, some of them out of range and skipped."""
    p, f, kind = w.pick.choice((2, 16, 32, 64, 128)), w.pick.choice((1, 4, 8, 12)), dtype(w).replace("tfloat32", "float32")
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
            w.fill(Handle(dst.text.split("[")[0].split(".")[0], w.env[dst.text.split("[")[0].split(".")[0]]))
        w.call("dma_copy", dst=dst, src=view, oob_mode=how)


@recipe(weight=3)
def dma_copy_register(w: Writer) -> None:
    """Copy a part of HBM that a register or a tile of one number selects."""
    p, f, kind = w.pick.choice((1, 3, 16, 32)), w.pick.choice((1, 4, 8)), dtype(w).replace("tfloat32", "float32")
    by = w.register(3) if w.pick.random() < 0.6 else w.index(w.numbers.integers(0, 4, (1, 1)), "int32")
    tensor = w.array((4 * p, f), kind, w.pick.choice(("private_hbm", "shared_hbm")), "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{4 * p}, 0:{f}]"))
    way = w.pick.random()
    if way < 0.4 and not isinstance(by.t, type(w.env.get("none"))):
        whole = tensor.then(f".reshape((4, {p}, {f}))")
        view = Handle(f"{whole}.ap(pattern=[[{f}, {p}], [1, {f}]], scalar_offset={by}, indirect_dim=0)", tensor.t.ap([[f, p], [1, f]], scalar_offset=by.t, indirect_dim=0))
        view = Handle(f"{tensor}.ap(pattern=[[{f}, {p}], [1, {f}]], scalar_offset={by}, indirect_dim=0)", view.t)
    elif way < 0.7 and by.text[0] != "r":
        view = Handle(f"{tensor}.reshape((4, {p}, {f})).select(0, {by})", tensor.then(f".reshape((4, {p}, {f}))").t.select(0, by.t))
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
    w.call("tensor_copy", dst=w.write(p, free_of(w, f), kind if w.pick.random() < 0.5 else dtype(w), mem(w), (src,)), src=src)


def free_of(w: Writer, f: tuple[int, ...]) -> tuple[int, ...]:
    """Return another shape of the same size, sometimes."""
    return (math.prod(f),) if w.pick.random() < 0.2 else f


@recipe()
def tensor_copy_bits(w: Writer) -> None:
    """Copy a view of another type."""
    p = rows(w)
    kind, other = w.pick.choice((("float32", "int32"), ("bfloat16", "uint16"), ("uint8", "float8_e4m3"), ("int32", "float32"), ("float32", "bfloat16"), ("int16", "int32"), ("uint32", "uint8")))
    src = w.read(p, 8, kind, plain=True).then(f".view(nl.{other})")
    w.call("tensor_copy", dst=w.write(p, src.t.shape[1], other, avoid=(src,)), src=src)


@recipe()
def memset(w: Writer) -> None:
    kind = w.pick.choice((*FLOATS, *INTEGERS))
    value = w.pick.choice((0, 1, 3, 7)) if kind in INTEGERS else w.pick.choice((*_NUMBERS, -0.0, 1e30, 2.0**-30))
    if kind.startswith("float8") and abs(value) > 200:
        value = 1.0
    w.call("memset", dst=w.write(rows(w), free(w), kind, mem(w)), value=value)


@recipe()
def tensor_copy_predicated(w: Writer) -> None:
    p, f, kind = rows(w), free(w), dtype(w)
    size = math.prod(f)
    mask = w.index(w.numbers.integers(0, 2, (p, size)) * w.pick.choice((1, 3)), w.pick.choice(("uint8", "uint16", "uint32")))
    src: Any = w.read(p, f, kind) if w.pick.random() < 0.7 or kind in INTEGERS else w.pick.choice(_NUMBERS)
    tile = w.array((p, size), kind)
    w.fill(tile)
    w.call("tensor_copy_predicated", dst=tile, src=src, predicate=mask, reverse_pred=flag(w))


@recipe()
def nc_transpose(w: Writer) -> None:
    p, f = w.pick.choice((1, 8, 16, 32, 32, 64, 128)), w.pick.choice((1, 3, 8, 16, 24, 32))
    vector = p <= 32 and w.pick.random() < 0.6
    kind = w.pick.choice(("float32", "bfloat16", "int32") if vector else ("float32", "bfloat16", "float16"))
    data = w.read(p, f, kind, style="tame" if not vector and w.chip == 2 else None)
    if vector:
        w.call("nc_transpose", dst=w.write(f, p, kind, avoid=(data,)), data=data, engine=choice("engine", "vector"))
    else:
        w.call("nc_transpose", dst=w.array((f, p), kind, "psum"), data=data)


@recipe()
def dma_transpose(w: Writer) -> None:
    kind, many = w.pick.choice(("bfloat16", "float16", "uint16", "int32", "float32")), w.pick.random()
    if many < 0.6:
        a, b = w.pick.choice((16, 32, 3, 64)), w.pick.choice((1, 4, 16, 32))
        src = _hbm(w, kind, (a, b), True) if w.pick.random() < 0.5 else w.read(a, b, kind, plain=True)
        w.call("dma_transpose", dst=w.write(b, a, kind, avoid=(src,), plain=True), src=src, axes=maybe(w, (1, 0)))
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
    kind, p, f = w.pick.choice(("bfloat16", "float16", "int16")), w.pick.choice((16, 32, 64)), w.pick.choice((4, 16, 32))
    tensor = w.array((ROWS, f), kind, "private_hbm", "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{ROWS}, 0:{f}]"))
    index = w.index(w.numbers.integers(0, ROWS, (p, 1)), "uint32")
    form = [[f, p], [1, f]]
    src = Handle(f"{tensor}.ap(pattern={form}, vector_offset={index}, indirect_dim=0)", tensor.t.ap(form, vector_offset=index.t))
    w.call("dma_transpose", dst=w.array((f, p), kind), src=src, axes=(1, 0))


@recipe()
def dma_compute(w: Writer) -> None:
    p, f = rows(w), (math.prod(free(w)),)
    kinds = [dtype(w).replace("tfloat32", "float32") for _ in range(w.pick.choice((1, 2, 2, 3, 5)))]
    srcs = [_hbm(w, k, (p, *f), True) if w.pick.random() < 0.3 else w.read(p, f, k) for k in kinds]
    dst = w.write(p, f, dtype(w).replace("tfloat32", "float32"), avoid=tuple(srcs))
    w.call("dma_compute", dst=dst, srcs=srcs, reduce_op=op("add"), scales=maybe(w, [1.0] * len(srcs)))


@recipe(weight=3)
def dma_compute_rows(w: Writer) -> None:
    """Add to rows of HBM, or rows of HBM to a tile."""
    kind, p, f = w.pick.choice(("float32", "bfloat16", "int32")), w.pick.choice((4, 16, 32, 128)), w.pick.choice((1, 4, 12))
    tensor = w.array((ROWS, f), kind, "shared_hbm", "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{ROWS}, 0:{f}]"))
    values, skip = w.numbers.permutation(ROWS)[:p], w.pick.random() < 0.3
    if skip:
        values = np.where(w.numbers.random(p) < 0.3, ROWS + np.arange(p), values)
    index = w.index(values.reshape(p, 1), w.pick.choice(("int32", "uint32")))
    view = Handle(f"{tensor}.ap(pattern=[[{f}, {p}], [1, {f}]], vector_offset={index}, indirect_dim=0)", tensor.t.ap([[f, p], [1, f]], vector_offset=index.t))
    tile = w.array((p, f), kind)
    w.fill(tile)
    srcs = [view, tile] if w.pick.random() < 0.5 else [tile, view]
    dst = w.pick.choice((view, tile))
    w.call("dma_compute", dst=dst, srcs=srcs, reduce_op=op("add"), oob_mode=choice("oob_mode", "skip") if skip else ...)


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
    p, k, each = w.pick.choice((16, 32, 64, 128)), w.pick.choice((1, 2)), w.pick.choice((1, 1, 2, 4))
    kind = dtype(w)
    src = w.read(p, 20, kind)
    ids = w.numbers.integers(0, 20 // each - 1, (p, k)) * each
    valid = w.pick.choice((16 * k, 16 * k, 16 * k - 5))
    dst = w.write(p, valid * each if valid == 16 * k else 16 * k * each, kind, avoid=(src,), plain=True)
    if valid != 16 * k:
        dst = w.array((p, valid * each), kind)
    w.call("local_gather", dst=dst, src_buffer=src, index=w.index(ids, "uint16"), num_elem_per_idx=each if each > 1 else ..., num_valid_indices=valid if valid != 16 * k else ...)


@recipe()
def nc_n_gather(w: Writer) -> None:
    p, kind, count = rows(w), dtype(w), w.pick.choice((1, 3, 8, 16))
    data = w.read(p, free(w, 4), kind)
    index = w.index(w.numbers.integers(0, data.t.free, (p, count)), "uint32")
    w.call("nc_n_gather", dst=w.write(p, count, kind, avoid=(data,)), data=data, indices=index)


# -- element by element --------------------------------------------------------------------------------------------


@recipe(weight=4)
def tensor_tensor(w: Writer) -> None:
    p, f, where = rows(w), free(w), mem(w)
    a, b = w.read(p, f, dtype(w), where), w.read(p, f, dtype(w))
    name = w.pick.choice((*_ANY, "power") if where == "sbuf" and w.pick.random() < 0.2 else _ANY)
    if w.chip == 4 and w.pick.random() < 0.1:
        name = w.pick.choice(("abs_max", "abs_min"))
    kind = dtype(w)
    if name == "power":
        b = w.read(p, f, "float32", style="tame")
    dst = w.either(a, b, dtype=kind) if where == "sbuf" else w.write(p, f, kind, mem(w) if name != "power" else "sbuf", (a, b))
    w.call("tensor_tensor", dst=dst, data1=a, data2=b, op=op(name))


@recipe(weight=3)
def tensor_tensor_integers(w: Writer) -> None:
    """Exact arithmetic of 32 bits, and bit patterns."""
    p, f = rows(w), free(w)
    if w.pick.random() < 0.5:
        kinds = [w.pick.choice(("int32", "uint32")) for _ in range(3)] if w.pick.random() < 0.3 else [w.pick.choice(("int32", "uint32"))] * 3
        a, b = w.read(p, f, kinds[0]), w.read(p, f, kinds[1])
        w.call("tensor_tensor", dst=w.either(a, b, dtype=kinds[2]), data1=a, data2=b, op=op(w.pick.choice(_ANY)), engine=maybe(w, choice("engine", "gpsimd"), 0.2))
        return
    kind = w.pick.choice(INTEGERS)
    a = w.read(p, f, kind)
    name = w.pick.choice((*_BITS, "left_shift", "right_shift"))
    b = w.index(w.numbers.integers(0, 8 * TYPES[kind].size, (p, math.prod(f))), kind) if "shift" in name else w.read(p, f, kind)
    w.call("tensor_tensor", dst=w.either(a, b), data1=a, data2=b, op=op(name))


@recipe(weight=4)
def tensor_scalar(w: Writer) -> None:
    p, f = rows(w), free(w)
    data = w.read(p, f, dtype(w), mem(w))
    two = w.pick.random() < 0.5
    first = w.pick.choice((*_ANY, "abs", *(("square", "relu") if w.chip == 4 else ()), "rsqrt" if w.pick.random() < 0.3 else "add"))
    if first == "rsqrt":
        two = False
    x = ... if first in n.UNARY else number(w, p)
    second = w.pick.choice(_ANY)
    y = number(w, p)
    keep = tuple(h for h in (x, y) if isinstance(h, Handle))
    kind = dtype(w)
    in_psum = data.t.buffer == "psum" or first == "rsqrt"
    dst = w.write(p, f, kind, "sbuf" if first == "rsqrt" else mem(w), (data, *keep)) if in_psum else w.either(data, *keep, dtype=kind)
    w.call(
        "tensor_scalar", dst=dst, data=data, op0=op(first), operand0=0.0 if x is ... else x, reverse0=flag(w) if x is not ... else ...,
        op1=op(second) if two else ..., operand1=y if two else ..., reverse1=flag(w) if two else ...,
    )  # fmt: skip


@recipe()
def tensor_scalar_bits(w: Writer) -> None:
    p, f, kind = rows(w), free(w), w.pick.choice(INTEGERS)
    data, width = w.read(p, f, kind), 8 * TYPES[kind].size

    def one() -> tuple[str, int]:
        name = w.pick.choice((*_BITS, "left_shift", "right_shift"))
        return name, w.pick.randrange(width) if "shift" in name else w.pick.choice((1, 5, 0x55, 127))

    (first, x), (second, y) = one(), one()
    two = w.pick.random() < 0.5
    w.call("tensor_scalar", dst=w.either(data), data=data, op0=op(first), operand0=x, op1=op(second) if two else ..., operand1=y if two else ...)


@recipe()
def scalar_tensor_tensor(w: Writer) -> None:
    p, f = rows(w), free(w)
    data, x, other = w.read(p, f, dtype(w)), number(w, p), w.read(p, f, dtype(w), mem(w))
    kind = dtype(w)
    w.call("scalar_tensor_tensor", dst=w.either(data, other, x, dtype=kind), data=data, op0=op(w.pick.choice(_ANY)), operand0=x, op1=op(w.pick.choice(_ANY)), operand1=other, reverse0=flag(w), reverse1=flag(w))


@recipe()
def tensor_tensor_scan(w: Writer) -> None:
    p, f = rows(w), w.pick.choice((1, 2, 5, 8))
    a, b, x = w.read(p, f, dtype(w)), w.read(p, f, dtype(w)), number(w, p)
    w.call("tensor_tensor_scan", dst=w.write(p, f, dtype(w), avoid=(a, b, x)), data0=a, data1=b, initial=x, op0=op(w.pick.choice(_ARITHMETIC)), op1=op(w.pick.choice(_ARITHMETIC)), reverse0=flag(w), reverse1=flag(w))


@recipe()
def reciprocal(w: Writer) -> None:
    data = w.read(rows(w), free(w), dtype(w), mem(w))
    w.call("reciprocal", dst=w.write(data.t.shape[0], data.t.shape[1:], dtype(w, True), avoid=(data,)), data=data)


def _pattern(w: Writer, size: int) -> list[list[int]]:
    step = w.pick.choice((1, -1, 2, 3, 0))
    if size % 2 == 0 and w.pick.random() < 0.5:
        return [[w.pick.choice((5, -3, 1)), size // 2], [step, 2]]
    return [[step, size]]


@recipe()
def iota(w: Writer) -> None:
    p, f = rows(w), free(w)
    w.call("iota", dst=w.write(p, f, dtype(w)), pattern=_pattern(w, math.prod(f)), offset=w.pick.randint(-9, 20), channel_multiplier=w.pick.choice((0, 1, -1, 4)))


@recipe()
def affine_select(w: Writer) -> None:
    p, f, kind = rows(w), free(w), dtype(w)
    x = w.read(p, f, kind)
    out = kind if w.pick.random() < 0.6 else dtype(w)
    w.call("affine_select", dst=w.either(x, dtype=out), pattern=_pattern(w, math.prod(f)), channel_multiplier=w.pick.choice((0, 1, -1)), on_true_tile=x, on_false_value=w.pick.choice((0.0, -5.0, 3.0)), cmp_op=op(w.pick.choice(n.COMPARES)), offset=w.pick.randint(-5, 5))


# -- reductions and accumulators -----------------------------------------------------------------------------------


@recipe(weight=3)
def tensor_reduce(w: Writer) -> None:
    p = rows(w)
    f = w.pick.choice(((8,), (2, 6), (3, 4), (2, 3, 2)))
    count = w.pick.randint(1, len(f))
    axes = tuple(range(len(f) + 1 - count, len(f) + 1))
    if w.pick.random() < 0.25:
        kind = out = w.pick.choice(INTEGERS)
        name, negate = w.pick.choice(_BITS), ...
    else:
        kind, out, name, negate = dtype(w), dtype(w), w.pick.choice(("add", "add", "subtract", "multiply", "maximum", "minimum")), flag(w)
    data = w.read(p, f, kind, mem(w))
    dst = w.write(p, f[: len(f) - count] or (1,), out, avoid=(data,))
    w.call("tensor_reduce", dst=dst, op=op(name), data=data, axis=axes if w.pick.random() < 0.7 or count > 1 else axes[0], negate=negate)


@recipe()
def tensor_partition_reduce(w: Writer) -> None:
    name = w.pick.choice(("add", "average", "max", "bitwise_or", "bitwise_and"))
    kind = w.pick.choice(INTEGERS) if "bit" in name else dtype(w)
    data = w.read(rows(w), free(w), kind)
    w.call("tensor_partition_reduce", dst=w.write(1, data.t.shape[1:], kind if "bit" in name else dtype(w, True), avoid=(data,)), op=op(name), data=data)


def _command(w: Writer, *names: str) -> Name:
    return choice("reduce_cmd", w.pick.choice(names))


def _column(w: Writer, p: int, *avoid: Any, kind: str = "float32") -> Handle:
    return w.write(p, 1, kind, avoid=avoid, plain=True)


def _fresh(w: Writer, p: int, f: tuple[int, ...], kind: str) -> Handle:
    """Return a tile of its own that starts at partition 0: lanes hold accumulators."""
    tile = w.array((p, math.prod(f)), kind)
    w.fill(tile)
    return tile


@recipe()
def tensor_scalar_reduce(w: Writer) -> None:
    p, f = rows(w), free(w)
    name = w.pick.choice(("add", "multiply", "max", "min"))
    for k in range(w.pick.choice((1, 1, 2))):
        data = _fresh(w, p, f, dtype(w))
        x = number(w, p)
        cmd = _command(w, "reset_reduce", "load_reduce") if k == 0 else choice("reduce_cmd", "reduce")
        dst = w.write(p, f, dtype(w), avoid=(data, x))
        init = number(w, p) if cmd.value == "load_reduce" else ...
        w.call(
            "tensor_scalar_reduce", dst=dst, data=data, op0=op(w.pick.choice(_ARITHMETIC)), operand0=x, reduce_op=op(name),
            reduce_res=_column(w, p, data, x, dst, init), reduce_cmd=cmd, reduce_init=init, reduce_res_negate=flag(w),
        )  # fmt: skip


@recipe()
def tensor_scalar_cumulative(w: Writer) -> None:
    p, f, kinds = rows(w), (w.pick.choice((1, 4, 8)),), (*FLOATS[:-1], "uint8", "int16")
    for k in range(w.pick.choice((1, 2))):
        src, x = _fresh(w, p, f, w.pick.choice(kinds)), number(w, p)
        cmd = _command(w, "reset_reduce", "load_reduce") if k == 0 else choice("reduce_cmd", "reduce")
        init = number(w, p) if cmd.value == "load_reduce" else ...
        dst = w.write(p, f, w.pick.choice(kinds), avoid=(src, x, init))
        w.call("tensor_scalar_cumulative", dst=dst, src=src, op0=op(w.pick.choice(_ARITHMETIC)), op1=op(w.pick.choice(_ARITHMETIC)), imm0=x, imm1=init, reduce_cmd=cmd)


@recipe(3)
def range_select(w: Writer) -> None:
    p, f = rows(w), (w.pick.choice((1, 4, 8)),)
    data = w.read(p, f, dtype(w, True).replace("tfloat32", "float32"), plain=True)
    low, high = (w.index(w.numbers.integers(-1, 9, (p, 1)).astype(float), "float32") for _ in range(2))
    names = [k for k in n.COMPARES if k != "not_equal"]
    dst = w.write(p, f, w.pick.choice(("float32", "bfloat16")), avoid=(data,))
    w.call("range_select", dst=dst, on_true_tile=data, comp_op0=op(w.pick.choice(names)), comp_op1=op(w.pick.choice(names)), bound0=low, bound1=high, reduce_res=maybe(w, _column(w, p, data, dst), 0.7), range_start=w.pick.choice((0, 0, 3)), reduce_op=op("maximum"))


@recipe()
def select_reduce(w: Writer) -> None:
    p, f = rows(w), free(w)
    mask = w.index(w.numbers.integers(0, 2, (p, math.prod(f))), w.pick.choice(("uint8", "int8", "uint16", "int16")))
    data, x = w.read(p, f, w.pick.choice((*FLOATS[:-1], "int8", "uint8"))), number(w, p)
    reduces = w.pick.random() < 0.5
    dst = w.write(p, f, dtype(w), avoid=(data, x))
    w.call(
        "select_reduce", dst=dst, predicate=mask, on_true=data, on_false=x, reverse_pred=flag(w),
        reduce_res=_column(w, p, data, x, dst) if reduces else ..., reduce_cmd=choice("reduce_cmd", "reset_reduce") if reduces else ...,
    )  # fmt: skip


def _function(w: Writer) -> str:
    return w.pick.choice((*n.EXACT_ACTIVATIONS[:-1], *n.ACTIVATIONS))


@recipe(weight=4)
def activation(w: Writer) -> None:
    p, f = rows(w), free(w)
    name, chain = _function(w), w.pick.choice((0, 0, 1, 2))
    for k in range(max(chain, 1)):
        data = _fresh(w, p, f, dtype(w)) if chain else w.read(p, f, dtype(w), mem(w))
        bias: Any = ...
        if w.pick.random() < 0.4 and not (name == "reciprocal" and w.chip == 2):
            bias = w.pick.choice(_NUMBERS) if w.chip > 2 and w.pick.random() < 0.5 else w.read(p, 1, w.pick.choice(("float32", "bfloat16")), plain=True)
        elif w.chip == 2 and name == "copy":
            bias = ...
        scale = maybe(w, number(w, p), 0.4)
        dst = w.write(p, f, dtype(w), "sbuf" if chain else mem(w), (data, bias, scale))
        more = {}
        if chain:
            more = {"reduce_op": op("add"), "reduce_res": _column(w, p, data, bias, scale, dst), "reduce_cmd": choice("reduce_cmd", "reset_reduce" if k == 0 else "reduce")}
        w.call("activation", dst=dst, op=op(name), data=data, bias=bias, scale=scale, **more)


@recipe()
def activation_reduce(w: Writer) -> None:
    p, f = rows(w), free(w)
    data = _fresh(w, p, f, dtype(w))
    dst = w.write(p, f, dtype(w), avoid=(data,))
    w.call("activation_reduce", dst=dst, op=op(_function(w)), data=data, reduce_op=op("add"), reduce_res=_column(w, p, data, dst), scale=maybe(w, number(w, p)))


@recipe(4, 4)
def activate2(w: Writer) -> None:
    p, f = rows(w), free(w)
    data = _fresh(w, p, f, dtype(w))
    first, second = w.pick.choice((("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"), ("subtract", "bypass"), ("bypass", "bypass")))
    x, y = (number(w, p), number(w, p)) if w.pick.random() < 0.5 else (w.pick.choice(_NUMBERS), w.pick.choice(_NUMBERS))
    name = w.pick.choice((_function(w), "prelu"))
    dst = w.write(p, f, dtype(w), avoid=(data, x, y))
    more = {}
    if w.pick.random() < 0.5:
        more = {"reduce_op": op(w.pick.choice(("add", "maximum", "minimum", "abs_max", "abs_min"))), "reduce_res": _column(w, p, data, x, y, dst), "reduce_cmd": choice("reduce_cmd", "reset_reduce")}
    w.call("activate2", dst=dst, op=op(name), data=data, imm0=x if first != "bypass" else 0.0, imm1=y if second != "bypass" else 0.0, op0=op(first), op1=op(second), relu_param=0.25 if name == "prelu" else ..., reverse0=flag(w) if first != "bypass" else ..., reverse1=flag(w) if second != "bypass" else ..., **more)


@recipe(4)
def exponential(w: Writer) -> None:
    p, f = rows(w), (w.pick.choice((1, 4, 8)),)
    kinds = ("float32", "bfloat16", "float16", "int8", "uint16")
    src, x = _fresh(w, p, f, w.pick.choice(kinds)), maybe(w, number(w, p), 0.6)
    dst = w.write(p, f, w.pick.choice(kinds), avoid=(src, x))
    more: dict[str, Any] = {}
    if w.pick.random() < 0.6:
        cmd = _command(w, "reset_reduce", "load_reduce")
        more = {"reduce_res": _column(w, p, src, x, dst), "reduce_cmd": cmd, "reduce_init": w.pick.choice(_NUMBERS) if cmd.value == "load_reduce" else ...}
    w.call("exponential", dst=dst, src=src, max_value=x, **more)


# -- matrix products -----------------------------------------------------------------------------------------------


@recipe(weight=6)
def nc_matmul(w: Writer) -> None:
    k, m, c = w.pick.choice((1, 3, 16, 32, 64, 100, 128)), w.pick.choice((1, 2, 8, 16, 32)), w.pick.choice((1, 4, 8, 20))
    kinds = ("float32", "float32") if w.pick.random() < 0.4 else tuple(w.pick.choice(("bfloat16", "float16", "float8_e5m2", *(("float8_e4m3",) if w.chip > 2 else ()))) for _ in range(2))
    out = "bfloat16" if w.chip == 4 and w.pick.random() < 0.3 else "float32"
    double = w.chip > 2 and w.pick.random() < 0.15
    if double:
        kinds = ("float8_e4m3", "float8_e5m2")
    wide = w.array((m, c), out, "psum")
    dst = wide
    first = w.pick.choice((None, False))
    for turn in range(w.pick.choice((1, 1, 2, 3))):
        s = w.read(k, (2, m) if double else m, kinds[0], style=w.pick.choice(("tame", "tame", "wide")), plain=double)
        x = w.read(k, (2, c) if double else c, kinds[1], style=w.pick.choice(("tame", "tame", "wide")), plain=double)
        dst = wide
        if turn and c > 2 and first is None and w.pick.random() < 0.3:
            part = w.pick.randint(1, c - 1)
            dst, x = wide.then(f"[0:{m}, 0:{part}]"), w.read(k, (2, part) if double else part, kinds[1], style="tame", plain=double)
        tiles: dict[str, Any] = {}
        if not double and k <= 64 and m <= 64 and w.pick.random() < 0.15:
            tiles = {"tile_position": (0, 0), "tile_size": (64, 64)}
        accumulate: Any = (None if turn else ...) if first is None else turn > 0
        w.call("nc_matmul", dst=dst, stationary=s, moving=x, accumulate=accumulate, perf_mode=choice("matmul_perf_mode", "double_row") if double else ..., **tiles)


@recipe(4, 4)
def nc_matmul_mx(w: Writer) -> None:
    k, m, c = w.pick.choice((32, 64, 128)), w.pick.choice((2, 8, 16)), w.pick.choice((1, 4, 9))
    kinds = [w.pick.choice(("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4")) for _ in range(2)]
    parts: list[Handle] = []
    scale = w.pick.choice(("uint8", "float8_e8m0fnu"))
    for kind, size in zip(kinds, (m, c), strict=True):
        parts.append(w.read(k, size, kind, plain=True))
        rows_ = k // 8 if k <= 32 else k
        raw = w.numbers.integers(121, 133, (rows_, size)).astype(np.uint8)
        given = w.given(scale, raw.view(TYPES[scale].np))
        tile = w.array((rows_, size), scale)
        w.call("dma_copy", dst=tile, src=given)
        parts.append(tile)
    dst = w.array((m, c), w.pick.choice(("float32", "bfloat16")), "psum")
    for turn in range(w.pick.choice((1, 2))):
        w.call("nc_matmul_mx", dst=dst, stationary=parts[0], moving=parts[2], stationary_scale=parts[1], moving_scale=parts[3], accumulate=maybe(w, turn > 0))


@recipe(4, 4)
def quantize_mx(w: Writer) -> None:
    p, f = w.pick.choice((32, 64, 96, 128)), w.pick.choice((4, 8, 16))
    src = w.read(p, f, w.pick.choice(("bfloat16", "float16")), plain=True)
    dst = w.array((p, f // 4), w.pick.choice(("float8_e5m2_x4", "float8_e4m3fn_x4")))
    scale = w.array((p // 8 if p <= 32 else p, f // 4), "uint8")
    w.call("quantize_mx", dst=dst, src=src, dst_scale=scale)


# -- statistics and search -----------------------------------------------------------------------------------------


@recipe()
def bn_stats(w: Writer) -> None:
    p, parts = rows(w), w.pick.choice((1, 2))
    stats = w.array((p, 6 * parts), "float32")
    for k in range(parts):
        w.call("bn_stats", dst=stats.then(f"[0:{p}, {6 * k}:{6 * k + 6}]"), data=w.read(p, free(w), dtype(w, True), mem(w)))


@recipe()
def bn_aggr(w: Writer) -> None:
    p, parts = rows(w), w.pick.choice((1, 2, 4))
    values = np.stack([w.numbers.integers(1, 9, (p, parts)), w.numbers.standard_normal((p, parts)), w.numbers.random((p, parts)) * 5], 2)
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
        w.call("nc_find_index8", dst=w.write(p, 8, w.pick.choice(("uint32", "uint16")), avoid=(data,)), data=data, vals=vals)
    if w.pick.random() < 0.6:
        index = w.array((p, 8), w.pick.choice(("uint32", "uint16"))) if w.pick.random() < 0.7 else ...
        dst = w.write(p, data.t.shape[1:], "float32", avoid=(data, vals))
        w.call("nc_match_replace8", dst=dst, data=data, vals=vals, imm=-1e30, dst_idx=index)


@recipe()
def nc_find_index8(w: Writer) -> None:
    p, kind = rows(w), dtype(w)
    data, vals = w.read(p, w.pick.choice((8, 16, 20)), kind, style="tame"), w.read(p, 8, "float32", style="tame")
    w.call("nc_find_index8", dst=w.write(p, 8, "uint32"), data=data, vals=vals)


@recipe(3)
def nonzero_with_count(w: Writer) -> None:
    p, f = rows(w), w.pick.choice((1, 4, 8))
    src = w.index(w.numbers.integers(-1, 2, (p, f)), w.pick.choice(("int32", "float32")))
    tile = w.array((p, f + 1), "int32")
    w.fill(tile)
    w.call("nonzero_with_count", dst=tile, src=src, index_offset=w.pick.choice((..., 16)), padding_val=w.pick.choice((..., -7)))


@recipe()
def topk(w: Writer) -> None:
    p, count = w.pick.choice((16, 32, 128)), w.pick.choice((8, 16, 30, 42))
    k = w.pick.choice((1, 5, 8))
    src = w.read(p, -(-count // 16), "bfloat16", plain=True)
    w.call("topk", val_dst=w.array((p, k), "bfloat16"), idx_dst=w.array((p, k), "uint32"), src=src, n=count)


@recipe()
def sequence_bounds(w: Writer) -> None:
    ids = np.repeat(np.arange(6) * w.numbers.integers(0, 2, 6), w.numbers.integers(1, 5, 6))
    kind = w.pick.choice(("int32", "float32"))
    dst = w.array((1, 2, len(ids)), kind)
    w.call("sequence_bounds", dst=dst, segment_ids=w.index(ids[None], kind))


# -- random numbers ------------------------------------------------------------------------------------------------


def _two(w: Writer, draw: Callable[[Handle], None], p: int, f: int, kind: str, seed: Callable[[], None]) -> None:
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
    _two(w, lambda dst: w.call("rng", dst=dst), p, f, kind, lambda: w.call("set_rng_seed", src_seeds=seed))


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
    _two(w, lambda dst: w.call("rng", dst=dst, engine=choice("engine", engine)), p, 4, "uint16", lambda: w.call("rand_set_state", src_seeds=state, engine=given))


@recipe(4)
def rand2(w: Writer) -> None:
    low = w.pick.choice((0.0, -2.0, 5.0))
    high = low + w.pick.choice((1.0, 0.25, 100.0))
    dst = w.array((rows(w), 8), w.pick.choice(("float32", "bfloat16", "int16")))
    w.tiles.pop()
    w.call("rand2", dst=dst, min=low, max=high)
    name = w.result(dst)
    w.program.between.append((name, math.floor(low) if dst.t.dtype.kind == "i" else low, math.ceil(high) if dst.t.dtype.kind == "i" else high))


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
    w.call("register_store", dst=w.array((1, 1), w.pick.choice(("int32", "uint32", "int16")) if r.t.value >= 0 else "int32"), src=r)


@recipe(4, 3)
def indirect(w: Writer) -> None:
    """Gather elements of a tile by offsets, as an operand."""
    p, count = w.pick.choice((16, 32, 64, 128)), w.pick.choice((4, 16, 20))
    tile = w.array((p, 20), w.pick.choice(("float32", "bfloat16")))
    w.fill(tile)
    index = w.index(w.numbers.integers(0, 20, (p, -(-count // 16))), w.pick.choice(("uint16", "uint32")))
    view = Handle(f"{tile}.indirect({index}, {count})", tile.t.indirect(index.t, count))
    dst = w.array((p, count), w.pick.choice(("float32", "bfloat16")))
    if w.pick.random() < 0.5:
        w.call("tensor_copy", dst=dst, src=view)
    else:
        w.call("tensor_scalar", dst=dst, data=view, op0=op(w.pick.choice(_ARITHMETIC)), operand0=w.pick.choice(_NUMBERS))


@recipe(weight=3)
def loop(w: Writer) -> None:
    """A loop that the device runs, with simple instructions in its body."""
    inside = ("tensor_tensor", "tensor_scalar", "tensor_copy", "dma_copy_loop", "tensor_reduce", "activation", "iota", "nc_matmul")
    w.array((64, 16), "float32")
    w.fill(w.tiles[-1])

    def body() -> None:
        for _ in range(w.pick.choice((1, 1, 2, 3))):
            RECIPES[w.pick.choice(inside)][0](w)

    w.loop(body)


@recipe(weight=0)
def dma_copy_loop(w: Writer) -> None:
    """Copy what the register of a loop selects."""
    kind = w.pick.choice(("float32", "bfloat16", "int32"))
    f, i = w.pick.choice((4, 8)), w.registers[-1] if w.registers else None
    if i is None or w.body is None:
        raise Refused("not in a loop")
    source = w.source(kind)
    part = Handle(f"{source}.ap(pattern=[[40, 16], [1, {f}]], scalar_offset={i}, indirect_dim=0)", source.t.ap([[40, 16], [1, f]], scalar_offset=i.t))
    w.call("dma_copy", dst=w.write(16, f, kind), src=part)


assert ROWS == 128
