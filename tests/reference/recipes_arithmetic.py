"""Random legal arithmetic: element by element, reductions, accumulators, activations."""

from __future__ import annotations

import math
from typing import Any

from tests.reference import numbers as n
from tests.reference.numbers import TYPES
from tests.reference.recipes import (
    ANY,
    ARITHMETIC,
    BITS,
    NUMBERS,
    dtype,
    flag,
    free,
    fresh,
    maybe,
    mem,
    number,
    recipe,
    rows,
)
from tests.reference.writing import FLOATS, INTEGERS, Handle, Name, Writer, choice, op


@recipe(weight=4)
def tensor_tensor(w: Writer) -> None:
    p, f, where = rows(w), free(w), mem(w)
    a, b = w.read(p, f, dtype(w), where), w.read(p, f, dtype(w))
    name = w.pick.choice((*ANY, "power") if where == "sbuf" and w.pick.random() < 0.2 else ANY)
    if w.chip == 4 and w.pick.random() < 0.1:
        name = w.pick.choice(("abs_max", "abs_min"))
    kind = dtype(w)
    if name == "power":
        b = w.read(p, f, "float32", style="tame")
    dst = (
        w.either(a, b, dtype=kind)
        if where == "sbuf"
        else w.write(p, f, kind, mem(w) if name != "power" else "sbuf", (a, b))
    )
    w.call("tensor_tensor", dst=dst, data1=a, data2=b, op=op(name))


@recipe(weight=3)
def tensor_tensor_integers(w: Writer) -> None:
    """Exact arithmetic of 32 bits, and bit patterns."""
    p, f = rows(w), free(w)
    if w.pick.random() < 0.5:
        kinds = (
            [w.pick.choice(("int32", "uint32")) for _ in range(3)]
            if w.pick.random() < 0.3
            else [w.pick.choice(("int32", "uint32"))] * 3
        )
        a, b = w.read(p, f, kinds[0]), w.read(p, f, kinds[1])
        w.call(
            "tensor_tensor",
            dst=w.either(a, b, dtype=kinds[2]),
            data1=a,
            data2=b,
            op=op(w.pick.choice(ANY)),
            engine=maybe(w, choice("engine", w.pick.choice(("gpsimd", "vector"))), 0.4),
        )
        return
    kind = w.pick.choice(INTEGERS)
    a = w.read(p, f, kind)
    name = w.pick.choice((*BITS, "left_shift", "right_shift"))
    b = (
        w.index(w.numbers.integers(0, 8 * TYPES[kind].size, (p, math.prod(f))), kind)
        if "shift" in name
        else w.read(p, f, kind)
    )
    w.call("tensor_tensor", dst=w.either(a, b), data1=a, data2=b, op=op(name))


@recipe(weight=4)
def tensor_scalar(w: Writer) -> None:
    p, f = rows(w), free(w)
    two = w.pick.random() < 0.5
    first = w.pick.choice(
        (
            *ANY,
            "abs",
            *(("square", "relu") if w.chip == 4 else ()),
            "rsqrt" if w.pick.random() < 0.3 else "add",
        )
    )
    if first == "rsqrt":
        two = False
    data = w.read(p, f, dtype(w), mem(w) if first != "rsqrt" else "sbuf")
    x = ... if first in n.UNARY else number(w, p)
    second = w.pick.choice(ANY)
    y = number(w, p)
    keep = tuple(h for h in (x, y) if isinstance(h, Handle))
    kind = dtype(w)
    in_psum = data.t.buffer == "psum" or first == "rsqrt"
    dst = (
        w.write(p, f, kind, "sbuf" if first == "rsqrt" else mem(w), (data, *keep))
        if in_psum
        else w.either(data, *keep, dtype=kind)
    )
    w.call(
        "tensor_scalar", dst=dst, data=data, op0=op(first), operand0=0.0 if x is ... else x,
        reverse0=flag(w) if x is not ... else ...,
        op1=op(second) if two else ..., operand1=y if two else ..., reverse1=flag(w) if two else ...,
    )  # fmt: skip


