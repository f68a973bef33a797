"""Tells from the text of a loop whether its variable does no more than move what the body accesses.

Such a body computes with the variable by +, - and * only, and gives what it computes to the indices of tiles and to
masks. Whatever else it does, it does in each trip alike: it sets no attributes, changes no containers, and calls only
what is known to keep nothing.
"""

from __future__ import annotations

import ast
import builtins
import math
from enum import Enum
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from nki_lab.beta1.allocation import Allocation, Memory
from nki_lab.beta1.index import Index, Mask, mgrid
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import DType

# What an expression is: a tile, a value that is the same in each trip, what is affine in the variable, or a comparison
# of such values.
TILE, ALIKE, AFFINE, MASK = "tile", "alike", "affine", "mask"

#: Functions of Python whose results depend on their arguments only.
_PURE = {
    getattr(builtins, name)
    for name in ("abs", "bool", "float", "int", "isinstance", "len", "max", "min", "range", "slice", "sum", "tuple")
}  # fmt: skip
_VALUES = (int, float, str, type, range, DType, Enum, Tile, Index, Mask, Memory, np.dtype, np.ufunc)


class Varies(Exception):
    """A body does something else with the variable, or something that trips may not do alike."""


class Body:
    """What the text of a loop says.

    Attributes:
        carried: variables that a trip may read before it sets them.
        outside: variables that it reads and never sets.
        tiles: those of `outside` that must be tiles.
        called: what it calls: names, with attributes of modules.
    """

    def __init__(self, loop: ast.For) -> None:
        self.carried: set[str] = set()
        self.outside: set[str] = set()
        self.tiles: set[str] = set()
        self.called: set[tuple[str, ...]] = set()
        if not isinstance(loop.target, ast.Name) or loop.orelse:
            raise Varies
        self._kinds = {loop.target.id: AFFINE}
        stores = (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Name))
        self._stored = {n.id for n in stores if isinstance(n.ctx, ast.Store)}
        if loop.target.id in self._stored:
            raise Varies
        while True:  # until nothing is learned about a name
            before = dict(self._kinds)
            self._set = {loop.target.id}
            self._statements(loop.body)
            if before == self._kinds:
                break

    def holds(self, frame: FrameType) -> bool:
        """Tell whether what the names mean in a frame is what the text was taken for."""
        local, outer = frame.f_locals, frame.f_globals

        def meaning(name: str) -> Any:
            return local[name] if name in local else outer.get(name, getattr(builtins, name, None))

        for path in self.called:
            function = meaning(path[0])
            if (
                len(path) > 1
                and not isinstance(function, ModuleType)
                and type(function) is not Tile
            ):
                function = None
            for name in path[1:]:
                function = getattr(function, name, None)
            if not _keeps_nothing(function):
                return False
        return all(is_known(meaning(n)) for n in self.outside) and all(
            type(meaning(n)) is Tile for n in self.tiles
        )

    # -- statements ----------------------------------------------------------------------------------------------

    def _statements(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.AugAssign):
                self._augment(node)
            elif isinstance(node, ast.Expr):
                self._alike(node.value)
            elif isinstance(node, ast.For) and not node.orelse:
                self._alike(node.iter)
                self._block(node.target, node.body)
            elif isinstance(node, ast.If):
                self._alike(node.test)
                before = set(self._set)
                self._statements(node.body)
                first, self._set = self._set, before
                self._statements(node.orelse)
                self._set &= first
            elif not isinstance(node, ast.Pass):
                raise Varies

    def _block(self, target: ast.expr, body: list[ast.stmt]) -> None:
        before = set(self._set)
        self._name(target, ALIKE)
        self._statements(body)
        self._set = before

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            if len(target.elts) != len(value.elts):
                raise Varies
            kinds = [self._kind(v) for v in value.elts]
            for part, kind in zip(target.elts, kinds, strict=True):
                self._name(part, kind)
        elif isinstance(target, ast.Subscript):
            self._alike(value)
            self._part(target)
        elif isinstance(target, ast.Tuple):
            self._alike(value)
            self._name(target, ALIKE)
        else:
            self._name(target, self._kind(value))

    def _augment(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            self._part(node.target)
            self._alike(node.value)
        elif isinstance(node.target, ast.Name):
            read = ast.Name(node.target.id, ast.Load())
            self._name(node.target, self._kind(ast.BinOp(read, node.op, node.value)))
        else:
            raise Varies

    def _name(self, target: ast.expr, kind: str) -> None:
        if isinstance(target, ast.Tuple):
            for part in target.elts:
                self._name(part, kind)
            return
        if not isinstance(target, ast.Name):
            raise Varies
        self._set.add(target.id)
        self._kinds[target.id] = _either(self._kinds.get(target.id, kind), kind)

    # -- expressions ---------------------------------------------------------------------------------------------

    def _alike(self, *nodes: ast.expr) -> None:
        """Raise unless values are the same in each trip, or tiles."""
        for node in nodes:
            if self._kind(node) not in (TILE, ALIKE):
                raise Varies

    def _kind(self, node: ast.expr) -> str:
        method = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if method is None:
            raise Varies
        return method(node)  # type: ignore[no-any-return]

    def _of_constant(self, node: ast.Constant) -> str:
        return ALIKE

    def _of_name(self, node: ast.Name) -> str:
        if node.id not in self._stored and node.id not in self._kinds:
            self.outside.add(node.id)
            return ALIKE
        if node.id not in self._set:
            self.carried.add(node.id)
        return self._kinds.get(node.id, ALIKE)

    def _of_attribute(self, node: ast.Attribute) -> str:
        self._alike(node.value)
        return ALIKE

    def _of_tuple(self, node: ast.Tuple | ast.List) -> str:
        self._alike(*node.elts)
        return ALIKE

    _of_list = _of_tuple

    def _of_binop(self, node: ast.BinOp) -> str:
        kinds = {self._kind(node.left), self._kind(node.right)}
        if MASK in kinds:
            if isinstance(node.op, (ast.BitAnd, ast.BitOr)) and AFFINE not in kinds:
                return MASK
            raise Varies
        if AFFINE not in kinds:
            return TILE if TILE in kinds else ALIKE
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return AFFINE
        if isinstance(node.op, ast.Mult) and kinds != {AFFINE}:
            return AFFINE
        raise Varies

    def _of_unaryop(self, node: ast.UnaryOp) -> str:
        kind = self._kind(node.operand)
        if kind == MASK and not isinstance(node.op, ast.Invert):
            raise Varies
        if kind == AFFINE and not isinstance(node.op, (ast.USub, ast.UAdd)):
            raise Varies
        return kind

    def _of_compare(self, node: ast.Compare) -> str:
        kinds = [self._kind(n) for n in (node.left, *node.comparators)]
        if AFFINE not in kinds:
            self._alike(node.left, *node.comparators)
            return TILE if TILE in kinds else ALIKE
        identity = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
        if len(node.ops) > 1 or MASK in kinds or isinstance(node.ops[0], identity):
            raise Varies
        return MASK

    def _of_boolop(self, node: ast.BoolOp) -> str:
        self._alike(*node.values)
        return ALIKE

    def _of_ifexp(self, node: ast.IfExp) -> str:
        self._alike(node.test)
        return _either(self._kind(node.body), self._kind(node.orelse))

    def _of_joinedstr(self, node: ast.JoinedStr) -> str:
        self._alike(*[v.value if isinstance(v, ast.FormattedValue) else v for v in node.values])
        return ALIKE

    def _of_slice(self, node: ast.Slice) -> str:
        if node.step is not None:
            self._alike(node.step)
        kinds = [self._kind(n) for n in (node.lower, node.upper) if n is not None]
        if MASK in kinds:
            raise Varies
        return AFFINE if AFFINE in kinds else ALIKE

    def _of_subscript(self, node: ast.Subscript) -> str:
        kind = self._kind(node.value)
        if kind in (AFFINE, MASK):
            self._alike(node.slice)
            return kind
        if isinstance(node.slice, (ast.Tuple, ast.Slice)):
            is_part = True
        else:
            is_part = self._kind(node.slice) in (AFFINE, MASK)
        if not is_part or (isinstance(node.value, ast.Attribute) and node.value.attr == "mgrid"):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            self._alike(*parts)
            return kind
        self._part(node)
        return TILE

    def _part(self, node: ast.Subscript) -> None:
        """Take an index of what must be a tile."""
        self._need_tile(node.value)
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            self._kind(part)

    def _need_tile(self, node: ast.expr) -> None:
        kind = self._kind(node)
        if isinstance(node, ast.Name) and node.id in self.outside:
            self.tiles.add(node.id)
        elif isinstance(node, ast.Subscript) and kind != TILE:
            self._need_tile(node.value)
        elif kind != TILE:
            raise Varies

    def _of_call(self, node: ast.Call) -> str:
        path: list[str] = []
        function = node.func
        while isinstance(function, ast.Attribute):
            path.insert(0, function.attr)
            function = function.value
        starts = False
        if isinstance(function, ast.Name) and function.id not in self._stored | set(self._kinds):
            self.called.add((function.id, *path))
            starts = path[-1:] == ["ds"]
        elif isinstance(node.func, ast.Attribute):
            self._need_tile(node.func.value)
        else:
            raise Varies
        values = list(node.args)
        kind = TILE
        if starts and len(values) == 2 and self._kind(values[0]) == AFFINE:
            kind = AFFINE
            del values[0]
        for keyword in node.keywords:
            if keyword.arg == "mask":
                if self._kind(keyword.value) == AFFINE:
                    raise Varies
            elif keyword.arg is None:
                raise Varies
            else:
                values.append(keyword.value)
        self._alike(*values)
        is_pure = isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id)
        return ALIKE if is_pure else kind


