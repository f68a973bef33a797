"""Random loops of the device, views, addresses, types, and rarer forms of instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reference import numbers as n
from tests.reference.numbers import TYPES
from tests.reference.recipes import (
    ARITHMETIC,
    NUMBERS,
    RECIPES,
    dtype,
    flag,
    free,
    fresh,
    mem,
    recipe,
    rows,
)
from tests.reference.tensors import Refused
from tests.reference.writing import (
    COLUMNS,
    FLOATS,
    INTEGERS,
    ROWS,
    Handle,
    Name,
    Writer,
    choice,
    op,
)


@recipe(weight=5)
def loop(w: Writer) -> None:
    """Write a loop that the device runs, with simple instructions in its body that change tiles from outside."""
    inside = (
        "tensor_tensor", "tensor_tensor", "tensor_scalar", "tensor_scalar", "tensor_copy", "dma_copy_loop",
        "dma_copy_loop",
        "tensor_reduce", "activation", "iota", "matmul_loop", "matmul_loop", "index_loop",
        "tensor_copy_predicated", "nested",
        "tensor_tensor_integers", "select_reduce",
    )  # fmt: skip
    if w.body is None:
        for kind in ("float32", "float32", "bfloat16", "int32"):
            fresh(w, w.pick.choice((32, 64)), (w.pick.choice((16, 24)),), kind)
        w.call(
            "dma_copy",
            dst=w.array((32, 12), "float32", "private_hbm", "h"),
            src=w.source("float32").then("[5:37, 9:21]"),
        )
        w.array((16, 8), "float32", "psum")

    def body() -> None:
        for _ in range(w.pick.choice((1, 2, 2, 3))):
            try:
                name = w.pick.choice(inside)
                if name != "nested":
                    RECIPES[name][0](w)
                elif sum(h.text in ("i", "j") for h in w.registers) < 2:
                    loop(w)
            except Refused:
                continue

    w.loop(body)


@recipe(weight=0)
def matmul_loop(w: Writer) -> None:
    """Add to a tile of PSUM that was made outside of the loop."""
    outside = [h for h in w.tiles if h.t.buffer == "psum" and h.t.shape == (16, 8)]
    if not outside:
        raise Refused("no tile")
    k, kind = w.pick.choice((4, 32)), w.pick.choice(("bfloat16", "float32"))
    a, b = (w.read(k, c, kind, style="tame") for c in (16, 8))
    w.call(
        "nc_matmul",
        dst=outside[0],
        stationary=a,
        moving=b,
        accumulate=w.pick.choice((..., ..., None, False)),
    )


@recipe(weight=0)
def index_loop(w: Writer) -> None:
    """Gather or scatter by what the loop itself computes: its number, stored and multiplied."""
    one, by = w.array((1, 1), "int32"), w.array((1, 1), "int32")
    w.tiles = [h for h in w.tiles if h.text not in (one.text, by.text)]
    w.line(f"nisa.register_store(dst={one}, src={w.registers[-1]})")
    w.call(
        "tensor_scalar",
        dst=by,
        data=one,
        op0=op("multiply"),
        operand0=w.pick.choice((1.0, 2.0)),
        op1=op("add"),
        operand1=1.0,
    )
    tensors = [h for h in w.tiles if h.t.buffer == "private_hbm" and h.t.shape == (32, 12)]
    if not tensors:
        raise Refused("no tensor")
    view = Handle(f"{tensors[0]}[nl.ds({by}, 16), 2:10]", tensors[0].t[:16, 2:10])
    if w.pick.random() < 0.5:
        w.call("dma_copy", dst=w.write(16, 8, w.pick.choice(("float32", "bfloat16"))), src=view)
    else:
        w.call("dma_copy", dst=view, src=w.read(16, 8, w.pick.choice(("float32", "bfloat16"))))


@recipe(weight=0)
def dma_copy_loop(w: Writer) -> None:
    """Copy what the register of a loop selects."""
    kind = w.pick.choice(("float32", "bfloat16", "int32"))
    f, i = w.pick.choice((4, 8)), w.registers[-1] if w.registers else None
    if i is None or w.body is None:
        raise Refused("not in a loop")
    source = w.source(kind)
    part = Handle(
        f"{source}.ap(pattern=[[{COLUMNS}, 16], [1, {f}]], scalar_offset={i}, indirect_dim=0)",
        source.t.ap([[COLUMNS, 16], [1, f]], scalar_offset=i.t),
    )
    w.call("dma_copy", dst=w.write(16, f, kind), src=part)


# -- other forms ---------------------------------------------------------------------------------------------------

_FUNCTIONS = (
    "exp",
    "tanh",
    "sigmoid",
    "relu",
    "gelu",
    "silu",
    "erf",
    "sqrt",
    "abs",
    "square",
    "sign",
    "softplus",
    "mish",
)


def _function(w: Writer) -> tuple[str, list[Any], dict[str, Any]]:
    """Return a function of nki.language with arguments."""
    p, f, form = rows(w), free(w), w.pick.random()
    if form < 0.25:
        a, b = w.read(p, f, dtype(w), plain=True), w.read(p, f, dtype(w), plain=True)
        return w.pick.choice((*ARITHMETIC, *n.COMPARES, "logical_and", "logical_or")), [a, b], {}
    if form < 0.4:
        return w.pick.choice(_FUNCTIONS), [w.read(p, f, dtype(w, True), plain=True)], {}
    if form < 0.45:
        return "load", [w.source("float32").then(f"[0:{p}, 1:9]")], {}
    if form < 0.5:
        return (
            "full",
            [(p, 8), w.pick.choice((0.0, 1.5, -2.0)), Name("nl.float32", TYPES["float32"])],
            {},
        )
    name = w.pick.choice((
        "ceil", "floor", "trunc", "negative", "sin", "cos", "tan", "sum", "max", "min", "prod", "mean", "var",
        "softmax", "rms_norm", "where", "transpose", "matmul", "gather_flattened", "broadcast_to", "load_transpose2d",
    ))  # fmt: skip
    if name in ("ceil", "floor", "trunc", "negative"):
        return name, [w.read(p, f, w.pick.choice(FLOATS[:-1]), plain=True)], {}
    if name in ("transpose", "load_transpose2d"):
        style = "tame" if w.chip == 2 else None
        return (
            name,
            [
                w.read(32, 8, "float32", style=style)
                if name == "transpose"
                else w.source("float32").then("[3:35, 2:18]")
            ],
            {},
        )
    if name == "matmul":
        turned = w.pick.random() < 0.5
        x = w.read(*((32, 8) if turned else (8, 32)), "float32", style="tame")
        return name, [x, w.read(32, 12, "float32", style="tame")], {"transpose_x": turned}
    if name == "gather_flattened":
        return (
            name,
            [
                w.read(p, 8, "float32", plain=True),
                w.index(w.numbers.integers(0, 8, (p, 5)), "uint32"),
            ],
            {},
        )
    if name == "broadcast_to":
        return name, [w.read(p, 1, dtype(w, True), plain=True), (p, 6)], {}
    x = w.read(
        p,
        (2, 4) if name in ("sum", "max", "min", "prod", "mean") and w.pick.random() < 0.4 else 8,
        "float32",
        plain=True,
    )
    if name == "where":
        return (
            name,
            [
                w.index(w.numbers.integers(0, 2, (p, 8)), "float32"),
                x,
                w.read(p, 8, "float32", plain=True),
            ],
            {},
        )
    if name == "rms_norm":
        return name, [x, w.read(p, 8, "float32", plain=True)], {"axis": 1, "n": 8}
    if name in ("sin", "cos", "tan"):
        return name, [x], {}
    axis = w.pick.choice((2, (1, 2))) if x.t.ndim == 3 else 1
    more = (
        {"keepdims": True}
        if name in ("sum", "max", "min", "prod", "mean") and w.pick.random() < 0.4
        else {}
    )
    return name, [x], {"axis": axis, **more}


@recipe(weight=6)
def composites(w: Writer) -> None:
    """Call functions of nki.language that make a tile."""
    if w.dry:
        raise Refused("shapes come from the call")
    call, given, options = _function(w)
    if call not in ("load", "full", "matmul") and w.pick.random() < 0.15:
        options["dtype"] = (
            Name("nl.bfloat16", TYPES["bfloat16"])
            if call != "transpose"
            else Name("nl.float32", TYPES["float32"])
        )
    values = [
        h.t if isinstance(h, Handle) else h.value if isinstance(h, Name) else h for h in given
    ]
    named = {k: v.value if isinstance(v, Name) else v for k, v in options.items()}
    result, name = getattr(w.env["nl"], call)(*values, **named), w.name("t")
    w.line(
        f"{name} = nl.{call}({', '.join([*map(repr, given), *(f'{k}={v!r}' for k, v in options.items())])})"
    )
    w.env[name] = result
    handle = Handle(name, result)
    w.tiles.append(handle)
    w.changed.add(id(result.memory))


@recipe(4, 4)
def indirect_forms(w: Writer) -> None:
    """Gather or scatter elements of a tile in other instructions."""
    p, count = w.pick.choice((16, 32, 64, 128)), w.pick.choice((3, 16, 20))
    kind, other = w.pick.choice(("float32", "bfloat16")), w.pick.choice(("float32", "bfloat16"))
    tile = fresh(w, p, (24,), kind)
    groups = [
        w.numbers.permutation(24)[: 16 * -(-count // 16)] if count <= 16 else None
        for _ in range(p // 16)
    ]
    if groups[0] is None:
        groups = [
            np.concatenate([w.numbers.permutation(24), np.zeros(8, np.int64)]) for _ in groups
        ]
    table = np.concatenate([g.reshape(-1, 16).T for g in groups])
    index = w.index(table, w.pick.choice(("uint16", "uint32")))
    view = Handle(f"{tile}.indirect({index}, {count})", tile.t.indirect(index.t, count))
    plain = fresh(w, p, (count,), other)
    scatter = w.pick.random() < 0.5
    src, dst = (plain, view) if scatter else (view, plain)
    form = w.pick.choice(
        ("tensor_copy", "tensor_tensor", "tensor_scalar", "activation", "tensor_reduce")
    )
    if form == "tensor_copy":
        w.call(form, dst=dst, src=src)
    elif form == "tensor_tensor":
        w.call(
            form,
            dst=dst,
            data1=src,
            data2=w.read(p, count, "float32", plain=True),
            op=op(w.pick.choice(ARITHMETIC)),
        )
    elif form == "tensor_scalar":
        w.call(
            form,
            dst=dst,
            data=src,
            op0=op(w.pick.choice(ARITHMETIC)),
            operand0=w.pick.choice(NUMBERS),
        )
    elif form == "activation":
        w.call(form, dst=dst, op=op(w.pick.choice(("copy", "relu", "square", "exp"))), data=src)
    else:
        w.call(form, dst=w.array((p, 1), "float32"), op=op("add"), data=view, axis=1)


@recipe(weight=3)
def matmul_forms(w: Writer) -> None:
    """Transposes on Tensor, rows of its array, and operands of three axes."""
    form = w.pick.random()
    if form < 0.35:
        k, m = w.pick.choice((8, 32, 64, 128)), w.pick.choice((1, 8, 24))
        kind = w.pick.choice(("float32", "bfloat16"))
        one = w.index(np.eye(k), kind)
        data = w.read(k, m, kind, style="tame" if w.chip == 2 else None)
        w.call(
            "nc_matmul",
            dst=w.array((m, k), kind if w.chip > 2 else "float32", "psum"),
            stationary=data,
            moving=one,
            is_transpose=True,
            is_moving_onezero=flag(w),
        )
    elif form < 0.7:
        k, m, size = (
            w.pick.choice((16, 32)),
            w.pick.choice((4, 16)),
            w.pick.choice((32, 64)) if w.chip > 2 else 64,
        )
        place = w.pick.choice(range(0, 128, size))
        a, b = (
            fresh(w, 128, (c,), "bfloat16").then(f"[{place}:{place + k}, 0:{c}]") for c in (m, 8)
        )
        w.call(
            "nc_matmul",
            dst=w.array((m, 8), "float32", "psum"),
            stationary=a,
            moving=b,
            tile_position=(place, 0),
            tile_size=(size, 128),
        )
    else:
        k, m = w.pick.choice((3, 32, 128)), w.pick.choice((2, 8))
        a, b = (
            w.read(k, (2, m // 2), "bfloat16", style="tame"),
            w.read(k, (2, 3), "bfloat16", style="tame"),
        )
        dst = w.array((m, 6), "float32", "psum")
        w.call(
            "nc_matmul",
            dst=dst if w.pick.random() < 0.5 else dst.then(f".reshape(({m}, 2, 3))"),
            stationary=a,
            moving=b,
        )


@recipe(weight=3)
def addresses(w: Writer) -> None:
    """Tiles at addresses of the author that share bytes: the later write wins."""
    if w.body is not None:
        raise Refused("not in a loop")
    p = w.pick.choice((1, 32, 64, 128))
    made = []
    for _ in range(w.pick.choice((2, 3))):
        kind, size = (
            w.pick.choice(("float32", "bfloat16", "int32", "uint8")),
            w.pick.choice((2, 4, 8)),
        )
        at = (0, 4 * w.pick.randrange(10))
        name = w.name("x")
        t = w.env["nl"].ndarray((p, size), TYPES[kind], "sbuf", address=at)
        w.env[name] = t
        w.line(f"{name} = nl.ndarray({(p, size)}, dtype=nl.{kind}, buffer=nl.sbuf, address={at})")
        tile = Handle(name, t)
        w.call("dma_copy", dst=tile, src=w.source(kind).then(f"[0:{p}, 3:{3 + size}]"))
        made.append(tile)
    for tile in made:
        kind, size = tile.t.dtype.name, tile.t.shape[1]
        if w.pick.random() < 0.4:
            w.call(
                "tensor_scalar",
                dst=tile,
                data=w.read(p, size, "float32"),
                op0=op("add"),
                operand0=1.0,
            )
        w.call(
            "tensor_copy",
            dst=w.array((p, size), kind if w.pick.random() < 0.7 else "float32"),
            src=tile,
        )


@recipe(weight=2)
def accumulators(w: Writer) -> None:
    """Chain instructions that share the accumulator of Vector."""
    p, f = rows(w), (w.pick.choice((1, 4, 8)),)
    for k in range(w.pick.choice((2, 3))):
        data = fresh(w, p, f, w.pick.choice(("float32", "bfloat16")))
        dst = w.array((p, *f), "float32")
        cmd = choice("reduce_cmd", "reduce" if k else "reset_reduce")
        res = w.array((p, 1), "float32")
        form = w.pick.random()
        if form < 0.4:
            w.call(
                "tensor_scalar_reduce",
                dst=dst,
                data=data,
                op0=op("multiply"),
                operand0=2.0,
                reduce_op=op("max"),
                reduce_res=res,
                reduce_cmd=cmd,
            )
        elif form < 0.7:
            mask = w.index(w.numbers.integers(0, 2, (p, *f)), "uint8")
            w.call(
                "select_reduce",
                dst=dst,
                predicate=mask,
                on_true=data,
                on_false=-9.5,
                reduce_res=res,
                reduce_cmd=cmd,
            )
        elif w.chip > 2:
            low, high = (w.index(np.full((p, 1), x), "float32") for x in (1.0, 6.0))
            w.call(
                "range_select",
                dst=dst,
                on_true_tile=data,
                comp_op0=op("greater_equal"),
                comp_op1=op("less"),
                bound0=low,
                bound1=high,
                reduce_res=res,
                reduce_cmd=cmd,
                reduce_op=op("maximum"),
            )


@recipe(weight=2)
def views(w: Writer) -> None:
    """Copy through views with other methods, in HBM and on the chip, to read and to write."""
    kind, p = (
        w.pick.choice(("float32", "bfloat16", "int32", "uint8")),
        w.pick.choice((1, 4, 32, 128)),
    )
    tile = fresh(w, p, (24,), kind)
    t = w.pick.choice((
        ".slice(1, 2, 22, 5)", f".reshape(({p}, 4, 6)).select(1, 2)", ".reshape_dim(1, (2, -1, 3)).flatten_dims(1, 2)",
        f".reshape(({p}, 2, 3, 4)).permute((0, 3, 1, 2))", ".expand_dim(1).squeeze_dim(1)",
        f".reshape(({p}, 4, 6))[:, 1:3, 0:6:2]",
        f".reshape(({p}, 4, 6))[:, -1]", "[..., 3:9]", "[:, 5]", "[:, -3]",
        ".rearrange(('p', ('a', 'b', 'c')), ('p', ('c', 'a'), 'b'), {'a': 1, 'b': 4})",
        "[:, nl.ds(4, 8)]", f".ap(pattern=[[24, {p}], [6, 4], [2, 3]], offset=1)",
        f".ap(pattern=[[24, {p}], [-3, 8]], offset=23)",
    ))  # fmt: skip
    view = tile.then(t)
    f = view.t.shape[1:]
    if w.pick.random() < 0.5:
        w.call("tensor_copy", dst=w.write(p, f, kind, avoid=(tile,)), src=view)
    else:
        w.call(w.pick.choice(("tensor_copy", "dma_copy")), dst=view, src=w.read(p, f, kind))
    source = w.source(kind)
    h = w.pick.choice((
        "[0:32:2, 0:8]", "[5, 0:16]", "[7]", "[-2]", "[3:-4:9, -6:]",
        ".reshape((16, 8, 96)).permute((1, 0, 2))[3, 0:4, 0:8]",
        "[0:4].reshape((4, 2, 48)).select(1, 1)",
        ".rearrange((('a', 'b'), 'c'), ('b', 'a', 'c'), {'a': 8})[2, 0:8, 3:7]",
        ".ap(pattern=[[0, 16], [3, 4]], offset=193)",
        ".ap(pattern=[[192, 8], [-2, 3]], offset=9)", "[0:16, 2].reshape((16, 1))",
        "[9].expand_dim(0).broadcast(0, 16)",
    ))  # fmt: skip
    src = source.then(h)
    if src.t.ndim == 1:
        src = src.then(f".reshape((1, {src.t.size}))")
    w.call("dma_copy", dst=w.array(src.t.shape, kind), src=src)
    there = w.array((24, 6), kind, "shared_hbm", "h")
    w.call("dma_copy", dst=there, src=source.then("[0:24, 0:6]"))
    w.call(
        "dma_copy",
        dst=there.then(
            w.pick.choice(
                (
                    "[2:18:2, 0:3]",
                    ".reshape((4, 6, 6)).permute((1, 0, 2))[2:4, :, 1:4]",
                    "[0:8, 1:6:2]",
                )
            )
        ),
        src=source.then("[9:17, 4:7]"),
    )


@recipe(weight=2)
def types(w: Writer) -> None:
    """Copy and cast between all types."""
    names = ["bool_", "float8_e8m0fnu", "float8_e4m3fn", *FLOATS[:-1], *INTEGERS]
    p, f, kind = rows(w), w.pick.choice((1, 4, 8)), w.pick.choice(names)
    if w.pick.random() < 0.2:
        kind = w.pick.choice(("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"))
    if kind == "float8_e8m0fnu":
        names = [kind]
    else:
        names.remove("float8_e8m0fnu")
    src = w.read(p, f, kind)
    other = kind if kind.endswith("_x4") else w.pick.choice((kind, *names))
    how = w.pick.choice(("tensor_copy", "dma_copy"))
    w.call(how, dst=w.write(p, f, other, avoid=(src,)), src=src)
    if kind[-3:] not in ("_x4", "fnu") and w.pick.random() < 0.5:
        w.call(
            "tensor_scalar",
            dst=w.write(p, f, w.pick.choice(names), avoid=(src,)),
            data=src,
            op0=op("multiply"),
            operand0=w.pick.choice((1.0, 2.0, -0.5)),
        )


@recipe(weight=2)
def arguments(w: Writer) -> None:
    """Write into parts of an argument, and read it before and after."""
    kind = w.pick.choice(("float32", "bfloat16", "int32", "uint8"))
    given = w.given(kind, w._values(TYPES[kind], w.style))
    p, f, other = (
        w.pick.choice((2, 16, 64)),
        w.pick.choice((3, 8)),
        w.pick.choice(("float32", "int16", "bfloat16")),
    )
    for _ in range(2):
        a, b = w.pick.randint(0, ROWS - p), w.pick.randint(0, COLUMNS - f)
        w.call("dma_copy", dst=w.array((p, f), kind), src=given.then(f"[{a}:{a + p}, {b}:{b + f}]"))
        a, b = w.pick.randint(0, ROWS - p), w.pick.randint(0, COLUMNS - f)
        w.call("dma_copy", dst=given.then(f"[{a}:{a + p}, {b}:{b + f}]"), src=w.read(p, f, other))
    w.call("dma_copy", dst=w.array((ROWS, f), kind), src=given.then(f"[:, 0:{f}]"))


@recipe(weight=2)
def skipped(w: Writer) -> None:
    """Leave out a transfer whose address, in a register or a tile, is out of range."""
    p, f, kind = (
        w.pick.choice((1, 16)),
        w.pick.choice((1, 8)),
        w.pick.choice(("float32", "bfloat16")),
    )
    inside = w.pick.random() < 0.4
    value = w.pick.randrange(3) * p if inside else w.pick.choice((4 * p, 4 * p + 7))
    by = w.index(np.array([[value]]), "int32")
    tensor = w.array((4 * p, f), kind, "private_hbm", "h")
    w.call("dma_copy", dst=tensor, src=w.source(kind).then(f"[0:{4 * p}, 0:{f}]"))
    view = Handle(
        f"{tensor}.ap(pattern=[[{f}, {p}], [1, {f}]], scalar_offset={by}, indirect_dim=0)",
        tensor.t.ap([[f, p], [1, f]], scalar_offset=by.t),
    )
    tile = fresh(w, p, (f,), kind)
    src, dst = (view, tile) if w.pick.random() < 0.5 else (tile, view)
    w.call("dma_copy", dst=dst, src=src, oob_mode=choice("oob_mode", "skip"))


@recipe(weight=2)
def moved_tiles(w: Writer) -> None:
    """Move views of tiles on the chip by a register or a number in a tile, to read and to write."""
    p, kind, mem_ = (
        w.pick.choice((1, 32, 128)),
        w.pick.choice(("float32", "bfloat16", "int32")),
        mem(w),
    )
    tile = w.array((p, 24), kind, mem_)
    w.fill(tile)
    by = (
        w.register(3)
        if w.pick.random() < 0.5
        else w.index(w.numbers.integers(0, 4, (1, 1)), "int32")
    )
    form = w.pick.random()
    if form < 0.35:
        view = Handle(
            f"{tile}.ap(pattern=[[24, {p}], [2, 6]], offset=1, scalar_offset={by}, indirect_dim=1)",
            tile.t.ap([[24, p], [2, 6]], 1, scalar_offset=by.t, indirect_dim=1),
        )
    elif form < 0.6 and by.text[0] != "r":
        view = Handle(
            f"{tile}.reshape({(p, 4, 6)}).select(1, {by})",
            tile.t.reshape((p, 4, 6)).select(1, by.t),
        )
    else:
        view = Handle(f"{tile}[:, nl.ds({by}, 6)]", tile.t[:, w.env["nl"].ds(by.t, 6)])
    if w.pick.random() < 0.5:
        w.call(
            "tensor_scalar",
            dst=w.write(p, 6, dtype(w), avoid=(tile,)),
            data=view,
            op0=op("add"),
            operand0=1.0,
        )
    else:
        w.call(
            "tensor_tensor",
            dst=view,
            data1=w.read(p, 6, "float32"),
            data2=w.read(p, 6, kind),
            op=op(w.pick.choice(ARITHMETIC)),
        )


@recipe(weight=2)
def written_bits(w: Writer) -> None:
    """Write through a view of another type, and read it back as it was."""
    p = rows(w)
    kind, other = w.pick.choice(
        (
            ("float32", "uint16"),
            ("int32", "bfloat16"),
            ("bfloat16", "uint8"),
            ("uint8", "float32"),
            ("uint16", "int32"),
        )
    )
    tile = fresh(w, p, (8,), kind)
    view = tile.then(f"[:, 4:8].view(nl.{other})")
    f = view.t.shape[1]
    if w.pick.random() < 0.5:
        w.call("tensor_copy", dst=view, src=w.read(p, f, other))
    else:
        w.call(
            "tensor_tensor",
            dst=view,
            data1=w.read(p, f, "float32"),
            data2=w.read(p, f, other),
            op=op(w.pick.choice(ARITHMETIC)),
        )
    w.call("tensor_copy", dst=w.write(p, 8, kind, avoid=(tile,)), src=tile)


@recipe(4, 2)
def psum_written(w: Writer) -> None:
    """Add a product to what another instruction wrote into PSUM."""
    k, m, c = w.pick.choice((8, 32)), w.pick.choice((4, 16)), w.pick.choice((4, 9))
    dst = w.array((m, c), w.pick.choice(("float32", "bfloat16")), "psum")
    w.fill(dst, "tame")
    a, b = (w.read(k, size, "bfloat16", style="tame") for size in (m, c))
    w.call(
        "nc_matmul",
        dst=dst,
        stationary=a,
        moving=b,
        accumulate=w.pick.choice((..., None, True, False)),
    )
