"""The loops of a kernel, which are unrolled: Python runs the body for each trip, or trips are copied (replay.py).

The old compiler traced the body of an affine_range or sequential_range once: what plain Python did in one trip did not
reach the next. A number that the body carries from trip to trip therefore counts once: each later trip begins with the
numbers that stood before the loop, and the loop ends with what one trip has made of them. `if` decides anew in each
trip, as in published kernels; the documentation leaves open what the old compiler made of it. Both are findings.
(nki/migration/index.rst)
"""

from __future__ import annotations

import ast
import ctypes
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cached_property, lru_cache
from types import CodeType, FrameType
from typing import Any

from nki_lab.beta1.allocation import around
from nki_lab.beta1.keywords import refuse_keywords
from nki_lab.beta1.parallel import Trips
from nki_lab.beta1.program import ProgramId, running
from nki_lab.beta1.promotion import integer
from nki_lab.beta1.repeatable import Body, body_of
from nki_lab.beta1.replay import Replay, enabled, noting
from nki_lab.beta1.scope import Scope
from nki_lab.beta1.tile import Tile
from nki_lab.errors import LoopControl
from nki_lab.errors.beta1 import ReturnInLoop
from nki_lab.ir.building.builder import current
from nki_lab.ir.building.device_loops import find_loop, position_of
from nki_lab.ir.building.loop_state import carried_names
from nki_lab.source import Span

_NUMBERS = (int, float, bool, ProgramId)
#: The fewest trips of which some may be replayed.
_FEWEST = 4


class Trip(int):
    """The value of a loop variable.

    Attributes:
        first: it is that of the first trip.
    """

    first = False


class _Text:
    """What the text of a loop says."""

    def __init__(self, code: CodeType, offset: int) -> None:
        self.code = code
        self.loop: ast.For | None = find_loop(code, position_of(code, offset), ast.For)

    @cached_property
    def carried(self) -> dict[str, ast.AST]:
        """The variables that a trip reads before it sets them."""
        return {} if self.loop is None else carried_names(self.loop, self.code)

    @cached_property
    def body(self) -> Body | None:
        """What the body does, where its trips differ only in what they access."""
        return None if self.loop is None else body_of(self.loop)

    @cached_property
    def decides(self) -> ast.AST | None:
        """The first test that depends on the loop variable."""
        if self.loop is None:
            return None
        names = {n.id for n in ast.walk(self.loop.target) if isinstance(n, ast.Name)}
        inside = [node for statement in self.loop.body for node in ast.walk(statement)]
        for node in inside:
            if isinstance(node, ast.Assign) and _mentions(node.value, names, plain=True):
                names.update(t.id for t in node.targets if isinstance(t, ast.Name))
        tests = (n.test for n in inside if isinstance(n, (ast.If, ast.IfExp, ast.While)))
        return next((test for test in tests if _mentions(test, names)), None)

    def return_at(self, line: int) -> ast.Return | None:
        """Return the `return` of the loop that stands at a line."""
        inside = ast.walk(self.loop) if self.loop is not None else ()
        returns = (node for node in inside if isinstance(node, ast.Return))
        return next((n for n in returns if n.lineno <= line <= (n.end_lineno or line)), None)


def _mentions(node: ast.AST, names: set[str], plain: bool = False) -> bool:
    """Tell whether an expression reads one of these names; with `plain`, without calling anything or indexing."""
    parts = list(ast.walk(node))
    if plain and any(isinstance(p, (ast.Call, ast.Subscript)) for p in parts):
        return False
    return any(isinstance(p, ast.Name) and p.id in names for p in parts)