def _either(a: str, b: str) -> str:
    """Return what a name is that is one of two things."""
    if a == b:
        return a
    if MASK in (a, b):
        raise Varies
    return AFFINE if AFFINE in (a, b) else ALIKE


def _keeps_nothing(function: Any) -> bool:
    """Tell whether a call of a function changes nothing but the program that is traced."""
    if isinstance(function, MethodType):
        return isinstance(function.__self__, (Tile, Memory))
    if isinstance(function, (FunctionType, type)):
        module = function.__module__
        if module == "builtins":
            return function in _PURE
        if module == "nki_lab.beta1.reducing":  # what these do depends on all that was emitted
            return False
        return module.startswith("nki_lab.beta1.") or module == "nki_lab.language.indexing"
    home = getattr(function, "__self__", None)  # the module of a function of C
    return home is math or (home is builtins and function in _PURE)


def is_known(value: Any) -> bool:
    """Tell whether a value never changes, or is a tile."""
    if isinstance(value, tuple):
        return all(map(is_known, value))
    if isinstance(value, ModuleType):
        return (
            value.__name__.startswith(("nki_lab.api.beta1", "neuronxcc.nki", "numpy"))
            or value is math
        )
    if isinstance(value, FunctionType):
        return value.__module__.startswith("nki_lab.beta1.")
    if isinstance(value, Allocation):
        return value.call.startswith("mod_alloc")  # others ask a function of the author
    return value is None or value is ... or value is mgrid or isinstance(value, _VALUES)


def body_of(loop: ast.For) -> Body | None:
    """Return what the text of a loop says; None where trips may differ in more than in what they access."""
    try:
        return Body(loop)
    except Varies:
        return None
