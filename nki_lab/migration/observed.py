"""What a run of kernels of the older dialect shows of their text: what each expression was, in every call.

The text is compiled with every expression of a function handed to a listener; places in the text stay what they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, NamedTuple

from nki_lab.beta1.index import Index
from nki_lab.beta1.masks import Mask
from nki_lab.beta1.tile import Tile
from nki_lab.migration.facts import Place

_LISTENER = "__nki_lab_seen__"
_MOST = 20_000  # values kept of one expression

TILE, INDEX, MASK, NUMBER, OTHER = "tile", "index", "mask", "number", "other"


class Seen(NamedTuple):
    """What an expression was once.

    Attributes:
        kind: a tile, an index tensor, a mask, a number, or another object.
        shape: of a tile or of the grid of an index tensor.
        dtype: of a tile, by name.
        memory: of a tile: "sbuf", "psum" or "hbm".
        blocks: how many of its axes are block axes.
    """

    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    memory: str = ""
    blocks: int = 0


def _seen(value: Any) -> Seen:
    if isinstance(value, Tile):
        memory = "psum" if value.in_psum else "sbuf" if value.on_chip else "hbm"
        return Seen(TILE, value.shape, str(value.dtype), memory, value.block_axes)
    if isinstance(value, Index):
        return Seen(INDEX, value.shape)
    if isinstance(value, Mask):
        return Seen(MASK)
    return Seen(NUMBER if isinstance(value, (int, float)) else OTHER)


class Observed:
    """What every expression of a text was, by its place."""

    def __init__(self) -> None:
        self.seen: dict[Place, list[Seen]] = {}
        self._places: list[Place] = []

    def at(self, place: Place) -> list[Seen]:
        """Return what the expression at a place was, in the order of time; nothing where it was never reached."""
        return self.seen.get(place, [])

    def listen(self, scope: dict[str, Any]) -> None:
        """Let a module that is about to run tell what its expressions are."""
        scope[_LISTENER] = self._note

    def compiled(self, text: str, filename: str) -> CodeType:
        """Return the code of a text that tells."""
        tree = _Telling(text, self._places).visit(ast.parse(text, filename))
        return compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Forget what a block showed where it fails: an expression and its operands must be told equally often."""
        counts = {place: len(known) for place, known in self.seen.items()}
        try:
            yield
        except Exception:
            for place, known in self.seen.items():
                del known[counts.get(place, 0) :]
            raise

    def _note(self, number: int, value: Any) -> Any:
        known = self.seen.setdefault(self._places[number], [])
        if len(known) < _MOST:
            known.append(_seen(value))
        return value


class _Telling(ast.NodeTransformer):
    """Hands the expressions of functions to the listener."""

    def __init__(self, text: str, places: list[Place]) -> None:
        self._lines, self._places = text.splitlines(), places
        self._depth = 0

    def _told(self, node: Any, value: Any) -> Any:
        line, end = self._lines[node.lineno - 1], self._lines[node.end_lineno - 1]
        column = len(line.encode()[: node.col_offset].decode())
        self._places.append(
            Place(node.lineno, column, node.end_lineno, len(end.encode()[: node.end_col_offset].decode()))
        )  # fmt: skip
        number = ast.Constant(len(self._places) - 1)
        call = ast.Call(ast.Name(_LISTENER, ast.Load()), [number, value], [])
        for new in (call, call.func, number):
            ast.copy_location(new, node)
        return call

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Change the body only."""
        self._depth += 1
        body: list[ast.stmt] = []
        for statement in node.body:
            new = self.visit(statement)
            body += new if isinstance(new, list) else [new]
        node.body = body
        self._depth -= 1
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """Tell what is changed, too."""
        target = node.target
        self.generic_visit(node)
        if not self._depth or not isinstance(target, ast.Name):
            return node
        value = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        told = ast.Expr(self._told(target, value))
        return [ast.copy_location(told, node), node]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Leave annotations as they are."""
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Leave texts as they are: their parts have no places of their own."""
        return node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Tell what an attribute is; what has it is told where it is more than a name."""
        if not isinstance(node.value, (ast.Name, ast.Attribute)):
            node.value = self.visit(node.value)
        loads = isinstance(node.ctx, ast.Load)
        return self._told(node, node) if self._depth and loads else node

    def visit_Call(self, node: ast.Call) -> Any:
        """Tell the result and the arguments, and what a method is of."""
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return self._told(node, node) if self._depth else node

    def _expression(self, node: Any) -> Any:
        self.generic_visit(node)
        loads = isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        return self._told(node, node) if self._depth and loads else node

    visit_Name = visit_BinOp = visit_UnaryOp = visit_Subscript = visit_Compare = _expression
