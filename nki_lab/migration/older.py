"""Moves kernels of the older dialect (`neuronxcc.nki`) to today's: statements, accesses and operators.

What a call becomes is in `older_calls.py`, what index tensors become in `positions.py`; a run tells what each
expression is (`observed.py`). Everything that needs more than one expression is written above its statement.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import libcst as cst
import libcst.matchers as m
import numpy as np
from libcst.metadata import MetadataWrapper

from nki_lab.migration.names import code_of, dotted_name
from nki_lab.migration.observed import INDEX, MASK, NUMBER, TILE, Observed, Seen
from nki_lab.migration.older_access import ROOT, Accesses, Frame
from nki_lab.migration.older_calls import moved_call
from nki_lab.migration.older_grids import with_grids
from nki_lab.migration.older_language import binary
from nki_lab.migration.older_sites import HELPERS
from nki_lab.migration.rewriter import Moved, Note, _under_comments
from nki_lab.migration.widths import with_short_lines

_STATEMENT = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
_OPERATORS = {
    "Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Divide": "divide", "Modulo": "mod",
    "Power": "power", "BitAnd": "bitwise_and", "BitOr": "bitwise_or", "BitXor": "bitwise_xor",
    "LeftShift": "left_shift", "RightShift": "right_shift",
}  # fmt: skip
_COMPARED = {
    "LessThan": "less", "LessThanEqual": "less_equal", "GreaterThan": "greater",
    "GreaterThanEqual": "greater_equal", "Equal": "equal", "NotEqual": "not_equal",
}  # fmt: skip
_IMPORTS = {
    "nki": "import nki", "nki.language": "import nki.language as nl", "nki.isa": "import nki.isa as nisa",
}  # fmt: skip

_RUNNERS = (
    "nki.jit",
    "nki.trace",
    "nki.baremetal",
    "nki.benchmark",
    "nki.profile",
    "nki.simulate_kernel",
)
_LIMITS = {
    f"nki.language.fp32.{name}": repr(float(getattr(np.finfo(np.float32), name)))
    for name in ("min", "max")
}


def moved_from_older(
    text: str, observed: Observed, grids: dict[str, tuple[int, ...]], accepted: str = ""
) -> Moved:
    """Return the text of a module of the older dialect for today's.

    Args:
        text: the module.
        observed: what a run shows of it.
        grids: on which kernels were launched, by name.
        accepted: a cause of other values that is no matter to decide.
    """
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    rewriter = Older(wrapper.module, observed, accepted)
    code = wrapper.visit(rewriter).code
    kept = {one.name.value for one in rewriter.unreached if isinstance(one, cst.FunctionDef)}
    code, undecided = with_grids(code, rewriter.alias("nki.language"), grids, kept)
    rewriter.undecided += [Note(0, text) for text in undecided]
    changes, left = (
        list(dict.fromkeys(sorted(notes, key=lambda note: note.line)))
        for notes in (rewriter.changes, rewriter.undecided)
    )
    return Moved(with_short_lines(code, text), changes, left, rewriter.branches)


class Older(Accesses):
    """Applies every rule to a module."""

    # -- statements --------------------------------------------------------------------------------------------------

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Open a statement."""
        if isinstance(node, _STATEMENT):
            self.frames.append(Frame())
        return super().on_visit(node)

    def on_leave(self, original: Any, updated: Any) -> Any:  # type: ignore[override]
        """Close a statement: put what it needs before it, and comments above that."""
        result: Any = super().on_leave(original, updated)
        if not isinstance(original, _STATEMENT):
            return result
        frame = self.frames.pop()
        if isinstance(original, cst.FunctionDef):
            self.positions, self.masks, self.blocks, self.left_out = {}, {}, {}, []
            self.depth -= original not in self.unreached
            if original in self.unreached:  # its head is that of a module that is moved
                given = original.params
                result = result.with_changes(
                    decorators=self._decorators(original),
                    params=given.with_changes(
                        params=[self.leave_Param(p, p) for p in given.params]
                    ),
                )
        lines = [line for line in original.leading_lines if line.comment]
        if frame.is_dropped and not frame.before:
            self._kept += [line.comment.value for line in lines if line.comment]
            self._kept += [c.value for c in _trailing(original)]
            return cst.RemoveFromParent()
        statements = [*frame.before, *([] if frame.is_dropped else [result])]
        if frame.condition:
            block = cst.IndentedBlock(statements)
            statements = [cst.If(cst.parse_expression(frame.condition), block)]
            if frame.before:
                frame.before = statements
        if frame.before:
            leading = result.leading_lines
            statements = [s.with_changes(leading_lines=[]) for s in statements]
            statements[0] = statements[0].with_changes(leading_lines=leading)
            if frame.is_dropped and isinstance(original, cst.SimpleStatementLine):
                statements[-1] = _with_trailing(statements[-1], original.trailing_whitespace)
        comments, self._kept = [*self._kept, *frame.comments], []
        result = cst.FlattenSentinel(statements) if len(statements) > 1 else statements[0]
        return _under_comments(result, comments)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        """Note what the function adds products to, and what it returns; leave one that no run reached as it is."""
        if not self._is_reached(node) and self._is_of_kernel(node.body):
            self.decide(
                node, f"no run reached `{node.name.value}`, so it stays as it was: call it, too"
            )
            self.unreached.add(node)
            return False
        self.depth += 1
        added: dict[str, list[cst.CSTNode]] = {}
        for found in m.findall(node, m.AugAssign(operator=m.AddAssign(), value=m.Call())):
            assert isinstance(found, cst.AugAssign) and isinstance(found.value, cst.Call)
            if self._is_product(found.value):
                target: Any = found.target
                while isinstance(target, cst.Subscript):
                    target = target.value
                if not m.findall(found.value, m.Arg(keyword=m.Name("mask"))):
                    added.setdefault(code_of(target), []).append(found)
        self.products |= {
            name for name in added if not self._is_read_early(node, name, added[name])
        }
        for found in m.findall(node, m.Return()):
            names = m.findall(found, m.Name())
            self.returned |= {n.value for n in names if isinstance(n, cst.Name)}
        return True

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> bool:
        """Leave a branch that no run reached as it is."""
        line = self.place(node.body[0]).line
        if line in self.observed.forced:
            self.change(
                node.body[0],
                "no run reached this branch, so its values are not compared: it is moved by what it does when its"
                " condition is set aside",
            )
        if not self.depth or self._is_reached(node) or not self._is_of_kernel(node):
            return True
        self.branches.append(line)
        self.unreached.add(node)
        self.decide(
            node.body[0], "no run reached a branch, so it stays as it was: make a call that does"
        )
        return False

    def _is_read_early(self, node: cst.FunctionDef, name: str, added: list[cst.CSTNode]) -> bool:
        """Tell whether a tile may be read before the first product is added to it."""
        assigned = m.findall(node, m.Assign(targets=[m.AssignTarget(m.Name(name))]))
        made = sorted(self.place(one).line for one in assigned)
        products = {self.place(one).line for one in added}
        reads = {self.place(one).line for one in m.findall(node, m.Name(name))} - products - {*made}
        for first, last in itertools.pairwise([*made, sys.maxsize]):
            end = max((line for line in products if first < line < last), default=first)
            if any(first < line < end for line in reads):
                return True
        return False

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:  # type: ignore[override]
        """Define in a branch that stays as it was the index tensors and masks that are left out above it."""
        if original not in self.unreached:
            return updated
        needed = {n.value for n in m.findall(original, m.Name()) if isinstance(n, cst.Name)}
        lines: list[cst.SimpleStatementLine] = []
        for names, line in reversed(self.left_out):
            if names & needed:
                needed |= {n.value for n in m.findall(line, m.Name()) if isinstance(n, cst.Name)}
                lines.insert(0, line)
        return updated.with_changes(body=[*lines, *updated.body])

    def _is_reached(self, node: cst.CSTNode) -> bool:
        where = self.place(node)
        return any(where.line <= place.line <= where.end_line for place in self.observed.seen)

    def _is_of_kernel(self, node: cst.CSTNode) -> bool:
        official = {self.official(part) for part in m.findall(node, m.Name() | m.Attribute())}
        return any(name.startswith(("nki.language.", "nki.isa.")) for name in official)

    def _is_product(self, call: cst.Call) -> bool:
        return self.official(call.func) in ("nki.language.matmul", "nki.isa.nc_matmul")

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        """Note the same of what has a type."""
        if node.value is not None:
            self.visit_Assign(cst.Assign([cst.AssignTarget(node.target)], node.value))

    def visit_Assign(self, node: cst.Assign) -> None:
        """Note what index tensors and masks are called, and where the result of a call goes."""
        target: Any = node.targets[0].target
        if len(node.targets) != 1:
            return
        if self._is_left_out(node):
            names = {code_of(n) for n in m.findall(target, m.Name())}
            self.left_out.append((names, cst.SimpleStatementLine([node])))
        grid = self._grid(node.value)
        if grid is not None:
            if isinstance(target, cst.Tuple):
                for element, one in zip(target.elements, grid, strict=False):
                    self.positions[code_of(element.value)] = one
            else:
                self.positions.update({f"{code_of(target)}[{k}]": p for k, p in enumerate(grid)})
        elif isinstance(target, cst.Tuple) and self._are_positions(node):
            assert isinstance(node.value, cst.Tuple)
            for name, value in zip(target.elements, node.value.elements, strict=True):
                found = self.linear(value.value)
                if found is not None:
                    self.positions[code_of(name.value)] = found
        elif isinstance(target, cst.Name):
            directive = self.official(node.value)
            if directive.startswith("nki.compiler.") or directive in _RUNNERS:
                self.names.bound[target.value] = ROOT + directive
            kind = self.kind(node.value)
            if kind == INDEX:
                found = self.linear(node.value)
                if found is not None:
                    self.positions[target.value] = found
            elif kind == MASK:
                self.masks[target.value] = node.value
            if isinstance(node.value, cst.Call):
                self.targets[node.value] = target
        elif isinstance(target, cst.Subscript) and isinstance(node.value, cst.Call):
            self.targets[node.value] = target

    def _is_left_out(self, node: cst.Assign) -> bool:
        """Tell whether an assignment makes index tensors or a mask."""
        is_grid = self._grid(node.value) is not None or self._are_positions(node)
        return is_grid or self.kind(node.value) in (INDEX, MASK)

    def _are_positions(self, node: cst.Assign) -> bool:
        target, value = node.targets[0].target, node.value
        return (
            isinstance(target, cst.Tuple)
            and isinstance(value, cst.Tuple)
            and len(target.elements) == len(value.elements)
            and all(self.kind(element.value) == INDEX for element in value.elements)
        )

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:  # type: ignore[override]
        """Leave index tensors and masks out, and write what is assigned to a part of a tile."""
        target = original.targets[0].target
        if self._is_left_out(original):
            self.change(
                original.value, "index tensors and masks are slices and bounds where they are used"
            )
            self.drop()
        elif (name := self.official(original.value)).startswith("nki.compiler."):
            self.change(original.value, "where the older compiler put a tile is left to today's")
            self.drop()
        elif name == "nki.simulate_kernel":
            self.drop()
        elif name in _RUNNERS:
            return updated.with_changes(value=cst.parse_expression(f"{self.alias('nki')}.jit"))
        elif isinstance(target, cst.Subscript) and not self.frames[-1].is_dropped:
            self._assigned(original, target, updated)
        return updated

    def _assigned(self, original: cst.Assign, target: cst.Subscript, updated: cst.Assign) -> None:
        if not isinstance(target, cst.Subscript) or self.kind(target.value) != TILE:
            return
        part = self.part(target, updated.targets[0].target)
        if part is None:
            return
        value, kind = code_of(updated.value), self.kind(original.value)
        alone, now = m.Call(args=[m.Arg(keyword=None)]), updated.value
        if m.matches(original.value, alone) and isinstance(now, cst.Call):
            assert isinstance(original.value, cst.Call)
            if self.official(original.value.func) == "nki.language.copy":
                value = code_of(now.args[0].value)  # a copy of a copy is one
        if kind == TILE:
            memories = {s.memory for n in (target.value, original.value) for s in self.seen(n)}
            copy = "dma_copy" if "hbm" in memories else "tensor_copy"
            self.before(f"{self.nisa}.{copy}(dst={part}, src={value})")
        else:
            self.before(f"{self.nisa}.memset(dst={part}, value={value})")
        self.change(original.value, "`t[...] = value` is an instruction with dst=t")
        self.drop()

    def visit_For(self, node: cst.For) -> None:
        """Note where the variable of a loop starts."""
        if isinstance(node.iter, cst.Call) and isinstance(node.target, cst.Name):
            words = [code_of(arg.value) for arg in node.iter.args if arg.keyword is None]
            self.starts[node.target.value] = words[0] if len(words) > 1 else "0"

    def leave_For(self, original: cst.For, updated: cst.For) -> cst.For:  # type: ignore[override]
        """Begin each trip with the numbers of the first one, as a body that was traced once did."""
        call = original.iter
        traced_once = ("nki.language.affine_range", "nki.language.sequential_range")
        if not isinstance(call, cst.Call) or self.official(call.func) not in traced_once:
            return updated
        carried = [
            found.target.value
            for found in m.findall(original.body, m.AugAssign(target=m.Name()))
            if isinstance(found, cst.AugAssign)
            and isinstance(found.target, cst.Name)
            and self.kind(found.target) == NUMBER
        ]
        carried += [
            target.value
            for found in m.findall(original.body, m.Assign(targets=[m.AssignTarget(m.Name())]))
            if isinstance(found, cst.Assign)
            and isinstance(target := found.targets[0].target, cst.Name)
            and self.kind(found.value) == NUMBER
            and m.findall(found.value, m.Name(target.value))
        ]
        body = []
        for name in dict.fromkeys(carried):
            first = self.fresh(f"{name}_before")
            self.before(f"{first} = {name}")
            body.append(cst.parse_statement(f"{name} = {first}"))
            self.change(
                original,
                f"`{name}` is the same in each trip: the older dialect traced the body once",
            )
        if not body or not isinstance(updated.body, cst.IndentedBlock):
            return updated
        return updated.with_changes(
            body=updated.body.with_changes(body=[*body, *updated.body.body])
        )

    def visit_Subscript(self, node: cst.Subscript) -> None:
        """Note which names are lists of tiles, also where a function is given them."""
        blocks = {one.blocks for one in self.seen(node.value)}
        if isinstance(node.value, cst.Name) and len(blocks) == 1 and blocks != {0}:
            self.blocks[node.value.value] = blocks.pop()

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        """Note where a product is added."""
        is_added = isinstance(node.operator, cst.AddAssign) and isinstance(node.value, cst.Call)
        in_psum = any(s.memory == "psum" for s in self._target(node.target))
        if is_added and in_psum and self._is_product(node.value):  # type: ignore[arg-type]
            self.targets[node.value] = node

    def _target(self, target: cst.BaseExpression) -> list[Seen]:
        return self.seen(target.value if isinstance(target, cst.Subscript) else target)

    def leave_AugAssign(self, original: cst.AugAssign, updated: cst.AugAssign) -> cst.AugAssign:  # type: ignore[override]
        """Write what changes a tile in place as an instruction."""
        seen = self._target(original.target)
        if self.frames[-1].is_dropped or not seen or seen[0].kind != TILE:
            if seen and seen[0].kind == INDEX:
                self.decide(original, "an index tensor changes here: write its start as a number")
            return updated
        name = _OPERATORS.get(type(original.operator).__name__.removesuffix("Assign"))
        if name is None:
            self.decide(original, "this operator has no instruction")
            return updated
        place = code_of(updated.target)
        if isinstance(original.target, cst.Subscript):
            part = self.part(original.target, updated.target)
            if part is None:
                return updated
            place = part
        value, of_value = code_of(updated.value), self.seen(original.value)
        is_tile = bool(of_value) and of_value[0].kind == TILE
        is_column = (
            is_tile
            and not isinstance(original.target, cst.Subscript)
            and all(
                s.shape[1:] == (1,) != t.shape[1:] for s, t in zip(of_value, seen, strict=False)
            )
        )
        operator = f"{self.nl}.{name}"
        words = f"tensor_scalar(dst={place}, data={place}, op0={operator}, operand0={value})"
        if is_tile and not is_column:
            in_psum = {s.memory for s in (*seen, *of_value)} == {"psum"}
            value = f"{self.nl}.copy({value})" if in_psum else value
            words = f"tensor_tensor(dst={place}, data1={place}, data2={value}, op={operator})"
        self.before(f"{self.nisa}.{words}")
        self.change(original, "an augmented assignment is an instruction with dst=")
        self.drop()
        return updated

    def leave_Expr(self, original: cst.Expr, updated: cst.Expr) -> cst.Expr:  # type: ignore[override]
        """Leave a call out whose result nobody takes, where it has been written above."""
        if isinstance(original.value, cst.Call) and isinstance(updated.value, cst.Name):
            self.drop()
        return updated

    # -- expressions -------------------------------------------------------------------------------------------------

    def leave_Attribute(
        self, original: cst.Attribute, updated: cst.Attribute
    ) -> cst.BaseExpression:  # type: ignore[override]
        """Ask the first tile of a list for what all of them have."""
        limit = _LIMITS.get(self.official(original))
        if limit is not None:
            self.change(original, f"{code_of(original)} is a number")
            return cst.parse_expression(limit)
        if original.attr.value == "benchmark_result":
            self.decide(
                original,
                "today's NKI has no nki.benchmark and no benchmark_result: take the latency from a profile",
            )
        count = self.blocks.get(code_of(original.value), 0)
        if not count or original.attr.value not in ("dtype", "shape"):
            return updated
        if original.attr.value == "shape":
            self.decide(original, f"{code_of(original)}: write the numbers of tiles in a list")
        first = cst.parse_expression(code_of(updated.value) + "[0]" * count)
        return updated.with_changes(value=first)

    def leave_Subscript(
        self, original: cst.Subscript, updated: cst.Subscript
    ) -> cst.BaseExpression:  # type: ignore[override]
        """Write a part of a tensor that is read as slices."""
        if self.kind(original) != TILE or self.kind(original.value) != TILE:
            return updated
        access = self.access(original, code_of(updated.value))
        if access is None:
            self.decide(
                original,
                f"{code_of(original)}: write the part that is meant as slices, or with .ap",
            )
            return updated
        if access.sizes:
            self.sizes[original] = access.sizes
        if access.sizes and access.is_indexed:
            self.bases[original] = code_of(updated.value)
            is_pattern = ".ap(pattern=" in access.text
            words = "one by slices" if not is_pattern else "an access pattern over the whole tensor"
            self.change(original, f"an access by index tensors is {words}")
        return cst.parse_expression(access.text)

    def leave_BinaryOperation(self, original: Any, updated: Any) -> cst.BaseExpression:
        """Write an operator of tiles as a call."""
        name = _OPERATORS.get(type(original.operator).__name__)
        if self.kind(original) != TILE:
            return updated  # type: ignore[no-any-return]
        if name is None:
            self.decide(original, "this operator of tiles has no instruction")
            return updated  # type: ignore[no-any-return]
        self.change(original, "operators of tiles are calls")
        return binary(
            self, original, name, (original.left, updated.left), (original.right, updated.right)
        )

    def leave_Comparison(
        self, original: cst.Comparison, updated: cst.Comparison
    ) -> cst.BaseExpression:  # type: ignore[override]
        """Write a comparison of tiles as a call."""
        if self.kind(original) != TILE or len(original.comparisons) != 1:
            return updated
        (one,), (new,) = original.comparisons, updated.comparisons
        name = _COMPARED[type(one.operator).__name__]
        self.change(original, "operators of tiles are calls")
        return binary(
            self, original, name, (original.left, updated.left), (one.comparator, new.comparator)
        )

    def leave_UnaryOperation(self, original: Any, updated: Any) -> cst.BaseExpression:
        """Write a sign of a tile as a call."""
        if self.kind(original) != TILE or not isinstance(original.operator, cst.Minus):
            return updated  # type: ignore[no-any-return]
        return cst.parse_expression(f"{self.nl}.multiply({code_of(updated.expression)}, -1.0)")

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:  # type: ignore[override]
        """Write a call as today's."""
        return moved_call(self, original, updated)

    # -- decorators, imports -----------------------------------------------------------------------------------------

    def _decorators(self, function: cst.FunctionDef) -> list[cst.Decorator]:
        moved = [self.leave_Decorator(one, one) for one in function.decorators]
        return [one for one in moved if isinstance(one, cst.Decorator)]

    def leave_Decorator(self, original: cst.Decorator, updated: cst.Decorator) -> Any:  # type: ignore[override]
        """Write `@nki.jit`, which is all there is."""
        node = original.decorator
        name = self.official(node.func if isinstance(node, cst.Call) else node)
        if name.startswith("nki.compiler."):
            self.change(original, f"@{name} is left out: it directs the older compiler")
            return cst.RemoveFromParent()
        if (name.startswith("nki.") and name != "nki.jit") or (name and isinstance(node, cst.Call)):
            self.change(original, f"@{name} is @nki.jit")
            return updated.with_changes(decorator=cst.parse_expression(f"{self.alias('nki')}.jit"))
        return updated

    def leave_Param(self, original: cst.Param, updated: cst.Param) -> cst.Param:  # type: ignore[override]
        """Leave out types of the older dialect."""
        annotation = original.annotation
        if annotation and self.official(annotation.annotation).startswith("nki.typing"):
            return updated.with_changes(annotation=None)
        return updated

    def leave_AnnAssign(self, original: cst.AnnAssign, updated: cst.AnnAssign) -> Any:  # type: ignore[override]
        """Leave out types of the older dialect."""
        names = m.findall(original.annotation, m.Name())
        is_typed = any(self.official(n).startswith("nki.typing") for n in names)
        if not is_typed or original.value is None or updated.value is None:
            return updated
        before = cst.Assign([cst.AssignTarget(original.target)], original.value)
        return self.leave_Assign(
            before, cst.Assign([cst.AssignTarget(updated.target)], updated.value)
        )

    def leave_Import(self, original: cst.Import, updated: cst.Import) -> Any:  # type: ignore[override]
        """Import today's modules."""
        kept = [alias for alias in updated.names if self._imported(dotted_name(alias.name))]
        names = []
        for alias in kept:
            dotted = dotted_name(alias.name)
            if dotted.startswith(ROOT):
                new = dotted.removeprefix(ROOT)
                self.change(original, f"{dotted} is {new}")
                alias = alias.with_changes(name=cst.parse_expression(new))
                if alias.asname is not None and code_of(alias.asname.name) == new:
                    alias = alias.with_changes(asname=None)
            names.append(alias)
        if not names:
            return self._without(updated)
        return updated.with_changes(
            names=[*names[:-1], names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
        )

    def _imported(self, dotted: str) -> bool:
        return not dotted.startswith(ROOT) or dotted.removeprefix(ROOT) in _IMPORTS

    def _without(self, updated: Any) -> Any:
        self.drop()
        return updated

    def leave_ImportFrom(self, original: cst.ImportFrom, updated: cst.ImportFrom) -> Any:  # type: ignore[override]
        """Import from today's modules what they have."""
        module = dotted_name(original.module) if original.module else ""
        if (
            original.relative
            or not (module + ".").startswith(ROOT)
            or isinstance(original.names, cst.ImportStar)
        ):
            return updated
        new = (module + ".").removeprefix(ROOT).strip(".")
        lines = []
        for alias in original.names:
            name = dotted_name(alias.name)
            local = code_of(alias.asname.name) if alias.asname else name
            whole = f"{new}.{name}".strip(".")
            known = whole in _IMPORTS or (
                new in ("nki", "nki.language", "nki.isa") and name in _known(new)
            )
            if not known:
                continue
            if not new:
                lines.append(f"import {name}" + (f" as {local}" if local != name else ""))
            else:
                lines.append(
                    f"from {new} import {name}" + (f" as {local}" if local != name else "")
                )
        self.change(original, f"{module} is {new or 'nki'}")
        self.drop()
        if lines:
            self.before("\n".join(lines))
        return updated

    def leave_Module(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        """Add the imports and the functions that are needed, below the imports."""
        if self.helpers:
            self.nl, self.nisa  # noqa: B018 - the functions need both
        body = list(updated.body)
        at = 0
        for n, node in enumerate(body):
            if m.matches(node, m.SimpleStatementLine(body=[m.Import() | m.ImportFrom()])):
                at = n + 1
        lines: list[Any] = [cst.parse_statement(_IMPORTS[name]) for name in sorted(self.needed)]
        for name in sorted(self.helpers):
            text = HELPERS[name].replace("nl.", f"{self.nl}.").replace("nisa.", f"{self.nisa}.")
            lines += cst.parse_module(f"\n\n{text}").body
            blank = cst.EmptyLine(indent=False)
            lines[-1] = lines[-1].with_changes(leading_lines=[blank, blank])
        return updated.with_changes(body=[*body[:at], *lines, *body[at:]])


def _known(module: str) -> set[str]:
    """Return the names of a module of today."""

    from nki_lab import isa, language

    if module == "nki":
        return {"jit", "language", "isa"}
    return set(language.__all__) if module == "nki.language" else set(isa.instructions_of(module))


def _trailing(node: Any) -> list[cst.Comment]:
    space = getattr(node, "trailing_whitespace", None)
    return [space.comment] if space is not None and space.comment else []


def _with_trailing(statement: Any, space: cst.TrailingWhitespace) -> Any:
    if isinstance(statement, cst.SimpleStatementLine):
        return statement.with_changes(trailing_whitespace=space)
    return statement
