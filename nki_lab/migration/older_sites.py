"""What rules for calls of the older dialect share: arguments by name, and the tile that an instruction writes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import libcst as cst
import libcst.matchers as m
import numpy as np

from nki_lab.api.beta1 import isa as former_isa
from nki_lab.api.beta1 import language as former_language
from nki_lab.beta1.operators import operator_of
from nki_lab.errors import NkiError
from nki_lab.isa.operators import OPS
from nki_lab.migration.names import code_of
from nki_lab.migration.observed import NUMBER, TILE, Seen
from nki_lab.migration.older_access import Accesses, bare
from nki_lab.migration.positions import Bounds

OPERATIONS = ("op", "op0", "op1", "reduce_op", "comp_op0", "comp_op1")
# Parameters of instructions that take one float32 for each partition.
COLUMNS = ("operand0", "operand1", "imm0", "imm1", "initial")
TWICE = "was rounded once; a product with nl.reciprocal is rounded twice, so the last bits differ"

#: Functions that a text may need.
HELPERS = {
    "repeat_row": '''\
def repeat_row(row, partitions):
    """Return a tile with a row on so many partitions."""
    result = nl.ndarray((partitions, row.shape[1]), dtype=row.dtype, buffer=nl.sbuf)
    ones = nl.ndarray((1, partitions), dtype=row.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for first in range(0, row.shape[1], 512):
        last = min(first + 512, row.shape[1])
        product = nl.ndarray((partitions, last - first), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=ones, moving=row[:, first:last], is_stationary_onezero=True)
        nisa.tensor_copy(dst=result[:, first:last], src=product)
    return result
'''
}


class Former:
    """A call of the older dialect.

    Attributes:
        rewriter: what it is part of.
        name: its official name.
        original, updated: in the original text, and with what rules did inside it.
        arguments: (original, updated) expression by parameter.
    """

    def __init__(
        self, rewriter: Accesses, name: str, original: cst.Call, updated: cst.Call
    ) -> None:
        self.rewriter, self.name, self.original, self.updated = rewriter, name, original, updated
        self.member = name.rpartition(".")[2]
        home = former_isa if name.startswith("nki.isa") else former_language
        function = getattr(home, self.member, None)
        has_signature = callable(function) and not isinstance(function, type)
        parameters = list(inspect.signature(function).parameters) if has_signature else []  # type: ignore[arg-type]
        self.arguments: dict[str, tuple[cst.BaseExpression, cst.BaseExpression]] = {}
        self.is_starred = any(arg.star for arg in original.args)
        for k, (old, new) in enumerate(zip(original.args, updated.args, strict=True)):
            label = (
                old.keyword.value if old.keyword else parameters[k] if k < len(parameters) else ""
            )
            self.arguments[label] = old.value, new.value

    def old(self, parameter: str) -> cst.BaseExpression | None:
        """Return an argument of the original text."""
        return self.arguments[parameter][0] if parameter in self.arguments else None

    def text(self, parameter: str, default: str = "") -> str:
        """Return an argument of the new text."""
        return code_of(self.arguments[parameter][1]) if parameter in self.arguments else default

    @property
    def tiles(self) -> list[tuple[str, cst.BaseExpression]]:
        """The arguments that are tiles: new text and original expression."""
        of_tiles = [
            (code_of(b), a) for a, b in self.arguments.values() if self.rewriter.kind(a) == TILE
        ]
        return of_tiles

    @property
    def bounds(self) -> Bounds | None:
        """What its mask leaves; {} where it has none, None where that cannot be written as bounds."""
        mask = self.old("mask")
        if mask is None or m.matches(mask, m.Name("None")):
            return {}
        r = self.rewriter
        if r.kind(mask) == NUMBER:  # of loop variables: all of the statement, or nothing
            into = r.targets.get(self.original)
            if self.member != "store" and not isinstance(into, (cst.Subscript, cst.AugAssign)):
                return None
            r.frames[-1].condition = bare(mask)
            return {}
        return r.bounds(mask)

    def refuse(self, text: str) -> cst.BaseExpression:
        """Leave the call as it is, and say what is to be decided."""
        self.rewriter.decide(self.original, f"{short(self.name)}: {text}")
        return self.updated


Rule = Callable[[Former], cst.BaseExpression]
RULES: dict[str, Rule] = {}


def rule_for(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator: the function moves calls of these names."""

    def register(rule: Rule) -> Rule:
        RULES.update({f"nki.{name}": rule for name in names})
        return rule

    return register


