"""Rules for functions of nki.language, and methods of tiles, of the older dialect.

A function stays where today's nki.language has the same meaning, with `dtype=` where its result would be another.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from math import prod
from typing import Any

import libcst as cst
import libcst.matchers as m
import numpy as np

from nki_lab import language
from nki_lab.migration.names import cast_array, code_of, dotted_name
from nki_lab.migration.observed import TILE, Seen
from nki_lab.migration.older_access import Accesses
from nki_lab.migration.older_sites import (
    TWICE,
    Former,
    dtype_argument,
    dtype_text,
    expression_of,
    operator_text,
    part_given,
    part_of,
    rule_for,
    short,
    tuple_text,
    written,
)
from nki_lab.migration.positions import Bounds, times
from nki_lab.migration.rewriter import DIVISION

# -- functions of nki.language ---------------------------------------------------------------------------------------


def composite(site: Former) -> cst.BaseExpression:
    """Move a function of nki.language that today's has, too."""
    r = site.rewriter
    if r.kind(site.original) != TILE:
        return site.updated
    parameters = inspect.signature(getattr(language, site.member)).parameters
    now = list(parameters)
    bounds = site.bounds
    if bounds is None:
        return site.refuse("write the mask as bounds of slices")
    dtype = dtype_argument(site)
    if now[:2] == ["x", "y"] and {"x", "y"} <= set(site.arguments):
        return binary(
            r, site.original, site.member, site.arguments["x"], site.arguments["y"], dtype, bounds
        )
    first = next(iter(site.arguments))  # which the older dialect calls by other names
    more = {
        p: site.text(p)
        for p in site.arguments
        if p in now[1:] and p not in ("dtype", "mask", first)
    }
    is_load = site.member == "load_transpose2d" and not bounds
    words = [site.text(first) if is_load else part_given(site, first, bounds)]
    if "axis" in more:
        words[0], more["axis"] = axes_last(site, first, words[0])
    words += [f"{p}={text}" for p, text in more.items()]
    before = site.old(first)
    seen = r.seen(site.original)
    if (
        not dtype
        and before is not None
        and r.kind(before) == TILE
        and site.member not in ("matmul", "transpose")
        and [s.dtype for s in r.seen(before)] != [s.dtype for s in seen]
    ):
        dtype = dtype_text(r, [s.dtype for s in seen], site.tiles) or ""
    if not dtype and "dtype" in now and parameters["dtype"].default is inspect.Parameter.empty:
        dtype = dtype_text(r, [s.dtype for s in seen], []) or ""
    if site.member in ("mean", "var", "softmax") and not _is_exact(r, site.original, before):
        r.decide(
            site.original,
            f"the division in nl.{site.member} was rounded once; a product is rounded twice, so the last bits differ",
            DIVISION,
        )
    if site.member == "rsqrt" or (site.member in ("abs", "sign") and bounds):
        given = f"op={r.nl}.{site.member}, data={words[0]}"
        emit = lambda dst: f"{r.nisa}.activation(dst={dst}, {given})"  # noqa: E731
        return written(r, site.original, site.tiles, emit, dtype, bounds)
    words += [f"dtype={dtype}"] if dtype else []
    text = f"{r.nl}.{site.member}({', '.join(words)})"
    if bounds:
        return _within(r, site.original, site.tiles, text, dtype, bounds)
    return expression_of(text)


