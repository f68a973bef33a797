"""Grids of the older dialect as loops: `nl.program_id(k)` is the variable of a loop around what a program does."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import libcst as cst
import libcst.matchers as m

from nki_lab.migration.names import code_of, dotted_name


def with_grids(
    text: str, nl: str, grids: dict[str, tuple[int, ...]], kept: Collection[str] = ()
) -> tuple[str, list[str]]:
    """Return a text whose kernels loop over their grid, and what is left to decide.

    Args:
        text: with calls of program_id.
        nl: how it calls nki.language.
        grids: on which kernels were launched, by name.
        kept: functions that stay as they were.
    """
    module = cst.parse_module(text)
    loops = _Loops(nl, grids, kept)
    return module.visit(loops).code, loops.undecided


class _Loops(cst.CSTTransformer):
    def __init__(self, nl: str, grids: dict[str, tuple[int, ...]], kept: Collection[str]) -> None:
        super().__init__()
        self.nl, self.grids, self.kept = nl, grids, kept
        self.undecided: list[str] = []

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:  # type: ignore[override]
        name = original.name.value
        if name in self.kept:
            return updated
        body = list(updated.body.body)
        if name in self.grids:  # asking for their number needs no loop
            body = [s.visit(_Numbers(self.nl)) if self._asks_number(s) else s for s in body]  # type: ignore[misc]
        uses = [n for n, s in enumerate(body) if self._calls(s)]
        if not uses:
            if name not in self.grids:
                return updated
            updated = updated.with_changes(body=updated.body.with_changes(body=body))
            return self._with_parameter(updated, self.grids[name])
        if name not in self.grids:
            self.undecided.append(
                f"`{name}` asks for its program: give it the number as an argument"
            )
            return updated
        grid = self.grids[name]
        last = len(body)
        if m.matches(body[-1], m.SimpleStatementLine(body=[m.Return()])):
            last -= 1
        outputs = [
            s for s in body[uses[0] : last] if "shared_hbm" in code_of(s) and not self._calls(s)
        ]
        inner = [s for s in body[uses[0] : last] if s not in outputs]
        numbers = _Numbers(self.nl)
        block: Any = cst.IndentedBlock([s.visit(numbers) for s in inner])  # type: ignore[misc]
        for axis in reversed(range(len(grid))):
            loop = cst.For(
                cst.Name(f"program_{axis}"), cst.parse_expression(f"range(grid[{axis}])"), block
            )
            block = cst.IndentedBlock([loop])
        before = [s.visit(numbers) for s in body[: uses[0]]]
        new = [*before, *outputs, *block.body, *body[last:]]
        return self._with_parameter(
            updated.with_changes(body=updated.body.with_changes(body=new)), grid
        )

    def _with_parameter(self, function: cst.FunctionDef, grid: tuple[int, ...]) -> cst.FunctionDef:
        parameter = cst.Param(
            cst.Name("grid"),
            default=cst.parse_expression(
                f"({', '.join(map(str, grid))},)".replace(",)", ")" if len(grid) > 1 else ",)")
            ),
            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
        )
        return function.with_changes(
            params=function.params.with_changes(params=[*function.params.params, parameter])
        )

    def _asks_number(self, node: cst.CSTNode) -> bool:
        return not self._calls(node) and f"{self.nl}.program_ndim" in {
            dotted_name(c.func) for c in m.findall(node, m.Call()) if isinstance(c, cst.Call)
        }

    def _calls(self, node: cst.CSTNode) -> bool:
        names = {f"{self.nl}.program_id", f"{self.nl}.num_programs"}
        return any(
            dotted_name(c.func) in names
            for c in m.findall(node, m.Call())
            if isinstance(c, cst.Call)
        )


class _Numbers(cst.CSTTransformer):
    """Writes the variables of loops for the numbers of programs."""

    def __init__(self, nl: str) -> None:
        super().__init__()
        self.nl = nl

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:  # type: ignore[override]
        name = dotted_name(original.func)
        axis = code_of(updated.args[0].value) if updated.args else "0"
        if name == f"{self.nl}.program_id":
            return cst.Name(f"program_{axis}")
        if name == f"{self.nl}.num_programs":
            return cst.parse_expression(f"grid[{axis}]")
        if name == f"{self.nl}.program_ndim":
            return cst.parse_expression("len(grid)")
        return updated
