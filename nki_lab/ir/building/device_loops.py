"""Device loops: turns Python's control flow into loops that the device runs.

The body is traced once. `while register:` is recognised when Python asks the register for its truth value: the first
time at a place opens the loop, the second time there closes it. The text is read to make sure that the place is the
test of a `while`, and that the body is left only at its end.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from nki_lab.errors import LoopControl, LoopName
from nki_lab.ir.building.loop_state import state_of_block
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.trace import active
from nki_lab.source import Span

Position = tuple[int | None, int | None, int | None, int | None]


def while_test(builder: Any, register: Register, frame: FrameType) -> bool | None:
    """Answer the test of a register in a frame: True opens the device loop, False closes it; None for other tests."""
    position = position_of(frame.f_code, frame.f_lasti)
    loop = find_loop(frame.f_code, position, ast.While)
    if loop is None:
        return None
    key = (frame, position, register.id)
    if builder.open_whiles and builder.open_whiles[-1] == key:
        if builder.rehearsal is not None and builder.rehearsal.again(builder):
            return True
        builder.open_whiles.pop()
        builder.close_loop()
        builder.loop_states.pop().tell(builder)
        return False
    check_body(loop, frame.f_code)
    builder.meet_form("while register", "`while` over a register")
    builder.loop_states.append(state_of_block(loop, frame))
    builder.open_loop("while", (), register)
    builder.open_whiles.append(key)
    if builder.rehearsal is not None:
        builder.rehearsal.begin(builder, ())
    return True


def position_of(code: CodeType, offset: int) -> Position:
    """Return the place in the text of an instruction of a code object."""
    return list(code.co_positions())[offset // 2]


def find_loop(code: CodeType, position: Position, kind: type[ast.AST]) -> Any:
    """Return the `while` whose test, or `for` whose iterable, holds a place; None where there is none."""
    line, end_line, column, end_column = position
    if line is None or end_line is None or column is None or end_column is None:
        return None
    text = "".join(linecache.getlines(code.co_filename))
    nodes: list[Any] = [node for node in _loops(text) if type(node) is kind]
    for node in nodes:
        part = node.test if kind is ast.While else node.iter
        end = (part.end_lineno, part.end_col_offset)
        whole = (node.end_lineno, node.end_col_offset)
        start = (node.lineno, node.col_offset)
        # Python 3.11 places the jump of a `while` on the whole statement, later versions on the test.
        if start <= (line, column) and (
            (end_line, end_column) <= end
            or ((line, column), (end_line, end_column)) == (start, whole)
        ):
            return node
    return None


@lru_cache(maxsize=64)
def _loops(text: str) -> tuple[Any, ...]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    return tuple(n for n in ast.walk(tree) if isinstance(n, (ast.While, ast.For)))


def check_body(loop: Any, code: CodeType) -> None:
    """Refuse `break`, `continue` and `return` in the body of a device loop, and an `else` of it."""
    node = next(_leaving(loop.body), None)
    what = {ast.Break: "break", ast.Continue: "continue", ast.Return: "return"}
    if node is None and loop.orelse:
        node, word = loop.orelse[0], "else"
    elif node is not None:
        word = what[type(node)]
    if node is None:
        return
    stack = () if active.builder is None else active.builder.stack()
    raise LoopControl(
        f"`{word}` is not allowed in a loop that the device runs",
        stack=(Span.of_node(node, code), *stack[1:]),
        notes=(f"the loop at line {loop.lineno}",),
        help="end the loop by its bound or condition, and skip work with a mask",
    )


def _leaving(body: list[Any], inner: bool = False) -> Any:
    for node in body:
        if isinstance(node, ast.Return) or (
            not inner and isinstance(node, (ast.Break, ast.Continue))
        ):
            yield node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        elif isinstance(node, (ast.For, ast.While)):
            # `break` in a loop inside belongs to that one; it is an unrolled one, or checked when it opens.
            yield from _leaving([*node.body, *node.orelse], inner=True)
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from _leaving(getattr(node, name, []), inner)
            for handler in getattr(node, "handlers", []):
                yield from _leaving(handler.body, inner)
            for case in getattr(node, "cases", []):
                yield from _leaving(case.body, inner)


def repeated_names(body: list[Any]) -> Iterator[LoopName]:
    """Yield an error for each instruction in the body of a loop that has the name of an earlier one."""
    named: dict[str, Instruction] = {}
    for i in body:
        if not isinstance(i, Instruction) or "name" not in i.definition.position:
            continue
        name = i.args[i.definition.position["name"]]
        if name is not None and named.setdefault(name, i) is not i:
            yield LoopName(
                f"two instructions in the body of a device loop have the name {name!r}",
                stack=i.stack,
                notes=(f"the first stands at {Span.of(named[name].stack[0])}",),
                help="give each instruction another name; put the index of an unrolled loop into it",
            )


def loops_for_ever(frame: FrameType) -> bool:
    """Tell whether what a frame asks for is the test of a `while` that nothing in its body can end."""
    loop = find_loop(frame.f_code, position_of(frame.f_code, frame.f_lasti), ast.While)
    if loop is None:
        return False
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    asked = list(ast.walk(loop.test))
    names = {node.id for node in asked if isinstance(node, ast.Name)}
    changed = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    leaves = any(isinstance(node, (ast.Break, ast.Return, ast.Raise)) for node in inside)
    plain = all(
        isinstance(node, (ast.Name, ast.Subscript, ast.Slice, ast.Constant, ast.Tuple, ast.Load))
        for node in asked
    )
    return plain and not leaves and not names & changed