# -- what texts say of results ---------------------------------------------------------------------------------------


def shape_text(
    r: Accesses, seen: list[Seen], tiles: list[tuple[str, cst.BaseExpression]]
) -> str | None:
    """Return the shape of a result in words of its operands; None where it varies and they do not tell it."""
    ranks = {len(one.shape) for one in seen}
    if len(ranks) != 1:
        return None
    known = [(t, n, r.seen(n), r.sizes_of(n, t)) for t, n in tiles]
    known = [row for row in known if len(row[2]) == len(seen)]
    is_column = ranks == {1} and all(one.memory != "hbm" for one in seen)
    for text, _, others, sizes in known if not is_column else []:
        if sizes and all(a.shape == b.shape for a, b in zip(seen, others, strict=True)):
            return f"{text}.shape" if sizes[0].startswith(f"{text}.shape") else tuple_text(sizes)
    found = []
    for k in range(ranks.pop()):
        values = [one.shape[k] for one in seen]
        named = ""
        for _, _, others, sizes in known if set(values) != {1} else []:
            axes = sorted(range(len(sizes or ())), key=lambda j: j != k)
            for j in axes:
                if sizes and all(b.shape[j] == n for b, n in zip(others, values, strict=True)):
                    named = named or sizes[j]
        if not named and len(set(values)) != 1:
            return None
        found.append(named or str(values[0]))
    return tuple_text([*found, "1"] if is_column else found)  # tiles of today have a free axis


def dtype_text(
    r: Accesses, dtypes: list[str], tiles: list[tuple[str, cst.BaseExpression]]
) -> str | None:
    """Return the dtype of a result in words of its operands, or as a name; None where neither tells it."""
    one = set(dtypes)
    for text, node in tiles:
        name = text.partition(".ap(")[0].partition("[")[0]
        first = "[0]" * r.blocks.get(name, 0)
        if (
            name.replace(".", "").replace("_", "").isalnum()
            and [s.dtype for s in r.seen(node)] == dtypes
        ):
            return f"{name}{first}.dtype"
    return f"{r.nl}.{stored(one.pop())}" if len(one) == 1 else None


def stored(dtype: str) -> str:
    """Return the dtype by which today's tiles hold the values of another one."""
    return "uint8" if dtype in ("bool", "bool_") else dtype


def tuple_text(sizes: list[str]) -> str:
    """Return the text of a tuple."""
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


def dtype_argument(site: Former) -> str:
    """Return the dtype that a call asks for, as today's text; "" where it asks for none."""
    node = site.old("dtype")
    if node is None or m.matches(node, m.Name("None")):
        return ""
    official = site.rewriter.official(node)
    if official.startswith("numpy."):
        return f"{site.rewriter.nl}.{stored(official.removeprefix('numpy.'))}"
    return site.text("dtype")


def operator_text(site: Former, parameter: str) -> str | None:
    """Return an operator as today's text; None where today's instructions have none such."""
    node, r = site.old(parameter), site.rewriter
    assert node is not None
    official = r.official(node)
    member = official.rpartition(".")[2]
    home = np if official.startswith("numpy.") else former_language
    if not official:
        return site.text(parameter)
    try:
        name = operator_of(getattr(home, member), site.name).name
    except (NkiError, AttributeError):
        return None
    if name not in OPS:
        return None
    if OPS[name].refusal:
        r.decide(site.original, f"{parameter}=nl.{name}: {OPS[name].refusal}")
    return f"{r.nl}.{name}"


def short(name: str) -> str:
    """Return how reports call an official name."""
    return name.replace("nki.language", "nl").replace("nki.isa", "nisa")


