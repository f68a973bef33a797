"""What a run of kernels of the older dialect shows of their text: what each expression was, in every call.

The text is compiled with every expression of a function handed to a listener; places in the text stay what they are.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, NamedTuple

from nki_lab.beta1.index import Index
from nki_lab.beta1.masks import Mask
from nki_lab.beta1.tile import Tile
from nki_lab.migration.facts import Place
from nki_lab.source import Span

_LISTENER = "__nki_lab_seen__"
_CHOOSER = "__nki_lab_branch__"
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
    """What every expression of a text was, by its place.

    Attributes:
        seen: the values.
        forced: first lines of branches that are known from runs in which their conditions were set aside.
    """

    def __init__(self) -> None:
        self.seen: dict[Place, list[Seen]] = {}
        self.forced: set[int] = set()
        self._places: list[Place] = []
        self._branches: dict[int, _Branch] = {}
        self._taken: tuple[int, bool] | None = None

    def at(self, place: Place) -> list[Seen]:
        """Return what the expression at a place was, in the order of time; nothing where it was never reached."""
        return self.seen.get(place, [])

    def listen(self, scope: dict[str, Any]) -> None:
        """Let a module that is about to run tell what its expressions are."""
        scope[_LISTENER], scope[_CHOOSER] = self._note, self._choose

    def compiled(self, text: str, filename: str) -> CodeType:
        """Return the code of a text that tells."""
        tree = _Telling(text, self._places, self._branches).visit(ast.parse(text, filename))
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

    def forcing(self, line: int, run: Callable[[], None]) -> bool:
        """Run a kernel that takes the branch that begins in a line, whatever its condition says; tell whether it did.

        What is seen elsewhere is forgotten, as it would not be so without that branch.
        """
        branch = self._branches.get(line)
        if branch is None:
            return False
        counts = {place: len(known) for place, known in self.seen.items()}
        self._taken, lines = (branch.test, branch.outcome), set()
        try:
            run()
        except Exception as error:
            lines = _lines_of(error)
        finally:
            self._taken = None
        places = [p for p in self.seen if line <= p.line <= branch.end]
        is_whole = bool(places) and not any(line <= number <= branch.end for number in lines)
        for place, known in self.seen.items():
            if counts.get(place, 0) or not is_whole:
                del known[counts.get(place, 0) :]
        self.seen = {place: known for place, known in self.seen.items() if known}
        if is_whole:
            self.forced.add(line)
        return is_whole

    def _choose(self, number: int, value: Any) -> Any:
        taken = self._taken
        return taken[1] if taken is not None and taken[0] == number else value

    def _note(self, number: int, value: Any) -> Any:
        known = self.seen.setdefault(self._places[number], [])
        if len(known) < _MOST:
            known.append(_seen(value))
        return value


class _Branch(NamedTuple):
    """A branch of an `if`: the line of its test, the outcome that takes it, and its last line."""

    test: int
    outcome: bool
    end: int


def _lines_of(error: BaseException) -> set[int]:
    """Return the lines, of whatever file, through which an error came."""
    lines: set[int] = set()
    one: BaseException | None = error
    while one is not None:
        lines |= {frame.lineno or 0 for frame in traceback.extract_tb(one.__traceback__)}
        lines |= {Span.of(place).line for place in getattr(one, "stack", ())}
        one = one.__cause__ or one.__context__
    return lines


class _Telling(ast.NodeTransformer):
    """Hands the expressions of functions to the listener, and lets it choose branches."""

    def __init__(self, text: str, places: list[Place], branches: dict[int, _Branch]) -> None:
        self._lines, self._places, self._branches = text.splitlines(), places, branches
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

    def visit_If(self, node: ast.If) -> ast.AST:
        """Let the listener choose the branch."""
        test = node.test
        self.generic_visit(node)
        if self._depth:
            number = node.lineno
            for body, outcome in ((node.body, True), (node.orelse, False)):
                if body:
                    end = body[-1].end_lineno or 0
                    self._branches[body[0].lineno] = _Branch(number, outcome, end)
            call = ast.Call(ast.Name(_CHOOSER, ast.Load()), [ast.Constant(number), node.test], [])
            for new in (call, call.func, call.args[0]):
                ast.copy_location(new, test)
            node.test = call
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