class _Range:
    """A loop whose body is run once for each value."""

    #: The body was traced once.
    traced_once = True
    #: Trips do not depend on each other.
    parallel = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._directives = kwargs.pop("directives", None)
        refuse_keywords(f"nl.{type(self).__name__}", kwargs)
        for bound in args:
            if isinstance(bound, Tile):
                raise LoopControl(
                    f"nl.{type(self).__name__}: the bound {bound!r} is only known at run time",
                    help="pass the number of trips to the kernel as an int",
                )
        name = f"nl.{type(self).__name__}"
        if not 1 <= len(args) <= 3:
            raise LoopControl(
                f"{name} takes 1 to 3 integers; found {len(args)}",
                help=f"write {name}(n), or {name}(start, stop, step)",
            )
        bounds = [integer(bound, f"{name}: a bound") for bound in args]
        if bounds[2:] == [0]:
            raise LoopControl(f"{name}: the step is 0", help="write a step of 1 or more")
        self._values = range(*bounds)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Trip]:
        frame = sys._getframe(1)
        with around(self._directives):
            yield from self._run(frame)

    def _run(self, frame: FrameType) -> Iterator[Trip]:
        rest = len(self._values)
        if rest < 2:
            yield from _trips(self._values)
            return
        text = _text_of(frame)
        try:
            for trip in self._unrolled(frame, text):
                rest -= 1
                yield trip
        finally:
            if rest and (left := text.return_at(frame.f_lineno)) is not None:
                current().errors.append(self._left(left, rest, text))

    def _left(self, left: ast.Return, rest: int, text: _Text) -> ReturnInLoop:
        return ReturnInLoop(
            f"`return` stands inside nl.{type(self).__name__}, and ends it: {rest} of {len(self)} trips are never run",
            stack=(Span.of_node(left, text.code), *current().stack()[1:]),
            help="write `return` after the loop, with the indentation of its `for`",
        )

    def _unrolled(self, frame: FrameType, text: _Text) -> Iterator[Trip]:
        if not self.traced_once:
            yield from _trips(self._values)
            return
        if text.decides is not None:
            self._tell(
                text.decides,
                text,
                "portability",
                "decides on the variable of nl.{name}, anew in each trip; what the old compiler made of it, which"
                " traced the body once, its documentation leaves open",
                "use nl.static_range, or masks",
            )
        builder, program = current(), running()
        trips, first = Trips(program, builder, self.parallel), len(builder.storages)
        program.clock += 1
        began = program.clock
        before = {k: v for k, v in frame.f_locals.items() if k in text.carried and type(v) in _NUMBERS}  # fmt: skip
        replay = self._replay(frame, text, set(before))
        try:
            with noting(builder) if replay is not None else nullcontext():
                count, n = len(self._values), 0
                while n < count:
                    trip = Trip(self._values[n])
                    trip.first = n == 0
                    if before and not trip.first:
                        self._put_back(frame, before, text)
                    trips.begin()
                    if replay is not None:
                        replay.begin(n)
                    yield trip
                    trips.end()
                    n += 1
                    if replay is not None:
                        n += replay.end(trips, count - n)
        finally:
            name = f"nl.{type(self).__name__}"
            trips.close(name)
            program.clock += 1
            made, emitted = len(builder.storages), len(builder.body)
            program.scopes.append(Scope(name, first, made, began, program.clock, emitted))

    def _replay(self, frame: FrameType, text: _Text, put_back: set[str]) -> Replay | None:
        """Return what replays trips; None where Python is to run all of them."""
        builder = current()
        if (
            len(self._values) < _FEWEST
            or not enabled[0]
            or text.body is None
            or builder.watch is not None
            or builder.kept_order.blocks
            or builder.loop
            or not text.body.holds(frame)
        ):
            return None
        return Replay(text.body, frame, builder, running(), put_back)

    def _put_back(self, frame: FrameType, before: dict[str, Any], text: _Text) -> None:
        """Give the numbers that a trip has carried on the values that they had before the loop."""
        now = frame.f_locals
        changed = {k: v for k, v in before.items() if type(now.get(k)) in _NUMBERS and now[k] != v}
        for name, value in changed.items():
            self._tell(
                text.carried[name],
                text,
                "hazard",
                f"`{name}` is carried from trip to trip by nl.{{name}}, whose body the old compiler traced once: it"
                f" counts once, and each trip begins with {value!r}",
                "compute it from the loop variable, or use nl.static_range",
            )
        if changed:
            now.update(changed)
            if sys.version_info < (3, 13):  # later, f_locals writes through
                ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))

    def _tell(self, node: Any, text: _Text, kind: str, message: str, help: str) -> None:
        builder = current()
        said = message.format(name=type(self).__name__)
        if kind == "portability":
            said = f"`if` {said}"
        stack = builder.stack()
        builder.find(kind, said, help, stack=(Span.of_node(node, text.code), *stack[1:]))


def _trips(values: range) -> Iterator[Trip]:
    for n, value in enumerate(values):
        trip = Trip(value)
        trip.first = n == 0
        yield trip


def _text_of(frame: FrameType) -> _Text:
    texts = running().texts
    key = id(frame.f_code), frame.f_lasti
    text = texts.get(key)
    if text is None:
        text = texts[key] = _text_at(frame.f_code, frame.f_lasti)
    return text


_text_at = lru_cache(maxsize=256)(_Text)  # a kernel is traced again and again


class affine_range(_Range):  # the names that kernels write
    """Loop over trips that do not depend on each other; products may be added to one place in PSUM."""

    parallel = True


class sequential_range(_Range):
    """Loop over trips of which each may need what the one before has computed."""


class static_range(_Range):
    """Loop over trips that are unrolled in the text of the kernel."""

    traced_once = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
