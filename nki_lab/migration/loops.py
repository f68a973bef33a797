"""Rules for loops that the device runs: their body becomes a function, for nl.fori_loop or nl.while_loop.

A function cannot hand on what Python's names were bound to in it, so a loop whose body binds a name that is read before
it is bound there, or after the loop, is left to the author.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst
import libcst.matchers as m

from nki_lab.migration.names import code_of
from nki_lab.versions import FORMS

if TYPE_CHECKING:
    from nki_lab.migration.rewriter import Rewriter

_LEAVES = m.Break() | m.Continue() | m.Return() | m.Yield() | m.Await()
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)


def counted_loop(rewriter: Rewriter, original: cst.For, updated: cst.For) -> Any:
    """Return nl.fori_loop and its body for a loop over nl.dynamic_range."""
    call = original.iter
    is_dynamic = (
        isinstance(call, cst.Call)
        and rewriter.names.official(call.func) == "nki.language.dynamic_range"
    )
    if not is_dynamic or not rewriter.moves("dynamic_range"):
        return updated
    assert isinstance(call, cst.Call)
    bounds = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword}
    bounds += [named[n] for n in ("start", "stop", "step")[len(bounds) :] if n in named]
    reason = _why_not(rewriter, original, original.target)
    if not isinstance(original.target, cst.Name) or len(bounds) != len(call.args):
        reason = "its head is more than names"
    if reason:
        rewriter.decide(original, f"{FORMS['dynamic_range'].instead}; {reason}")
        return updated
    lower, upper, *step = (
        [code_of(b) for b in bounds] if len(bounds) > 1 else ["0", code_of(bounds[0])]
    )
    loop = code_of(rewriter.names.written("nki.language.fori_loop"))
    body = _body_name(rewriter)
    rewriter.change(original, "a loop over nl.dynamic_range is nl.fori_loop")
    call_text = f"{loop}({', '.join([lower, upper, body, *step])})"
    return _function(updated, body, code_of(original.target), updated.body, call_text)


def register_loop(rewriter: Rewriter, original: cst.While, updated: cst.While) -> Any:
    """Return nl.while_loop and its body for a `while` over a register."""
    if not rewriter.moves("while register") or not _tests_register(rewriter, original):
        return updated
    test = original.test
    reason = _why_not(rewriter, original, test)
    if not isinstance(test, cst.Name):
        reason = "its condition is more than a name"
    elif not reason and _is_read_after(rewriter, original, test.value):
        reason = f"`{test.value}` is read after the loop"
    if reason:
        rewriter.decide(original, f"{FORMS['while register'].instead}; {reason}")
        return updated
    register = code_of(test)
    loop = code_of(rewriter.names.written("nki.language.while_loop"))
    body = _body_name(rewriter)
    rewriter.change(original, "a `while` over a register is nl.while_loop")
    block = updated.body
    if isinstance(block, cst.SimpleStatementSuite):
        block = cst.IndentedBlock([cst.SimpleStatementLine(block.body)])
    last = cst.parse_statement(f"return {register}")
    block = block.with_changes(body=[*block.body, last])
    return _function(updated, body, register, block, f"{loop}({register}, {body})")


def _function(updated: Any, body: str, parameter: str, block: Any, call: str) -> Any:
    function = cst.FunctionDef(
        cst.Name(body),
        cst.Parameters([cst.Param(cst.Name(parameter))]),
        block,
        leading_lines=updated.leading_lines,
    )
    return cst.FlattenSentinel([function, cst.parse_statement(call)])


def _body_name(rewriter: Rewriter) -> str:
    """Return a name for the body of a loop that the module does not have."""
    taken = {
        node.value for node in m.findall(rewriter.module, m.Name()) if isinstance(node, cst.Name)
    }
    while True:
        rewriter.bodies += 1
        name = f"body_{rewriter.bodies}" if rewriter.bodies > 1 else "body"
        if name not in taken:
            return name


def _tests_register(rewriter: Rewriter, loop: cst.While) -> bool:
    if rewriter.facts.met("while register", rewriter.place(loop.test)):
        return True
    if not isinstance(loop.test, cst.Name) or not rewriter.functions:
        return False
    return any(
        isinstance(node, cst.Assign)
        and isinstance(node.value, cst.Call)
        and rewriter.names.official(node.value.func) == "nki.isa.register_alloc"
        and any(code_of(t.target) == code_of(loop.test) for t in node.targets)
        for node in m.findall(rewriter.functions[-1], m.Assign())
    )


def _why_not(rewriter: Rewriter, loop: cst.For | cst.While, head: cst.BaseExpression) -> str:
    """Return why the body of a loop cannot be a function as it is; "" where it can."""
    if loop.orelse is not None:
        return "it has an `else`"
    if not rewriter.functions:
        return "it stands outside a function"
    if any(isinstance(node, cst.CSTNode) for node in _left_by(loop.body)):
        return "its body is left before its end"
    bound = {name for name, stores in _uses(loop.body) if stores}
    known = {code_of(head)}
    for name, stores in _uses(loop.body):
        if name in bound and name not in known and not stores:
            return (
                f"`{name}` is carried from one pass to the next: keep it in a tensor in SBUF or HBM"
            )
        known.add(name) if stores else None
    for name in sorted(bound):
        if _is_read_after(rewriter, loop, name):
            return f"`{name}` is bound in the body and read after it: keep it in a tensor made before the loop"
    return ""


def _left_by(block: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the statements that leave a block; not those of functions and loops inside it."""
    for node in block.children:
        if m.matches(node, _LEAVES):
            yield node
        elif isinstance(node, (cst.For, cst.While)):
            yield from (n for n in _left_by(node) if not m.matches(n, m.Break() | m.Continue()))
        elif not isinstance(node, _SCOPES):
            yield from _left_by(node)


