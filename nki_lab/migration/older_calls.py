"""Rules for calls of the older dialect, and for those of nki.isa: the tile that each writes is made before it."""

from __future__ import annotations

from math import prod

import libcst as cst
import libcst.matchers as m

from nki_lab import isa, language
from nki_lab.beta1.enums import PERF_MODES
from nki_lab.migration.names import code_of
from nki_lab.migration.observed import TILE
from nki_lab.migration.older_access import Accesses
from nki_lab.migration.older_language import (
    axes_last,
    composite,
    launched,
    method_call,
    with_column,
)
from nki_lab.migration.older_sites import (
    COLUMNS,
    OPERATIONS,
    RULES,
    Former,
    dtype_argument,
    dtype_text,
    expression_of,
    operator_text,
    part_given,
    part_of,
    rule_for,
    shape_text,
    short,
    written,
)
from nki_lab.migration.positions import Bounds, Positions

_PREDICATES = {"uint8", "uint16", "uint32"}


def moved_call(r: Accesses, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
    """Return a call as it is written for today's NKI."""
    name = r.official(original.func)
    if name.startswith("numpy."):
        return updated
    if not name:
        if isinstance(original.func, cst.Attribute) and r.kind(original.func.value) == TILE:
            return method_call(r, original, updated)
        return launched(r, original, updated)
    site = Former(r, name, original, updated)
    if site.is_starred and name != "nki.simulate_kernel":
        return site.refuse("write out what `*` and `**` hand on")
    rule = RULES.get(name)
    if rule is not None:
        return rule(site)
    if name.startswith("nki.isa.") and site.member in isa.instructions_of("nki.isa"):
        return _instruction(site)
    if name.startswith("nki.language.") and site.member in language.__all__:
        return composite(site)
    if name.startswith("nki.compiler.") and site.member in ("alloc", "mod_alloc", "auto_alloc"):
        return updated  # the tensor that is made with it tells its memory
    return site.refuse("today's NKI has no such function")


# -- functions of nki.isa --------------------------------------------------------------------------------------------


def _instruction(site: Former) -> cst.BaseExpression:
    """Move a function of nki.isa: its result is a tile that is passed as dst."""
    r, bounds = site.rewriter, site.bounds
    if bounds is None:
        return site.refuse("write the mask as bounds of slices")
    definition = isa.instructions_of("nki.isa")[site.member]
    now = list(definition.__signature__.parameters)
    given: dict[str, str] = {}
    for parameter, (old, _) in site.arguments.items():
        if parameter in ("mask", "dtype") or parameter not in now:
            continue
        if m.matches(old, m.Name("None")):
            continue
        if parameter in OPERATIONS:
            operator = operator_text(site, parameter)
            if operator is None:
                return site.refuse(
                    f"{parameter}={code_of(old)} is no operator of today's instructions"
                )
            given[parameter] = operator
        else:
            text = part_given(site, parameter, bounds)
            if (
                parameter in COLUMNS
                and r.kind(old) == TILE
                and {s.dtype for s in r.seen(old)} != {"float32"}
            ):
                text = f"{r.nl}.copy({text}, dtype={r.nl}.float32)"
            if parameter == "predicate" and not {s.dtype for s in r.seen(old)} <= _PREDICATES:
                text = f"{r.nl}.not_equal({text}, 0, dtype={r.nl}.uint8)"
            given[parameter] = text
    if site.member == "tensor_reduce" and {"data", "axis"} <= set(given):
        given["data"], given["axis"] = axes_last(site, "data", given["data"])
    if "dst" in now and "dst" not in site.arguments:

        def emit(dst: str) -> str:
            words = [f"dst={dst}", *(f"{k}={v}" for k, v in given.items())]
            return f"{r.nisa}.{site.member}({', '.join(words)})"

        kept = _of_result(site, bounds)
        return written(r, site.original, site.tiles, emit, dtype_argument(site), kept)
    words = ", ".join(f"{k}={v}" for k, v in given.items())
    r.change(site.original, f"{short(site.name)} takes its arguments by name")
    r.before(f"{r.nisa}.{site.member}({words})")
    target = r.targets.get(site.original)
    if isinstance(target, cst.Subscript) and "dst" in given:
        r.drop()
    return expression_of(given.get("dst", "None")) if target is not None else cst.Name("_")


def _of_result(site: Former, bounds: Bounds) -> Bounds:
    """Return the bounds along axes that the result has, too: statistics of masked columns are not masked."""
    r, data = site.rewriter, site.old("data")
    pairs = list(zip(r.seen(data or site.original), r.seen(site.original), strict=False))
    return {
        axis: bound
        for axis, bound in bounds.items()
        if all(
            -axis <= min(len(a.shape), len(b.shape)) and a.shape[axis] == b.shape[axis]
            for a, b in pairs
        )
    }


@rule_for("isa.nc_matmul", "language.matmul")
def _product(site: Former) -> cst.BaseExpression:
    r, bounds = site.rewriter, site.bounds
    if bounds is None:
        return site.refuse("write the mask as bounds of slices")
    first, second = ("stationary", "moving") if site.member == "nc_matmul" else ("x", "y")
    if first not in site.arguments or second not in site.arguments:
        return site.refuse("give both operands")
    is_turned = site.member == "matmul" and site.text("transpose_x", "False") != "True"
    texts = []
    # A mask cuts the rows of the result, which are an axis of the first operand, and its columns.
    cuts = {first: {-2 if is_turned else -1: bounds.get(-2)}, second: {-1: bounds.get(-1)}}
    for parameter in (first, second):
        old = site.old(parameter)
        assert old is not None
        kept = {axis: part for axis, part in cuts[parameter].items() if part}
        text = part_of(r, old, site.arguments[parameter][1], kept)
        text = f"{r.nl}.copy({text})" if all(s.memory == "psum" for s in r.seen(old)) else text
        texts.append(text)
    dtypes = [[s.dtype for s in r.seen(site.arguments[p][0])] for p in (first, second)]
    if any((a == "float32") != (b == "float32") for a, b in zip(*dtypes, strict=False)):
        for k in (0, 1):
            if set(dtypes[k]) != {"float32"}:
                texts[k] = f"{r.nl}.copy({texts[k]}, dtype={r.nl}.float32)"
    if is_turned:
        texts[0] = f"{r.nl}.copy({r.nl}.transpose({texts[0]}))"
    more = "".join(
        f", {name}={site.text(name)}"
        for name in (
            "is_stationary_onezero",
            "is_moving_onezero",
            "is_transpose",
            "tile_position",
            "tile_size",
        )
        if name in site.arguments
    )
    mode = site.text("perf_mode", "'none'").strip("\"'")
    if mode not in PERF_MODES:
        return site.refuse("perf_mode= is one of nisa.matmul_perf_mode")
    if PERF_MODES[mode].name != "none":
        more += f", perf_mode={r.nisa}.matmul_perf_mode.{PERF_MODES[mode].name}"

    def emit(dst: str) -> str:
        return f"{r.nisa}.nc_matmul(dst={dst}, stationary={texts[0]}, moving={texts[1]}{more})"

    target = r.targets.get(site.original)
    if isinstance(target, cst.AugAssign):
        place = code_of(target.target)
        if isinstance(target.target, cst.Subscript):
            part = r.part(target.target, target.target, bounds)
            if part is None:
                return site.updated
            place = part
        elif bounds:
            access = r.cut(target.target, place, bounds)
            place = access.text if access is not None else place
        r.before(emit(place))
        r.change(
            site.original, "a product that is added is nisa.nc_matmul(dst=), which accumulates"
        )
        r.drop()
        return cst.Name("_")
    is_moved = site.text("is_transpose", "False") != "False"
    return written(
        r, site.original, site.tiles, emit, "" if is_moved else f"{r.nl}.float32", bounds
    )


@rule_for("isa.nc_transpose")
def _transpose(site: Former) -> cst.BaseExpression:
    r, data = site.rewriter, site.old("data")
    of_bytes = data is not None and all(
        s.dtype.endswith("int8") or "float8" in s.dtype for s in r.seen(data)
    )
    by_tensor = all(one.memory == "psum" for one in r.seen(site.original))
    shape = shape_text(r, r.seen(site.original), site.tiles)
    if not of_bytes or not by_tensor or shape is None or site.bounds != {}:
        return _instruction(site)
    tile, element = (
        r.fresh("tile"),
        dtype_text(r, [s.dtype for s in r.seen(site.original)], site.tiles),
    )
    r.before(f"{tile} = {r.nl}.ndarray((*{shape}, 2), dtype={element}, buffer={r.nl}.psum)")
    r.before(f"{r.nisa}.nc_transpose(dst={tile}[:, :, 0], data={part_given(site, 'data', {})})")
    r.change(site.original, "transposed bytes leave the Tensor engine as elements of 16 bits")
    return expression_of(f"{tile}[:, :, 0]")


@rule_for("isa.dma_copy", "language.atomic_rmw")
def _combined_in_memory(site: Former) -> cst.BaseExpression:
    r = site.rewriter
    parameter, source = ("op", "value") if site.member == "atomic_rmw" else ("dst_rmw_op", "src")
    node = site.old(parameter)
    if node is None or m.matches(node, m.Name("None")):
        return _instruction(site)
    operator = operator_text(site, parameter)
    if operator is None or site.bounds != {}:
        return site.refuse("write nisa.dma_compute, which reads, combines and writes")
    dst = site.text("dst")
    mode = f", oob_mode={site.text('oob_mode')}" if "oob_mode" in site.arguments else ""
    r.before(
        f"{r.nisa}.dma_compute(dst={dst}, srcs=[{site.text(source)}, {dst}], reduce_op={operator}{mode})"
    )
    r.change(site.original, "what combines while moving is nisa.dma_compute")
    return cst.Name("_")


@rule_for("isa.tensor_copy_dynamic_src")
def _dynamic(site: Former) -> cst.BaseExpression:
    site.member = "tensor_copy"
    return _instruction(site)


@rule_for("isa.tensor_tensor")
def _combined(site: Former) -> cst.BaseExpression:
    r, bounds = site.rewriter, site.bounds
    data, more = (
        [s.shape for s in r.seen(site.old(p) or site.original)] for p in ("data1", "data2")
    )
    pairs = list(zip(data, more, strict=False))
    operator = operator_text(site, "op") if "op" in site.arguments else None
    if bounds is None or operator is None or all(a == b for a, b in pairs):
        return _instruction(site)
    texts = [part_given(site, p, bounds) for p in ("data1", "data2")]
    name, dtype = operator.rpartition(".")[2], dtype_argument(site)
    for k, parameter in enumerate(("data2", "data1")):
        sizes = [(prod(pair[k][1:]), prod(pair[1 - k][1:])) for pair in pairs]
        if all(one > other == 1 for one, other in sizes):
            column = r.seen(site.arguments[parameter][0])
            return with_column(
                r,
                site.original,
                name,
                texts[:: 1 - 2 * k],
                column,
                bool(k),
                site.tiles,
                dtype,
                bounds,
            )
    return _instruction(site)


@rule_for("isa.memset")
def _memset(site: Former) -> cst.BaseExpression:
    r = site.rewriter
    target = r.targets.get(site.original)
    dst = target.value if isinstance(target, cst.Name) else r.fresh("tile")
    r.before(
        f"{dst} = {r.nl}.ndarray({site.text('shape')}, dtype={dtype_argument(site)}, buffer={r.nl}.sbuf)"
    )
    r.before(f"{r.nisa}.memset(dst={dst}, value={site.text('value')})")
    r.change(site.original, "what a call writes is made with nl.ndarray and given as dst=")
    if isinstance(target, cst.Name):
        r.drop()
    return cst.Name(dst)


def _pattern(position: Positions) -> str | None:
    """Return the arguments by which today's instructions take an index tensor."""
    rank = -min(position.terms, default=-2)
    free = [position.terms.get(axis, ("0", "1")) for axis in range(-max(rank, 2), 0)]
    steps = ", ".join(f"[{step}, {size}]" for step, size in free[1:])
    return f"pattern=[{steps}], offset={position.start}, channel_multiplier={free[0][0]}"


@rule_for("isa.iota")
def _iota(site: Former) -> cst.BaseExpression:
    r = site.rewriter
    node = site.old("expr")
    position = r.linear(node) if node is not None else None
    words = _pattern(position) if position is not None else None
    if words is None:
        return site.refuse("write the index tensor as pattern, offset and channel_multiplier")
    emit = lambda dst: f"{r.nisa}.iota(dst={dst}, {words})"  # noqa: E731
    return written(r, site.original, [], emit, dtype_argument(site))


@rule_for("isa.affine_select")
def _affine_select(site: Former) -> cst.BaseExpression:
    r, node = site.rewriter, site.old("pred")
    if isinstance(node, cst.Name):
        node = r.masks.get(node.value)
    words = None
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        left, right = r.linear(node.left), r.linear(node.comparisons[0].comparator)
        names = {"LessThan": "less", "LessThanEqual": "less_equal", "GreaterThan": "greater",
                 "GreaterThanEqual": "greater_equal", "Equal": "equal"}  # fmt: skip
        operator = names.get(type(node.comparisons[0].operator).__name__)
        if left is not None and right is not None and operator:
            words = f"{_pattern(left.plus(right, -1))}, cmp_op={r.nl}.{operator}"
    if words is None:
        return site.refuse("write the comparison as pattern, offset, channel_multiplier and cmp_op")
    data, other = part_given(site, "on_true_tile", {}), site.text("on_false_value")
    if all(s.memory == "psum" for s in r.seen(site.arguments["on_true_tile"][0])):
        data = f"{r.nl}.copy({data})"
    words = f"on_true_tile={data}, on_false_value={other}, {words}"
    emit = lambda dst: f"{r.nisa}.affine_select(dst={dst}, {words})"  # noqa: E731
    return written(r, site.original, site.tiles, emit, dtype_argument(site))