def _is_exact(r: Accesses, node: cst.Call, of: cst.BaseExpression | None) -> bool:
    """Tell whether a mean is of 2, 4, 8, ... elements, whose number has an exact reciprocal."""
    pairs = zip(r.seen(of) if of is not None else [], r.seen(node), strict=False)
    counts = [prod(a.shape) // prod(b.shape) for a, b in pairs]
    return bool(counts) and all(n > 1 and n & (n - 1) == 0 for n in counts)


def axes_last(site: Former, parameter: str, data: str) -> tuple[str, str]:
    """Return the data and the axes of a reduction, which are to be the last ones: others are put there."""
    node, axis = site.old(parameter), site.text("axis")
    ranks = {len(s.shape) for s in site.rewriter.seen(node)} if node is not None else set()
    try:
        numbers = literal_eval(axis)
    except ValueError:
        return data, axis
    rank = ranks.pop() if len(ranks) == 1 else 0
    axes = (
        sorted(k % rank for k in ((numbers,) if isinstance(numbers, int) else numbers))
        if rank
        else []
    )
    is_kept = "keepdims" in site.arguments and site.text("keepdims") != "False"
    if is_kept or not axes or axes == list(range(rank - len(axes), rank)) or 0 in axes:
        return data, axis
    order = [k for k in range(rank) if k not in axes] + axes
    site.rewriter.change(site.original, "axes that a reduction leaves out come last")
    return f"{data}.permute({tuple(order)})", str(list(range(rank - len(axes), rank)))


def _within(
    r: Accesses,
    node: cst.CSTNode,
    tiles: list[tuple[str, cst.BaseExpression]],
    text: str,
    dtype: str,
    bounds: Bounds,
) -> cst.BaseExpression:
    """Put the value of an expression into the part of a new tile that a mask leaves."""
    if tiles and any(
        len(s.shape) != len(t.shape)
        for s, t in zip(r.seen(node), r.seen(tiles[0][1]), strict=False)
    ):
        r.decide(node, "write the mask as bounds of slices")
    target = r.targets.get(node)
    if isinstance(target, cst.Subscript):
        part = r.part(target, target)
        if part is not None:
            cut = r.cut(node, part, bounds)  # type: ignore[arg-type]
            if cut is not None and r.kind(target.value) == TILE:
                r.before(f"{r.nisa}.tensor_copy(dst={cut.text}, src={text})")
                r.drop()
                return cst.Name("_")
    emit = lambda dst: f"{r.nisa}.tensor_copy(dst={dst}, src={text})"  # noqa: E731
    return written(r, node, tiles, emit, dtype, bounds)


Operand = tuple[cst.BaseExpression, cst.BaseExpression]


def binary(
    r: Accesses,
    node: cst.CSTNode,
    name: str,
    left: Operand,
    right: Operand,
    dtype: str = "",
    bounds: Bounds | None = None,
) -> cst.BaseExpression:
    """Return `name(left, right)` of two tiles, or of a tile and a number."""
    bounds = bounds or {}
    texts = [part_of(r, *left, bounds), part_of(r, *right, bounds)]
    seen = [r.seen(left[0]), r.seen(right[0])]
    of_tiles = [r.kind(left[0]) == TILE, r.kind(right[0]) == TILE]
    tiles = [
        (code_of(o[1]), o[0]) for o, is_tile in zip((left, right), of_tiles, strict=True) if is_tile
    ]
    result = r.seen(node)
    if not result or not tiles:
        r.decide(node, f"nl.{name}: no run reached it, so its operands are unknown")
        return cst.parse_expression(f"{r.nl}.{name}({texts[0]}, {texts[1]})")
    dtypes = [one.dtype for one in result]
    if name in ("divide", "mod", "fmod", "power"):
        name, texts = _rounded(r, node, name, texts, of_tiles)
    if of_tiles == [True, True]:
        shapes = [[one.shape for one in s] for s in seen]
        if len(shapes[0]) == len(shapes[1]) and shapes[0] != shapes[1]:
            pairs = list(zip(*shapes, strict=True))
            if any(len(a) != len(b) for a, b in pairs):
                r.decide(node, f"nl.{name}: give both operands the same axes")
            elif all(prod(b[1:]) == 1 < prod(a[1:]) and a[0] == b[0] for a, b in pairs):
                return with_column(r, node, name, texts, seen[1], False, tiles, dtype, bounds)
            elif all(prod(a[1:]) == 1 < prod(b[1:]) and a[0] == b[0] for a, b in pairs):
                return with_column(r, node, name, texts[::-1], seen[0], True, tiles, dtype, bounds)
            else:
                texts = _repeated(r, texts, pairs, seen)
        if all(a.memory == b.memory == "psum" for a, b in zip(*seen, strict=False)):
            texts[1] = f"{r.nl}.copy({texts[1]})"
    default = [one.dtype for one in (seen[0] if of_tiles[0] else seen[1])]
    if not dtype and dtypes != default:
        dtype = dtype_text(r, dtypes, tiles) or ""
    if name == "power":
        return cst.parse_expression(f"{r.nl}.power({', '.join(texts)})")
    words = [*texts, *([f"dtype={dtype}"] if dtype else [])]
    text = f"{r.nl}.{name}({', '.join(words)})"
    return _within(r, node, tiles, text, dtype, bounds) if bounds else expression_of(text)


def _rounded(
    r: Accesses, node: cst.CSTNode, name: str, texts: list[str], of_tiles: list[bool]
) -> tuple[str, list[str]]:
    """Return what today's NKI has in place of an operation that was rounded exactly."""
    if name != "divide":
        r.decide(node, f"nl.{name} was rounded exactly; today's instructions have no such operator")
        return name, texts
    if of_tiles == [True, False]:
        try:
            exact = np.frexp(float(eval(texts[1], {"__builtins__": {}})))[0] in (0.5, -0.5)
        except Exception:
            exact = False
        if not exact:
            r.decide(
                node,
                f"the division by {texts[1]} was rounded once; a product with 1 / {texts[1]} is rounded twice, so the"
                " last bits differ",
                DIVISION,
            )
        divisor = expression_of(texts[1])
        is_one = divisor.lpar or not isinstance(divisor, (cst.BinaryOperation, cst.UnaryOperation))
        return "multiply", [texts[0], f"1.0 / {texts[1]}" if is_one else f"1.0 / ({texts[1]})"]
    turned = f"{r.nl}.reciprocal({texts[1]}, dtype={r.nl}.float32)"
    if texts[0] not in ("1", "1.0"):
        r.decide(node, f"the division {TWICE}", DIVISION)
    return "multiply", [turned, texts[0]] if not of_tiles[0] else [texts[0], turned]


def _rows(r: Accesses, value: str, partitions: str, seen: list[Seen]) -> str:
    """Return a row repeated on so many partitions: products of integers are in float32."""
    dtypes = {one.dtype for one in seen}
    is_whole = all("int" in one for one in dtypes) and len(dtypes) == 1
    value = f"{r.nl}.copy({value}, dtype={r.nl}.float32)" if is_whole else value
    value = f"{r.helper('repeat_row')}({value}, {partitions})"
    return f"{r.nl}.copy({value}, dtype={r.nl}.{dtypes.pop()})" if is_whole else value


def _repeated(
    r: Accesses, texts: list[str], pairs: list[tuple[Any, Any]], seen: list[list[Seen]]
) -> list[str]:
    """Return two tiles in one shape: rows by a product with ones, other axes in place."""
    texts = list(texts)
    for side in (0, 1):
        other = texts[1 - side]
        if all(p[side][0] == 1 < p[1 - side][0] for p in pairs):
            texts[side] = _rows(r, texts[side], f"{other}.shape[0]", seen[side])
        for axis in range(1, len(pairs[0][0])):
            if all(p[side][axis] == 1 < p[1 - side][axis] for p in pairs):
                texts[side] += f".broadcast({axis}, {other}.shape[{axis}])"
    return texts


def with_column(
    r: Accesses, node: cst.CSTNode, name: str, texts: list[str], column: list[Seen], reverse: bool,
    tiles: list[tuple[str, cst.BaseExpression]], dtype: str, bounds: Bounds,
) -> cst.BaseExpression:  # fmt: skip
    """Write a tile combined with one value for each partition."""
    data, one = texts
    if any(s.dtype != "float32" for s in column):
        one = f"{r.nl}.copy({one}, dtype={r.nl}.float32)"
    more = ", reverse0=True" if reverse else ""
    given = f"data={data}, op0={r.nl}.{name}, operand0={one}{more}"
    emit = lambda dst: f"{r.nisa}.tensor_scalar(dst={dst}, {given})"  # noqa: E731
    return written(r, node, tiles, emit, dtype, bounds)


@rule_for("language.load")
def _load(site: Former) -> cst.BaseExpression:
    r, bounds = site.rewriter, site.bounds
    src = site.old("src")
    if bounds is None or src is None:
        return site.refuse("write the mask as bounds of slices")
    if all(s.memory != "hbm" for s in r.seen(src)):
        site.member = "copy"
        dtype = dtype_argument(site)
        return expression_of(
            f"{r.nl}.copy({site.text('src')}{f', dtype={dtype}' if dtype else ''})"
        )
    dtype = dtype_argument(site)
    ranks = {len(s.shape) for n in (src, site.original) for s in r.seen(n)}
    column = ".expand_dim(1)" if ranks == {1, 2} else ""  # one value for each partition
    if bounds:
        text = part_of_hbm(r, src, site.arguments["src"][1], bounds)
        emit = lambda dst: f"{r.nisa}.dma_copy(dst={dst}, src={text})"  # noqa: E731
        target = r.targets.get(site.original)
        part = r.part(target, target) if isinstance(target, cst.Subscript) else None
        cut = r.cut(site.original, part, bounds) if part is not None else None
        if cut is not None:
            r.before(emit(cut.text))
            r.drop()
            return cst.Name("_")
        return written(r, site.original, site.tiles, emit, dtype, bounds)
    target = r.targets.get(site.original)
    if isinstance(target, cst.Subscript) and {s.dtype for s in r.seen(target.value)} == {
        s.dtype for s in r.seen(site.original)
    }:
        part = r.part(target, target)
        if part is not None:
            r.before(f"{r.nisa}.dma_copy(dst={part}, src={site.text('src')})")
            r.drop()
            r.change(site.original, "a load into a tile is nisa.dma_copy(dst=)")
            return cst.Name("_")
    more = f", dtype={dtype}" if dtype else ""
    return expression_of(f"{r.nl}.load({site.text('src')}{column}{more})")


def part_of_hbm(
    r: Accesses, old: cst.BaseExpression, new: cst.BaseExpression, bounds: Bounds
) -> str:
    """Return a tensor in HBM, or what a mask leaves of the part that is meant."""
    access = None
    if isinstance(old, cst.Subscript) and old in r.bases:
        access = r.access(old, r.bases[old], bounds)
    elif isinstance(old, cst.Subscript) and isinstance(new, cst.Subscript):
        access = r.within(old, code_of(new.value), bounds)
    if access is None:
        access = r.cut(old, code_of(new), bounds)
    return access.text if access is not None else code_of(new)


@rule_for("language.store")
def _store(site: Former) -> cst.BaseExpression:
    r, bounds = site.rewriter, site.bounds
    dst, value = site.old("dst"), site.old("value")
    if bounds is None or dst is None or value is None:
        return site.refuse("write the mask as bounds of slices")
    place = part_of_hbm(r, dst, site.arguments["dst"][1], bounds) if bounds else site.text("dst")
    if r.kind(value) != TILE:
        sizes = r.sizes_of(dst, place)
        if sizes is None:
            return site.refuse("make a tile of the number, with nl.full")
        text = f"{r.nl}.full({tuple_text(sizes)}, {site.text('value')}, dtype={place.partition('[')[0]}.dtype)"
        r.change(site.original, "a number that is stored is a tile")
        return expression_of(f"{r.nl}.store({place}, {text})")
    shapes = [(a.shape, b.shape) for a, b in zip(r.seen(dst), r.seen(value), strict=False)]
    text = part_of(r, value, site.arguments["value"][1], bounds)
    if all(s.memory == "psum" for s in r.seen(value)):
        text = f"{r.nl}.copy({text})"
    if shapes and all(len(a) == 1 and b == (*a, 1) for a, b in shapes) and not bounds:
        place += ".expand_dim(1)"
    elif any(a != b for a, b in shapes):
        sizes = r.sizes_of(dst, place)
        if sizes and all(prod(a) == prod(b) for a, b in shapes) and not bounds:
            text = f"{text}.reshape({tuple_text(sizes)})"
        elif all(len(a) == len(b) and a[0] == b[0] for a, b in shapes) and sizes:
            for axis in range(1, len(sizes)):
                if all(b[axis] == 1 < a[axis] for a, b in shapes):
                    text = f"{text}.broadcast({axis}, {sizes[axis]})"
        else:
            return site.refuse("the value has another shape than what it is stored to: reshape it")
    return expression_of(f"{r.nl}.store({place}, {text})")


@rule_for(
    "language.ndarray",
    "language.zeros",
    "language.ones",
    "language.full",
    "language.empty_like",
    "language.zeros_like",
)
def _created(site: Former) -> cst.BaseExpression:
    r = site.rewriter
    target = r.targets.get(site.original)
    name = target.value if isinstance(target, cst.Name) else ""
    buffer = site.old("buffer")
    words = []
    for parameter in ("shape", "a", "fill_value", "dtype", "buffer", "name"):
        if parameter not in site.arguments or m.matches(
            site.arguments[parameter][0], m.Name("None")
        ):
            continue
        text = site.text(parameter)
        if parameter == "dtype":
            text = dtype_argument(site)
        if parameter == "buffer":
            text = _memory(site, buffer, name)
        words.append(text if parameter in ("shape", "a", "fill_value") else f"{parameter}={text}")
    member = site.member
    in_psum = buffer is not None and any(s.memory == "psum" for s in r.seen(site.original))
    if member == "zeros" and in_psum and name in r.products:
        member = "ndarray"
        r.change(site.original, "the first product is written, so there are no zeros to add to")
    blocks = {s.blocks for s in r.seen(site.original)} or {0}
    if blocks == {0}:
        return expression_of(f"{r.nl}.{member}({', '.join(words)})")
    shape = site.arguments.get("shape")
    elements = _elements(shape[1]) if shape is not None else None
    if len(blocks) != 1 or elements is None:
        return site.refuse("a tensor with block axes is a list of tiles: write the lists")
    count = blocks.pop()
    words[0] = tuple_text(elements[count:])
    text = f"{r.nl}.{member}({', '.join(words)})"
    for size in reversed(elements[:count]):
        text = f"[{text} for _ in range({size})]"
    r.change(site.original, "block axes are lists of tiles")
    r.blocks[name] = count
    return expression_of(text)


def _elements(shape: cst.BaseExpression) -> list[str] | None:
    """Return the sizes that a shape is written with; None where it is more than tuples, lists and sums of them."""
    if isinstance(shape, (cst.Tuple, cst.List)):
        return [code_of(e.value) for e in shape.elements]
    if isinstance(shape, cst.BinaryOperation) and isinstance(shape.operator, cst.Add):
        parts = [_elements(shape.left), _elements(shape.right)]
        return None if None in parts else [size for part in parts for size in part or ()]
    return None


def _memory(site: Former, buffer: cst.BaseExpression | None, name: str) -> str:
    """Return the memory of a new tensor as today's text."""
    r = site.rewriter
    assert buffer is not None
    official = r.official(buffer.func if isinstance(buffer, cst.Call) else buffer)
    if official.endswith(".hbm"):
        return f"{r.nl}.{'shared_hbm' if name in r.returned else 'private_hbm'}"
    if official.startswith("nki.compiler"):
        if isinstance(buffer, cst.Call):
            r.change(site.original, "where the older compiler put a tile is left to today's")
        return f"{r.nl}.{official.split('.')[2]}"
    return site.text("buffer")


@rule_for("language.shared_constant")
def _shared_constant(site: Former) -> cst.BaseExpression:
    array, dtype = site.arguments.get("constant"), dtype_argument(site)
    if array is None:
        return site.refuse("give the array")
    text = cast_array(array[1], dtype) if dtype else code_of(array[1])
    return expression_of(f"{site.rewriter.nl}.shared_constant({text})")


@rule_for("language.par_dim")
def _par_dim(site: Former) -> cst.BaseExpression:
    return site.updated.args[0].value


@rule_for("language.nc")
def _cores(site: Former) -> cst.BaseExpression:
    return site.updated.args[0].value


@rule_for("language.spmd_dim")
def _programs(site: Former) -> cst.BaseExpression:
    product = "1"
    for arg in site.updated.args:
        product = times(product, code_of(arg.value))
    return expression_of(product)


@rule_for("language.affine_range", "language.sequential_range", "language.static_range")
def _range(site: Former) -> cst.BaseExpression:
    site.rewriter.change(site.original, f"{short(site.name)} is range")
    words = [code_of(arg.value) for arg in site.updated.args if arg.keyword is None]
    return expression_of(f"range({', '.join(words)})")


@rule_for(
    "language.arange",
    "language.mgrid",
    "language.program_id",
    "language.num_programs",
    "language.ds",
)
def _as_it_is(site: Former) -> cst.BaseExpression:
    return site.updated


@rule_for("language.static_cast")
def _cast(site: Former) -> cst.BaseExpression:
    r = site.rewriter
    first, second = (code_of(arg.value) for arg in site.updated.args[:2])
    if r.kind(site.original.args[0].value) != TILE:
        return expression_of(first)
    return expression_of(f"{r.nl}.copy({first}, dtype={second})")


@rule_for("language.broadcast_to")
def _broadcast_to(site: Former) -> cst.BaseExpression:
    value, shape = site.arguments.get("src"), site.arguments.get("shape")
    if value is None or shape is None:
        return site.refuse("repeat its axes with .broadcast")
    return spread(site.rewriter, site.original, value[0], code_of(value[1]), shape[1])


@rule_for("language.loop_reduce")
def _loop_reduce(site: Former) -> cst.BaseExpression:
    r, target, indices = (
        site.rewriter,
        site.rewriter.targets.get(site.original),
        site.old("loop_indices"),
    )
    operator = operator_text(site, "op") if "op" in site.arguments else None
    part = r.part(target, target) if isinstance(target, cst.Subscript) else None
    if operator is None or part is None or indices is None or "mask" in site.arguments:
        return site.refuse("copy in the first trip, and combine in the others")
    many = isinstance(indices, (cst.List, cst.Tuple))
    names = [code_of(e.value) for e in indices.elements] if many else [code_of(indices)]  # type: ignore[attr-defined]
    first = " and ".join(f"{name} == {r.starts.get(name, '0')}" for name in names)
    value, dtype = site.text("x"), dtype_argument(site)
    value = f"{r.nl}.copy({value}, dtype={dtype})" if dtype else value
    r.before(
        f"if {first}:\n    {r.nisa}.tensor_copy(dst={part}, src={value})\n"
        f"else:\n    {r.nisa}.tensor_tensor(dst={part}, data1={part}, data2={value}, op={operator})"
    )
    r.drop()
    r.change(
        site.original,
        "nl.loop_reduce is a copy in the first trip, and an instruction in the others",
    )
    return cst.Name("_")


@rule_for("simulate_kernel")
def _simulate(site: Former) -> cst.BaseExpression:
    kernel, *rest = site.updated.args
    site.rewriter.change(site.original, "nki.simulate_kernel(kernel, ...) is kernel(...)")
    now = site.updated.with_changes(func=kernel.value, args=rest)
    return launched(site.rewriter, site.original, now, site.original.args[0].value)


@rule_for("jit", "trace", "baremetal", "benchmark", "profile")
def _jit(site: Former) -> cst.BaseExpression:
    r = site.rewriter
    functions = [
        arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        for arg in site.updated.args
        if arg.keyword is None
    ]
    return site.updated.with_changes(
        func=expression_of(f"{r.alias('nki')}.jit"), args=functions[:1]
    )


def launched(
    r: Accesses, original: cst.Call, updated: cst.Call, kernel: cst.BaseExpression | None = None
) -> cst.BaseExpression:
    """Write a launch on a grid as a call with the grid as an argument."""
    function = kernel or original.func
    name = dotted_name(function.value) if isinstance(function, cst.Subscript) else ""
    if name not in kernels(r.module):
        if name in r.names.bound:
            r.decide(
                original,
                f"`{name}` is a kernel of another file: move that one, then give it grid= here",
            )
        return updated
    now = updated.func
    assert isinstance(now, cst.Subscript)
    sizes = [code_of(e.slice) for e in now.slice]
    r.change(original, "a launch on a grid is a call with grid=")
    arg = cst.Arg(expression_of(tuple_text(sizes)), cst.Name("grid"), equal=cst.AssignEqual(
        cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))  # fmt: skip
    args = [
        a.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        for a in updated.args
    ]
    return updated.with_changes(func=now.value, args=[*args, arg])


def kernels(module: cst.Module) -> set[str]:
    """Return the names of the functions of a module."""
    return {
        n.name.value for n in m.findall(module, m.FunctionDef()) if isinstance(n, cst.FunctionDef)
    }


# -- methods of tiles ------------------------------------------------------------------------------------------------


def method_call(r: Accesses, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
    """Move a method of a tile."""
    assert isinstance(original.func, cst.Attribute) and isinstance(updated.func, cst.Attribute)
    name, old, value = original.func.attr.value, original.func.value, code_of(updated.func.value)
    arguments = [code_of(arg.value) for arg in updated.args]
    if name == "astype":
        r.change(original, "t.astype(dtype) is nl.copy(t, dtype=)")
        return expression_of(f"{r.nl}.copy({value}, dtype={arguments[0]})")
    if name == "broadcast_to":
        shape = updated.args[0].value
        if len(updated.args) > 1:
            shape = expression_of(tuple_text(arguments))
        return spread(r, original, old, value, shape)
    if name == "expand_dims":
        return expression_of(f"{value}.expand_dim({arguments[0]})")
    if name == "assert_shape":
        return updated.func.value
    return updated


def spread(
    r: Accesses, node: cst.CSTNode, old: cst.BaseExpression, value: str, shape: cst.BaseExpression
) -> cst.BaseExpression:
    """Write a tile repeated to a shape."""
    if not isinstance(shape, (cst.Tuple, cst.List)):
        r.decide(node, f"repeat the axes of size 1 with {value}.broadcast(axis, size)")
        return expression_of(value)
    sizes = [code_of(e.value) for e in shape.elements]
    pairs = [(a.shape, b.shape) for a, b in zip(r.seen(old), r.seen(node), strict=False)]
    if any(len(a) != len(b) for a, b in pairs):
        r.decide(node, "give the tile as many axes, then repeat those of size 1 with .broadcast")
        return expression_of(value)
    if any(a[0] == 1 < b[0] for a, b in pairs):
        value = _rows(r, value, sizes[0], r.seen(old))
    for axis in range(1, len(sizes)):
        if any(a[axis] == 1 < b[axis] for a, b in pairs):
            value += f".broadcast({axis}, {sizes[axis]})"
    r.change(node, "a repeated row is a product with ones; repeated axes are .broadcast")
    return expression_of(value)