def _is_read_after(rewriter: Rewriter, loop: cst.CSTNode, name: str) -> bool:
    """Tell whether the first thing that happens to a name behind a loop is that it is read."""
    around = [outer for outer in rewriter.loops if outer is not loop]
    function = rewriter.functions[-1].body
    for scope in (function, *(outer.body for outer in around)):
        # Behind the loop, and, where another loop is around it, from the start of that one's body on.
        uses = [*_uses_after(scope, loop, name), *(() if scope is function else _uses(scope, name))]
        if uses and not uses[0][1]:
            return True
    return False


def _uses_after(scope: cst.CSTNode, loop: cst.CSTNode, name: str) -> Iterator[tuple[str, bool]]:
    found = False
    for used, stores, node in _uses_of(scope, loop):
        if node is loop:
            found = True
        elif found and used == name:
            yield used, stores


def _uses(node: cst.CSTNode, name: str = "") -> Iterator[tuple[str, bool]]:
    """Yield (name, whether it is bound) for every use of a name, in the order in which they happen."""
    for used, stores, _ in _uses_of(node):
        if used and name in ("", used):
            yield used, stores


def _uses_of(
    node: cst.CSTNode, skipped: cst.CSTNode | None = None
) -> Iterator[tuple[str, bool, cst.CSTNode]]:
    """Do the same with the nodes; what is `skipped` is yielded as it is, with no name."""
    if node is skipped:
        yield "", False, node
    elif isinstance(node, cst.Name):
        yield node.value, False, node
    elif isinstance(node, (cst.Attribute, cst.Arg)):
        yield from _uses_of(node.value, skipped)
    elif isinstance(node, cst.Assign):
        yield from _uses_of(node.value, skipped)
        for target in node.targets:
            yield from _bound(target.target)
    elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
        if node.value is not None:
            yield from _uses_of(node.value, skipped)
        yield from _bound(node.target)
    elif isinstance(node, cst.AugAssign):
        yield from _uses_of(node.target)
        yield from _uses_of(node.value, skipped)
        yield from _bound(node.target)
    elif isinstance(node, (cst.For, cst.CompFor)):
        yield from _uses_of(node.iter, skipped)
        yield from _bound(node.target)
        for child in node.children:
            if child not in (node.iter, node.target):
                yield from _uses_of(child, skipped)
    elif isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp, cst.DictComp)):
        inner = {name for name, stores, _ in _uses_of(node.for_in) if stores}
        for child in node.children:
            for used in _uses_of(child, skipped):
                if used[0] not in inner:
                    yield used
    elif isinstance(node, cst.AsName):
        yield from _bound(node.name)
    elif isinstance(node, cst.FunctionDef):
        inner = {
            p.name.value for p in m.findall(node.params, m.Param()) if isinstance(p, cst.Param)
        }
        inner |= {name for name, stores, _ in _uses_of(node.body) if stores}
        for used in _uses_of(node.body, skipped):
            if used[0] not in inner:
                yield used
        yield node.name.value, True, node
    elif isinstance(node, cst.Lambda):
        inner = {
            p.name.value for p in m.findall(node.params, m.Param()) if isinstance(p, cst.Param)
        }
        for used in _uses_of(node.body, skipped):
            if used[0] not in inner:
                yield used
    else:
        for child in node.children:
            yield from _uses_of(child, skipped)


def _bound(target: cst.CSTNode) -> Iterator[tuple[str, bool, cst.CSTNode]]:
    if isinstance(target, cst.Name):
        yield target.value, True, target
    elif isinstance(target, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
        for child in target.children:
            yield from _bound(child)
    else:  # of an object, which is read
        yield from _uses_of(target)