def expression_of(text: str) -> cst.BaseExpression:
    """Return the expression that a text is."""
    return cst.parse_expression(text)


# -- tiles that instructions write ----------------------------------------------------------------------------------


def written(
    r: Accesses,
    node: cst.CSTNode,
    tiles: list[tuple[str, cst.BaseExpression]],
    emit: Callable[[str], str],
    dtype: str = "",
    bounds: Bounds | None = None,
) -> cst.BaseExpression:
    """Write an instruction above the statement, and the tile that it writes above that; return the tile.

    Args:
        r: the rewriting.
        node: the expression whose value the tile is.
        tiles: operands, whose shapes and dtypes say those of the tile.
        emit: returns the instruction for the text of the tile.
        dtype: of the tile, where the call says it.
        bounds: of a mask: what is outside stays unwritten.
    """
    seen = r.seen(node)
    target = r.targets.get(node)
    dtypes = [one.dtype for one in seen]
    shape = shape_text(r, seen, tiles)
    element = dtype or dtype_text(r, dtypes, tiles)
    memories = {one.memory for one in seen}
    if not seen or shape is None or element is None or len(memories) != 1:
        r.decide(
            node, "it was never reached in a run, so the tile it writes is unknown: make one with nl.ndarray"
            if not seen else "its result varies from call to call: make a tile with nl.ndarray and pass it as dst="
        )  # fmt: skip
        return node  # type: ignore[return-value]
    if isinstance(target, cst.Subscript):
        into = {one.dtype for one in r.seen(target.value)}
        # What the Tensor engine writes is in PSUM, and copied from there.
        leaves = memories == {"psum"} != {one.memory for one in r.seen(target.value)}
        if len(into) == 1 and into == set(dtypes) and not bounds and not leaves:
            part = r.part(target, target)
            if part is not None:
                r.before(emit(part))
                r.drop()
                r.change(node, "what a call writes is given as dst=")
                return cst.Name("_")
    name = ""
    if isinstance(target, cst.Name):
        inside = {n.value for n in m.findall(node, m.Name()) if isinstance(n, cst.Name)}
        name = target.value if target.value not in inside else ""
    dst = name or r.fresh(target.value if isinstance(target, cst.Name) else "tile")
    r.before(f"{dst} = {r.nl}.ndarray({shape}, dtype={element}, buffer={r.nl}.{memories.pop()})")
    place = dst
    if bounds:
        access = r.cut(node, dst, bounds)  # type: ignore[arg-type]
        place = access.text if access else dst
    r.before(emit(place))
    r.change(node, "what a call writes is made with nl.ndarray and given as dst=")
    if name:
        r.drop()
    return cst.Name(dst)


def part_given(site: Former, parameter: str, bounds: Bounds) -> str:
    """Return an operand, or what a mask leaves of it; one in HBM is loaded where the instruction is not a transfer."""
    old, new = site.arguments[parameter]
    is_transfer = site.member.startswith("dma_")
    return part_of(site.rewriter, old, new, bounds, is_loaded=not is_transfer)


def part_of(
    r: Accesses,
    old: cst.BaseExpression,
    new: cst.BaseExpression,
    bounds: Bounds,
    is_loaded: bool = True,
) -> str:
    """Return a tile, or what a mask leaves of it; a tensor in HBM is loaded unless `is_loaded` is False."""
    text = code_of(new)
    if r.kind(old) != TILE:
        return text
    if bounds:
        shapes = {one.shape for one in r.seen(old)}
        kept = {
            axis: b
            for axis, b in bounds.items()
            if all(-axis <= len(s) and s[axis] > 1 for s in shapes)
        }
        access = None
        if isinstance(old, cst.Subscript) and old in r.bases:
            access = r.access(old, r.bases[old], kept)
        elif kept:
            access = r.cut(old, text, kept)
        text = access.text if access is not None else text
    if is_loaded and all(one.memory == "hbm" for one in r.seen(old)):
        text = f"{r.nl}.load({text})"
    return text