@recipe()
def tensor_scalar_bits(w: Writer) -> None:
    p, f, kind = rows(w), free(w), w.pick.choice(INTEGERS)
    data, width = w.read(p, f, kind), 8 * TYPES[kind].size

    def one() -> tuple[str, int]:
        name = w.pick.choice((*BITS, "left_shift", "right_shift"))
        return name, w.pick.randrange(width) if "shift" in name else w.pick.choice(
            (1, 5, 0x55, 127)
        )

    (first, x), (second, y) = one(), one()
    two = w.pick.random() < 0.5
    w.call(
        "tensor_scalar",
        dst=w.either(data),
        data=data,
        op0=op(first),
        operand0=x,
        op1=op(second) if two else ...,
        operand1=y if two else ...,
    )


@recipe()
def scalar_tensor_tensor(w: Writer) -> None:
    p, f = rows(w), free(w)
    data, x, other = w.read(p, f, dtype(w)), number(w, p), w.read(p, f, dtype(w), mem(w))
    kind = dtype(w)
    w.call(
        "scalar_tensor_tensor",
        dst=w.either(data, other, x, dtype=kind),
        data=data,
        op0=op(w.pick.choice(ANY)),
        operand0=x,
        op1=op(w.pick.choice(ANY)),
        operand1=other,
        reverse0=flag(w),
        reverse1=flag(w),
    )


@recipe()
def tensor_tensor_scan(w: Writer) -> None:
    p, f = rows(w), w.pick.choice((1, 2, 5, 8))
    a, b, x = w.read(p, f, dtype(w)), w.read(p, f, dtype(w)), number(w, p)
    w.call(
        "tensor_tensor_scan",
        dst=w.write(p, f, dtype(w), avoid=(a, b, x)),
        data0=a,
        data1=b,
        initial=x,
        op0=op(w.pick.choice(ARITHMETIC)),
        op1=op(w.pick.choice(ARITHMETIC)),
        reverse0=flag(w),
        reverse1=flag(w),
    )


@recipe()
def reciprocal(w: Writer) -> None:
    data = w.read(rows(w), free(w), dtype(w), mem(w))
    w.call(
        "reciprocal",
        dst=w.write(data.t.shape[0], data.t.shape[1:], dtype(w, True), avoid=(data,)),
        data=data,
    )


