"""Parts of tensors of the older dialect as today's slices: what index tensors, masks and block axes mean in a text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, PositionProvider

from nki_lab.migration.facts import Place
from nki_lab.migration.names import Names, code_of, dotted_name
from nki_lab.migration.observed import INDEX, MASK, NUMBER, OTHER, TILE, Observed, Seen
from nki_lab.migration.positions import (
    Bound,
    Bounds,
    Positions,
    length,
    minus,
    plus,
    skipped,
    slice_of,
    times,
)
from nki_lab.migration.rewriter import MARK, Note

#: How names of the older dialect begin.
ROOT = "neuronxcc."
_FIELDS = {"p": 0, "x": 1, "y": 2, "z": 3}


@dataclass
class Frame:
    """A statement that is visited: what stands before it, comments above it, and whether that replaces it.

    Attributes:
        condition: on which all of it is run; "" where it always is.
    """

    before: list[cst.BaseStatement] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    is_dropped: bool = False
    condition: str = ""


@dataclass
class Access:
    """A part of a tensor as today's text.

    Attributes:
        text: the whole expression.
        sizes: of its axes; none where they are not known.
        is_indexed: index tensors say it, so that bounds can cut it.
    """

    text: str
    sizes: list[str]
    is_indexed: bool = True


class Accesses(cst.CSTTransformer):
    """What rules ask of a text, and say: names, places, index tensors, masks, parts, and statements to be added."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, module: cst.Module, observed: Observed, accepted: str = "") -> None:
        super().__init__()
        self.accepted = accepted
        self.module, self.observed = module, observed
        self.names = Names(module)
        self.changes: list[Note] = []
        self.undecided: list[Note] = []
        self.helpers: set[str] = set()
        self.positions: dict[str, Positions] = {}
        self.masks: dict[str, cst.BaseExpression] = {}
        self.sizes: dict[cst.CSTNode, list[str]] = {}
        self.bases: dict[cst.CSTNode, str] = {}
        self.targets: dict[cst.CSTNode, cst.BaseExpression | cst.AugAssign] = {}
        self.products: set[str] = set()
        self.returned: set[str] = set()
        self.starts: dict[str, str] = {}
        self.blocks: dict[str, int] = {}
        self.unreached: set[cst.CSTNode] = set()
        self.branches: list[int] = []
        self.left_out: list[tuple[set[str], cst.SimpleStatementLine]] = []
        self.temporaries = 0
        self.depth = 0  # of functions around the node that is visited
        self.frames: list[Frame] = []
        self._kept: list[str] = []
        self.needed: set[str] = set()
        self.taken = {n.value for n in m.findall(module, m.Name()) if isinstance(n, cst.Name)}

    # -- what rules ask ----------------------------------------------------------------------------------------------

    def place(self, node: cst.CSTNode) -> Place:
        """Return where a node of the original text stands."""
        where = self.get_metadata(PositionProvider, node)
        assert isinstance(where, CodeRange)
        return Place(where.start.line, where.start.column, where.end.line, where.end.column)

    def seen(self, node: cst.CSTNode) -> list[Seen]:
        """Return what an expression of the original text was, in the order of time."""
        return self.observed.at(self.place(node))

    def kind(self, node: cst.CSTNode) -> str:
        """Return the kind of an expression; "" where it was not reached."""
        kinds = {one.kind for one in self.seen(node)}
        return kinds.pop() if len(kinds) == 1 else OTHER if kinds else ""

    def official(self, node: cst.CSTNode) -> str:
        """Return the official name that an expression spells, as today's modules have it; "" for any other one."""
        first, dot, rest = dotted_name(node).partition(".")
        home = self.names.bound.get(first, "")
        name = f"{home}{dot}{rest}" if home else ""
        if name.startswith("numpy."):
            return name
        return name.removeprefix(ROOT) if name.startswith(ROOT) else ""

    def alias(self, module: str) -> str:
        """Return how the text calls a module of today."""
        for local, dotted in self.names.bound.items():
            if dotted in (module, ROOT + module):
                return local
        self.needed.add(module)
        return {"nki": "nki", "nki.language": "nl", "nki.isa": "nisa"}[module]

    @property
    def nl(self) -> str:
        """How the text calls nki.language."""
        return self.alias("nki.language")

    @property
    def nisa(self) -> str:
        """How the text calls nki.isa."""
        return self.alias("nki.isa")

    def change(self, node: cst.CSTNode, text: str) -> None:
        """Note what was changed."""
        self.changes.append(Note(self.place(node).line, text))

    def decide(self, node: cst.CSTNode, text: str, cause: str = "") -> None:
        """Leave a comment above the statement that says what to decide, unless its cause is accepted."""
        if cause and cause == self.accepted:
            self.change(node, text)
            return
        self.undecided.append(Note(self.place(node).line, text))
        if self.frames:
            self.frames[-1].comments.append(f"{MARK} {text}")

    def before(self, text: str) -> None:
        """Write statements above the one that is visited."""
        self.frames[-1].before += cst.parse_module(text).body  # type: ignore[arg-type]

    def drop(self) -> None:
        """Leave the statement out that is visited: what stands before it is all of it."""
        self.frames[-1].is_dropped = True

    def fresh(self, stem: str) -> str:
        """Return a name that the text does not have."""
        while True:
            self.temporaries += 1
            name = f"{stem}_{self.temporaries}"
            if name not in self.taken:
                return name

    def helper(self, name: str) -> str:
        """Return the name of a function that is written into the text."""
        self.helpers.add(name)
        return name

    # -- index tensors and masks -------------------------------------------------------------------------------------

    def linear(self, node: cst.BaseExpression) -> Positions | None:
        """Return an index expression, or a number, as text; None where it is neither."""
        if self.kind(node) in (NUMBER, "") or isinstance(node, cst.Integer):
            return self._number(node)
        if isinstance(node, cst.Name):
            return self.positions.get(node.value)
        if isinstance(node, cst.Attribute) and node.attr.value in _FIELDS:
            grid = self.positions.get(f"{code_of(node.value)}[{_FIELDS[node.attr.value]}]")
            return grid
        if isinstance(node, cst.Subscript):
            return self._spread(node)
        if isinstance(node, cst.Call) and self.official(node.func) == "nki.language.arange":
            return self._line(node, -1)
        if isinstance(node, cst.BinaryOperation):
            a, b = self.linear(node.left), self.linear(node.right)
            if a is None or b is None:
                return None
            if isinstance(node.operator, cst.Add):
                return a.plus(b)
            if isinstance(node.operator, cst.Subtract):
                return a.plus(b, -1)
            if isinstance(node.operator, cst.Multiply) and not (a.terms and b.terms):
                return a.times(b.start) if not b.terms else b.times(a.start)
        return None

    def _number(self, node: cst.BaseExpression) -> Positions | None:
        if any(self.kind(n) in (INDEX, TILE) for n in m.findall(node, m.Name() | m.Call())):
            return None
        return Positions(bare(node))

    def _line(self, call: cst.Call, axis: int) -> Positions | None:
        arguments = [bare(arg.value) for arg in call.args]
        start, stop, step = ("0", *arguments, "1") if len(arguments) == 1 else (*arguments, "1")[:3]
        return Positions(start, {axis: (step, minus(stop, start))}) if step == "1" else None

    def _spread(self, node: cst.Subscript) -> Positions | None:
        """Return an index tensor whose axes `[:, None]` and the like place."""
        inner = self.linear(node.value)
        axes = [
            k for k, e in enumerate(node.slice) if not m.matches(e.slice, m.Index(m.Name("None")))
        ]
        if inner is None or len(axes) != 1 or set(inner.terms) - {-1}:
            return None
        axis = axes[0] - len(node.slice)
        return Positions(inner.start, {axis: inner.terms[-1]} if inner.terms else {})

    def _grid(self, node: cst.BaseExpression) -> list[Positions] | None:
        """Return the index tensors of `nl.mgrid[...]`."""
        if not isinstance(node, cst.Subscript) or self.official(node.value) != "nki.language.mgrid":
            return None
        rank, found = len(node.slice), []
        for k, element in enumerate(node.slice):
            part = element.slice
            if not isinstance(part, cst.Slice) or part.upper is None or part.step is not None:
                return None
            start = bare(part.lower) if part.lower is not None else "0"
            found.append(Positions(start, {k - rank: ("1", minus(bare(part.upper), start))}))
        return found

    def _whole(self, node: cst.BaseExpression) -> list[Positions] | None:
        """Return the index tensors of a grid that is an index by itself."""
        name = code_of(node)
        named = [p for key, p in self.positions.items() if key.startswith(f"{name}[")]
        return named or self._grid(node)

    def bounds(self, mask: cst.BaseExpression) -> Bounds | None:
        """Return what a mask leaves; None where that is not a bound of each axis."""
        if isinstance(mask, cst.Name):
            known = self.masks.get(mask.value)
            return self.bounds(known) if known is not None else None
        if m.matches(
            mask, m.BinaryOperation(operator=m.BitAnd()) | m.BooleanOperation(operator=m.And())
        ):
            assert isinstance(mask, (cst.BinaryOperation, cst.BooleanOperation))
            a, b = self.bounds(mask.left), self.bounds(mask.right)
            return (
                None
                if a is None or b is None
                else {k: [*a.get(k, []), *b.get(k, [])] for k in {*a, *b}}
            )
        if m.matches(
            mask, m.BinaryOperation(operator=m.BitOr()) | m.BooleanOperation(operator=m.Or())
        ):
            assert isinstance(mask, (cst.BinaryOperation, cst.BooleanOperation))
            sides = [self.bounds(mask.left), self.bounds(mask.right)]
            kept = [one for one in sides if one is None or not _is_nothing(one)]
            return kept[0] if len(kept) == 1 else None
        if not isinstance(mask, cst.Comparison) or len(mask.comparisons) != 1:
            return None
        (one,) = mask.comparisons
        left, right = self.linear(mask.left), self.linear(one.comparator)
        operator = type(one.operator).__name__
        if left is None or right is None or not operator.startswith(("Less", "Greater")):
            return None
        is_below, is_equal = operator.startswith("Less"), operator.endswith("Equal")
        if right.terms and not left.terms:
            left, right, is_below = right, left, not is_below
        if right.terms or len(left.terms) != 1:
            return None
        ((axis, (step, _)),) = left.terms.items()
        if step.startswith("-"):
            return None
        stop = right.start if is_below != is_equal else plus(right.start, "1")
        return {axis: [Bound(left.start, stop, step, is_lower=not is_below)]}

    # -- accesses ----------------------------------------------------------------------------------------------------

    def access(
        self, node: cst.Subscript, value: str, bounds: Bounds | None = None
    ) -> Access | None:
        """Return a part of a tensor, within bounds; None where no slices are that part.

        Args:
            node: in the original text.
            value: what has the part, in the new text.
            bounds: what a mask leaves of each axis.
        """
        entries = [element.slice for element in node.slice]
        blocks = {one.blocks for one in self.seen(node.value)} or {0}
        if len(blocks) != 1:
            return None
        count = blocks.pop()
        indices = [e.value if isinstance(e, cst.Index) else None for e in entries]
        if len(indices) == 1 and indices[0] is not None and self.kind(indices[0]) == MASK:
            inner = self.bounds(indices[0])
            return None if inner is None else self.cut(node.value, value, inner)
        grid = self._whole(indices[0]) if len(indices) == 1 and indices[0] is not None else None
        if grid is not None and not count:
            return self._sliced(node, value, grid, bounds or {})
        if not any(
            i is not None and (self.kind(i) == INDEX or self._chosen(i) is not None)
            for i in indices
        ):
            return self._basic(node, value, entries, count)
        chosen = [k for k, i in enumerate(indices) if i is not None and self._chosen(i) is not None]
        if chosen:
            return self._indirect(node, value, indices, chosen, bounds or {}) if not count else None
        linear = [self.linear(i) if i is not None else None for i in indices]
        if any(i is None for i in linear):
            return None
        for position in linear[:count]:
            assert position is not None
            if position.terms:
                return None
            value = f"{value}[{position.start}]"
        return self._sliced(node, value, [p for p in linear[count:] if p is not None], bounds or {})

    def cut(self, node: cst.BaseExpression, value: str, bounds: Bounds) -> Access | None:
        """Return what bounds leave of a tile; None where its number of axes varies."""
        shapes = {one.shape for one in self.seen(node)}
        if len({len(shape) for shape in shapes}) != 1:
            return None
        rank = len(next(iter(shapes)))
        sizes = self.sizes_of(node, value) or [f"{value}.shape[{k}]" for k in range(rank)]
        parts = [length(sizes[k], bounds.get(k - rank, [])) for k in range(rank)]
        cuts = [
            slice_of("0", "1", sizes[k], bounds[k - rank]) if k - rank in bounds else ":"
            for k in range(rank)
        ]
        return Access(f"{value}[{', '.join(cuts)}]", parts)

    def sizes_of(self, node: cst.CSTNode, value: str) -> list[str] | None:
        """Return the sizes of a tile as text; None where it is neither a name nor an access that was moved."""
        known = self.sizes.get(node)
        if known is not None:
            return known
        ranks = {len(one.shape) for one in self.seen(node)}
        name, _, rest = value.partition("[")
        if rest and rest.count("]") == rest.count("[") + 1 == self.blocks.get(name):
            name += "0"  # one of a list of tiles
        else:
            name += rest
        if len(ranks) == 1 and name.replace(".", "").replace("_", "").isalnum():
            return [f"{value}.shape[{k}]" for k in range(ranks.pop())]
        return None

    def part(self, target: cst.Subscript, updated: Any, bounds: Bounds | None = None) -> str | None:
        """Return the part of a tile that is written; None, with a comment, where no slices are it."""
        access = self.access(target, code_of(updated.value), bounds)
        if access is None:
            self.decide(
                target, f"{code_of(target)}: write the part that is meant as slices, or with .ap"
            )
            return None
        return access.text

    def _sliced(
        self, node: cst.Subscript, value: str, linear: list[Positions], bounds: Bounds
    ) -> Access | None:
        ranks = {len(s.shape) for p in self._indices(node) for s in self.seen(p) if s.kind == INDEX}
        rank = max(ranks, default=len(linear))
        used = [axis for position in linear for axis in position.terms]
        if any(a not in range(-rank, 0) for a in used):
            return None
        if len(set(used)) != len(used) or any(len(p.terms) > 1 for p in linear):
            return self._pattern(node, value, linear, rank, bounds)
        is_ordered = used == sorted(used)
        missing = [axis for axis in range(-rank, 0) if axis not in used]
        parts, sizes, axes = [], [], []
        for k, position in enumerate(linear):
            if position.terms:
                ((axis, (step, size)),) = position.terms.items()
                if step.startswith("-"):
                    return self._pattern(node, value, linear, rank, bounds)
                parts.append(slice_of(position.start, step, size, bounds.get(axis, [])))
                sizes.append(length(size, bounds.get(axis, [])))
                axes.append(axis)
                continue
            later = [a for p in linear[k + 1 :] for a in p.terms]
            following = later[0] if later else 0
            if (
                missing
                and is_ordered
                and missing[0] < following
                and (not axes or missing[0] > axes[-1])
            ):
                axes.append(missing.pop(0))
                parts.append(f"{position.start}:{plus(position.start, '1')}")
                sizes.append("1")
            else:
                parts.append(position.start)
        if missing and not is_ordered:
            return None
        text = f"{value}[{', '.join(parts)}]"
        for axis in missing:  # of size 1, which a tensor of fewer axes does not have
            text += f".expand_dim({axis + rank})"
            sizes.insert(axis + rank, "1")
        if not is_ordered:
            order = [axes.index(axis) for axis in range(-rank, 0)]
            text += f".permute(({', '.join(map(str, order))}))"
            sizes = [sizes[k] for k in order]
        return Access(text, sizes)

    def _chosen(
        self, node: cst.BaseExpression
    ) -> tuple[cst.BaseExpression, cst.BaseExpression | None] | None:
        """Return the tile in an index, and what is added to it; None where there is no tile."""
        if self.kind(node) == TILE:
            return node, None
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            for tile, other in ((node.left, node.right), (node.right, node.left)):
                if self.kind(tile) == TILE:
                    return tile, other
        return None

    def _indirect(
        self,
        node: cst.Subscript,
        value: str,
        indices: list[cst.BaseExpression | None],
        chosen: list[int],
        bounds: Bounds,
    ) -> Access | None:
        """Return a part at rows that a tile names, one for each partition, or at a place that one element names."""
        part = self._chosen(indices[chosen[0]])  # type: ignore[arg-type]
        assert part is not None
        tile, more = part
        shapes = {one.shape for one in self.seen(tile)}
        ranks = {len(one.shape) for one in self.seen(node)}
        if len(chosen) > 1 or len(ranks) != 1 or any(s[1:] != (1,) for s in shapes):
            return None
        text, rank = bare(tile), ranks.pop()
        if isinstance(tile, cst.Subscript):
            access = self.access(tile, code_of(tile.value))
            if access is None:
                return None
            text = access.text
        linear = [self.linear(i) if i is not None else None for i in indices]
        linear[chosen[0]] = self.linear(more) if more is not None else Positions("0")
        if shapes == {(1, 1)}:
            given = f"scalar_offset={text}"
        elif more is not None:
            return None
        else:
            size = f"{text}.shape[0]" if isinstance(tile, cst.Name) else str(max(shapes)[0])
            linear[chosen[0]] = Positions("0", {-rank: ("1", size)})
            rows = bounds.get(-rank, [])
            cut = f"[{skipped(rows)}:{length(size, rows)}, :]" if rows else ""
            given = f"vector_offset={text}{cut}"
        if any(p is None for p in linear):
            return None
        given = f"{given}, indirect_dim={chosen[0]}"
        return self._pattern(node, value, linear, rank, bounds, given)  # type: ignore[arg-type]

    def _pattern(
        self,
        node: cst.Subscript,
        value: str,
        linear: list[Positions],
        rank: int,
        bounds: Bounds,
        given: str = "",
    ) -> Access | None:
        """Return a part whose indices have several axes, or share one, as an access pattern over the whole tensor."""
        shapes = {len(s.shape) - s.blocks for s in self.seen(node.value)}
        whole = isinstance(node.value, (cst.Name, cst.Subscript))
        if shapes != {len(linear)} or not whole:
            return None
        if any(-rank in p.terms for p in linear[1:]) and self._on_chip(node.value):
            return None
        strides = ["1"]
        for k in range(len(linear) - 1, 0, -1):
            strides.insert(0, times(f"{value}.shape[{k}]", strides[0]))
        pairs, sizes, offset = [], [], "0"
        for axis in range(-rank, 0):
            steps = [
                (p.terms[axis], s) for p, s in zip(linear, strides, strict=True) if axis in p.terms
            ]
            step = strides[0] if axis == -rank else "0"
            if steps:
                step = "0"
                for (one, _), stride in steps:
                    step = plus(step, times(one, stride))
            sizes.append(length(steps[0][0][1], bounds.get(axis, [])) if steps else "1")
            pairs.append(f"[{step}, {sizes[-1]}]")
        for position, stride in zip(linear, strides, strict=True):
            start = position.start
            for axis, (step, _) in position.terms.items():
                start = plus(start, times(step, skipped(bounds.get(axis, []))))
            offset = plus(offset, times(start, stride))
        more = f", offset={offset}" if offset != "0" else ""
        more += f", {given}" if given else ""
        return Access(f"{value}.ap(pattern=[{', '.join(pairs)}]{more})", sizes)

    def _on_chip(self, node: cst.CSTNode) -> bool:
        return any(one.memory != "hbm" for one in self.seen(node))

    def _indices(self, node: cst.Subscript) -> list[cst.BaseExpression]:
        return [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]

    def _basic(
        self, node: cst.Subscript, value: str, entries: list[Any], count: int
    ) -> Access | None:
        texts = [bare(e.value) if isinstance(e, cst.Index) else code_of(e) for e in entries]
        if any(i is not None and self.kind(i) == TILE for i in self._indices(node)):
            return None
        if count:
            if "..." in texts[:count] or any(isinstance(e, cst.Slice) for e in entries[:count]):
                return None
            for text in texts[:count]:
                value = f"{value}[{text}]"
            entries, texts = entries[count:], texts[count:]
        if not texts or texts == ["..."]:
            return Access(value, [], is_indexed=False)
        base = {len(s.shape) for s in self.seen(node.value)}
        results = {len(s.shape) for s in self.seen(node)}
        rank = base.pop() - count if len(base) == 1 else len(entries)
        if "..." not in texts and "None" not in texts and len(results) == 1:
            integers = [k for k, e in enumerate(entries) if isinstance(e, cst.Index)
                        and self.kind(e.value) in (NUMBER, "")]  # fmt: skip
            wanted = results.pop() - (rank - len(integers))
            for k in reversed(integers):
                if wanted > 0:
                    texts[k], wanted = f"{texts[k]}:{plus(texts[k], '1')}", wanted - 1
        sizes = [self._of_ds(e) or text for e, text in zip(entries, texts, strict=True)]
        return Access(f"{value}[{', '.join(texts)}]", _sizes(value, sizes, rank), is_indexed=False)

    def _of_ds(self, entry: cst.BaseSlice) -> str:
        """Return a slice as long as nl.ds, where an entry is that; "" for others."""
        call = entry.value if isinstance(entry, cst.Index) else None
        is_ds = isinstance(call, cst.Call) and self.official(call.func) == "nki.language.ds"
        return f"0:{bare(call.args[1].value)}" if is_ds and len(call.args) == 2 else ""  # type: ignore[union-attr]

    def within(self, old: cst.Subscript, value: str, bounds: Bounds) -> Access | None:
        """Return what bounds leave of a part by slices, which may pass the end of the tensor; None for other parts."""
        positions = []
        for k, element in enumerate(old.slice):
            part, axis = element.slice, k - len(old.slice)
            if not isinstance(part, cst.Slice) or part.step is not None:
                return None
            start = bare(part.lower) if part.lower is not None else "0"
            stop = bare(part.upper) if part.upper is not None else f"{value}.shape[{k}]"
            positions.append(Positions(start, {axis: ("1", minus(stop, start))}))
        return self._sliced(old, value, positions, bounds)


def _is_nothing(bounds: Bounds) -> bool:
    """Tell whether bounds leave no position, as `nl.arange(n) < 0`."""
    ends = [one.position for along in bounds.values() for one in along if not one.is_lower]
    return any(end == "0" or (end.startswith("-") and end[1:].isdigit()) for end in ends)


def _sizes(value: str, texts: list[str], rank: int) -> list[str]:
    """Return the sizes of the part that slices and numbers select; none where the text does not tell."""
    sizes = []
    if (
        "..." in texts
        or "None" in texts
        or any(text.count(":") > 1 or "-" in text for text in texts)
    ):
        return []
    for k, text in enumerate([*texts, *[":"] * (rank - len(texts))]):
        first, colon, last = (part.strip() for part in text.partition(":"))
        if colon:
            sizes.append(minus(last or f"{value}.shape[{k}]", first or "0"))
    return sizes


def bare(node: cst.CSTNode) -> str:
    """Return an expression without parentheses around it, on one line."""
    if isinstance(node, cst.BaseExpression) and node.lpar:
        node = node.with_changes(lpar=[], rpar=[])
    return " ".join(code_of(node).split())