def _pattern(w: Writer, size: int) -> list[list[int]]:
    step = w.pick.choice((1, -1, 2, 3, 0))
    if size % 2 == 0 and w.pick.random() < 0.5:
        return [[w.pick.choice((5, -3, 1)), size // 2], [step, 2]]
    return [[step, size]]


@recipe()
def iota(w: Writer) -> None:
    p, f = rows(w), free(w)
    w.call(
        "iota",
        dst=w.write(p, f, dtype(w)),
        pattern=_pattern(w, math.prod(f)),
        offset=w.pick.randint(-9, 20),
        channel_multiplier=w.pick.choice((0, 1, -1, 4)),
    )


@recipe()
def affine_select(w: Writer) -> None:
    p, f, kind = rows(w), free(w), dtype(w)
    x = w.read(p, f, kind)
    out = kind if w.pick.random() < 0.6 else dtype(w)
    w.call(
        "affine_select",
        dst=w.either(x, dtype=out),
        pattern=_pattern(w, math.prod(f)),
        channel_multiplier=w.pick.choice((0, 1, -1)),
        on_true_tile=x,
        on_false_value=w.pick.choice((0.0, -5.0, 3.0)),
        cmp_op=op(w.pick.choice(n.COMPARES)),
        offset=w.pick.randint(-5, 5),
    )


# -- reductions and accumulators -----------------------------------------------------------------------------------


@recipe(weight=3)
def tensor_reduce(w: Writer) -> None:
    p = rows(w)
    f = w.pick.choice(((8,), (2, 6), (3, 4), (2, 3, 2)))
    count = w.pick.randint(1, len(f))
    axes = tuple(range(len(f) + 1 - count, len(f) + 1))
    if w.pick.random() < 0.25:
        kind = out = w.pick.choice(INTEGERS)
        name, negate = w.pick.choice(BITS), ...
    else:
        kind, out, name, negate = (
            dtype(w),
            dtype(w),
            w.pick.choice(("add", "add", "subtract", "multiply", "maximum", "minimum")),
            flag(w),
        )
    data = w.read(p, f, kind, mem(w))
    keeps = w.pick.random() < 0.2
    shape = f[: len(f) - count] + (1,) * count if keeps else f[: len(f) - count] or (1,)
    dst = w.write(p, shape, out, avoid=(data,))
    w.call(
        "tensor_reduce",
        dst=dst,
        op=op(name),
        data=data,
        axis=axes if w.pick.random() < 0.7 or count > 1 else axes[0],
        negate=negate,
        keepdims=True if keeps else ...,
    )


@recipe()
def tensor_partition_reduce(w: Writer) -> None:
    name = w.pick.choice(("add", "average", "max", "bitwise_or", "bitwise_and"))
    kind = w.pick.choice(INTEGERS) if "bit" in name else dtype(w)
    data = w.read(rows(w), free(w), kind)
    w.call(
        "tensor_partition_reduce",
        dst=w.write(1, data.t.shape[1:], kind if "bit" in name else dtype(w, True), avoid=(data,)),
        op=op(name),
        data=data,
    )


def _command(w: Writer, *names: str) -> Name:
    return choice("reduce_cmd", w.pick.choice(names))


def _column(w: Writer, p: int, *avoid: Any, kind: str = "float32") -> Handle:
    return w.write(p, 1, kind, avoid=avoid, plain=True)


@recipe()
def tensor_scalar_reduce(w: Writer) -> None:
    p, f = rows(w), free(w)
    name = w.pick.choice(("add", "multiply", "max", "min"))
    for k in range(w.pick.choice((1, 1, 2))):
        data = fresh(w, p, f, dtype(w))
        x = number(w, p)
        cmd = (
            _command(w, "reset_reduce", "load_reduce") if k == 0 else choice("reduce_cmd", "reduce")
        )
        dst = w.write(p, f, dtype(w), avoid=(data, x))
        init = number(w, p) if cmd.value == "load_reduce" else ...
        w.call(
            "tensor_scalar_reduce", dst=dst, data=data, op0=op(w.pick.choice(ARITHMETIC)), operand0=x,
            reduce_op=op(name), reduce_res=_column(w, p, data, x, dst, init), reduce_cmd=cmd, reduce_init=init,
            reduce_res_negate=flag(w),
        )  # fmt: skip


@recipe()
def tensor_scalar_cumulative(w: Writer) -> None:
    p, f, kinds = rows(w), (w.pick.choice((1, 4, 8)),), (*FLOATS[:-1], "uint8", "int16")
    for k in range(w.pick.choice((1, 2))):
        src, x = fresh(w, p, f, w.pick.choice(kinds)), number(w, p)
        cmd = (
            _command(w, "reset_reduce", "load_reduce") if k == 0 else choice("reduce_cmd", "reduce")
        )
        init = number(w, p) if cmd.value == "load_reduce" else ...
        dst = w.write(p, f, w.pick.choice(kinds), avoid=(src, x, init))
        w.call(
            "tensor_scalar_cumulative",
            dst=dst,
            src=src,
            op0=op(w.pick.choice(ARITHMETIC)),
            op1=op(w.pick.choice(ARITHMETIC)),
            imm0=x,
            imm1=init,
            reduce_cmd=cmd,
        )


@recipe(3)
def range_select(w: Writer) -> None:
    p, f = rows(w), (w.pick.choice((1, 4, 8)),)
    data = w.read(p, f, dtype(w, True).replace("tfloat32", "float32"), plain=True)
    low, high = (
        w.index(w.numbers.integers(-1, 9, (p, 1)).astype(float), "float32") for _ in range(2)
    )
    names = [k for k in n.COMPARES if k != "not_equal"]
    dst = w.write(p, f, w.pick.choice(("float32", "bfloat16")), avoid=(data,))
    w.call(
        "range_select",
        dst=dst,
        on_true_tile=data,
        comp_op0=op(w.pick.choice(names)),
        comp_op1=op(w.pick.choice(names)),
        bound0=low,
        bound1=high,
        reduce_res=maybe(w, _column(w, p, data, dst), 0.7),
        range_start=w.pick.choice((0, 0, 3)),
        reduce_op=op("maximum"),
    )


@recipe()
def select_reduce(w: Writer) -> None:
    p, f = rows(w), free(w)
    mask = w.index(
        w.numbers.integers(0, 2, (p, math.prod(f))),
        w.pick.choice(("uint8", "int8", "uint16", "int16")),
    )
    data, x = w.read(p, f, w.pick.choice((*FLOATS[:-1], "int8", "uint8"))), number(w, p)
    reduces = w.pick.random() < 0.5
    dst = w.write(p, f, dtype(w), avoid=(data, x))
    w.call(
        "select_reduce", dst=dst, predicate=mask, on_true=data, on_false=x, reverse_pred=flag(w),
        reduce_res=_column(w, p, data, x, dst) if reduces else ...,
        reduce_cmd=choice("reduce_cmd", "reset_reduce") if reduces else ...,
    )  # fmt: skip


def _function(w: Writer) -> str:
    return w.pick.choice((*n.EXACT_ACTIVATIONS[:-1], *n.ACTIVATIONS))


@recipe(weight=4)
def activation(w: Writer) -> None:
    p, f = rows(w), free(w)
    name, chain = _function(w), w.pick.choice((0, 0, 1, 2))
    for k in range(max(chain, 1)):
        data = fresh(w, p, f, dtype(w)) if chain else w.read(p, f, dtype(w), mem(w))
        bias: Any = ...
        if w.pick.random() < 0.4 and not (name == "reciprocal" and w.chip == 2):
            bias = (
                w.pick.choice(NUMBERS)
                if w.chip > 2 and w.pick.random() < 0.5
                else w.read(p, 1, w.pick.choice(("float32", "bfloat16")), plain=True)
            )
        elif w.chip == 2 and name == "copy":
            bias = ...
        scale = maybe(w, number(w, p), 0.4)
        dst = w.write(p, f, dtype(w), "sbuf" if chain else mem(w), (data, bias, scale))
        more = {}
        if chain:
            more = {
                "reduce_op": op("add"),
                "reduce_res": _column(w, p, data, bias, scale, dst),
                "reduce_cmd": choice("reduce_cmd", "reset_reduce" if k == 0 else "reduce"),
            }
        w.call("activation", dst=dst, op=op(name), data=data, bias=bias, scale=scale, **more)


@recipe()
def activation_reduce(w: Writer) -> None:
    p, f = rows(w), free(w)
    data = fresh(w, p, f, dtype(w))
    dst = w.write(p, f, dtype(w), avoid=(data,))
    w.call(
        "activation_reduce",
        dst=dst,
        op=op(_function(w)),
        data=data,
        reduce_op=op("add"),
        reduce_res=_column(w, p, data, dst),
        scale=maybe(w, number(w, p)),
    )


@recipe(4, 4)
def activate2(w: Writer) -> None:
    p, f = rows(w), free(w)
    data = fresh(w, p, f, dtype(w))
    first, second = w.pick.choice(
        (
            ("multiply", "add"),
            ("multiply", "subtract"),
            ("multiply", "bypass"),
            ("add", "bypass"),
            ("subtract", "bypass"),
            ("bypass", "bypass"),
        )
    )
    x, y = (
        (number(w, p), number(w, p))
        if w.pick.random() < 0.5
        else (w.pick.choice(NUMBERS), w.pick.choice(NUMBERS))
    )
    name = w.pick.choice((_function(w), "prelu"))
    dst = w.write(p, f, dtype(w), avoid=(data, x, y))
    more = {}
    if w.pick.random() < 0.5:
        more = {
            "reduce_op": op(w.pick.choice(("add", "maximum", "minimum", "abs_max", "abs_min"))),
            "reduce_res": _column(w, p, data, x, y, dst),
            "reduce_cmd": choice("reduce_cmd", "reset_reduce"),
        }
    w.call(
        "activate2",
        dst=dst,
        op=op(name),
        data=data,
        imm0=x if first != "bypass" else 0.0,
        imm1=y if second != "bypass" else 0.0,
        op0=op(first),
        op1=op(second),
        relu_param=0.25 if name == "prelu" else ...,
        reverse0=flag(w) if first != "bypass" else ...,
        reverse1=flag(w) if second != "bypass" else ...,
        **more,
    )


@recipe(4)
def exponential(w: Writer) -> None:
    p, f = rows(w), (w.pick.choice((1, 4, 8)),)
    kinds = ("float32", "bfloat16", "float16", "int8", "uint16")
    src, x = fresh(w, p, f, w.pick.choice(kinds)), maybe(w, number(w, p), 0.6)
    dst = w.write(p, f, w.pick.choice(kinds), avoid=(src, x))
    more: dict[str, Any] = {}
    if w.pick.random() < 0.6:
        cmd = _command(w, "reset_reduce", "load_reduce")
        more = {
            "reduce_res": _column(w, p, src, x, dst),
            "reduce_cmd": cmd,
            "reduce_init": w.pick.choice(NUMBERS) if cmd.value == "load_reduce" else ...,
        }
    w.call("exponential", dst=dst, src=src, max_value=x, **more)
