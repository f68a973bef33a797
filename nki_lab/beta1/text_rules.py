"""Checks the text of a kernel: what blocks make is used in them, annotated shapes, shared tensors, parameters.

The old compiler read the text of a kernel. Python's range was nl.sequential_range there, and every `for`, and every
`if` that the variable of a loop or the number of the program decides, was a block with a scope of its own.
(general/nki/api/nki.errors.rst; nki.language.sequential_range)
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

from nki_lab.errors.beta1 import AnnotatedShape, BadMask, OutOfScope, ParameterUpdate, older
from nki_lab.errors.language import TensorArgument
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.author_text import variable_of
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span, Stack, is_prebuilt
from nki_lab.targets.spaces import SHARED_HBM

#: Loops whose variables the old compiler knew by their names only.
_TRACED_ONCE = ("range", "affine_range", "sequential_range")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Block(NamedTuple):
    """The body of a `for`, or a branch of an `if`, of which the old compiler made a block.

    Attributes:
        first, last: its lines.
        title: how a message names it.
        later: variables that it assigns and that are used outside -> the lines. None of nl.affine_range and
            nl.sequential_range: they know themselves what they make (scope.py).
    """

    first: int
    last: int
    title: str
    later: dict[str, frozenset[int]]


class _Text(NamedTuple):
    """What the text of a function says.

    Attributes:
        blocks: of the function.
        shapes: of annotated variables.
        masks: parts of masks that take the variable of a loop apart.
    """

    blocks: tuple[Block, ...]
    shapes: dict[str, tuple[int, ...]]
    masks: tuple[ast.BinOp, ...] = ()


@lru_cache(maxsize=64)
def _text(text: str, name: str, line: int) -> _Text:
    """Return what a file says of a function; two that differ in annotations alone have equal code."""
    function = _function(text, name, line)
    if function is None:
        return _Text((), {})
    stores: dict[str, list[int]] = {}
    loads: dict[str, list[int]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            uses = loads if isinstance(node.ctx, ast.Load) else stores
            uses.setdefault(node.id, []).append(node.lineno)
    blocks = []
    for first, last, title in _blocks(function.body, frozenset()):
        names = {name for name, at in stores.items() if any(first <= n <= last for n in at)}
        outside = {
            name: frozenset(n for n in loads.get(name, ()) if not first <= n <= last)
            for name in names
            if not title.endswith(("affine_range", "sequential_range"))
        }
        blocks.append(Block(first, last, title, {k: v for k, v in outside.items() if v}))
    return _Text(tuple(blocks), _shapes(function), tuple(dict.fromkeys(_odd_masks(function))))


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _function(text: str, name: str, line: int) -> Any:
    """Return the definition of a function."""
    tree = _tree(text)
    for node in ast.walk(tree) if tree is not None else ():
        if not isinstance(node, _FUNCTIONS) or node.name != name:
            continue
        if line in (node.lineno, *(d.lineno for d in node.decorator_list)):
            return node
    return None


def _blocks(body: list[ast.stmt], variables: frozenset[str]) -> Iterator[tuple[int, int, str]]:
    """Yield first and last line, and title, of the blocks in statements; `variables` depend on loops around them."""
    for node in body:
        if isinstance(node, _FUNCTIONS):
            continue
        if isinstance(node, ast.For):
            called = ast.unparse(node.iter.func) if isinstance(node.iter, ast.Call) else ""
            name = called.rpartition(".")[2]
            inside = variables
            if name in _TRACED_ONCE:
                inside = variables | {
                    n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)
                }
                yield node.body[0].lineno, _end(node.body), f"`for` over {called}"
            yield from _blocks(node.body, inside)
            continue
        if isinstance(node, ast.If):
            decided = _depends(node.test, variables)
            for branch in (node.body, node.orelse):
                if branch and decided:
                    yield branch[0].lineno, _end(branch), f"`if {ast.unparse(node.test)}`"
                yield from _blocks(branch, variables)
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _blocks(getattr(node, part, None) or [], variables)


def _odd_masks(function: Any) -> Iterator[ast.BinOp]:
    """Yield `i % 4` and `i // 4` in the masks of calls, where `i` is the variable of a loop that was traced once."""
    for loop in ast.walk(function):
        if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
            continue
        if ast.unparse(loop.iter.func).rpartition(".")[2] not in _TRACED_ONCE:
            continue
        variables = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
        masks = (n.value for n in ast.walk(loop) if isinstance(n, ast.keyword) and n.arg == "mask")
        for node in (part for mask in masks for part in ast.walk(mask)):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mod, ast.FloorDiv)):
                continue
            if variables & {n.id for n in ast.walk(node.left) if isinstance(n, ast.Name)}:
                yield node


def _end(body: list[ast.stmt]) -> int:
    return body[-1].end_lineno or body[-1].lineno


def _depends(test: ast.expr, variables: frozenset[str]) -> bool:
    """Tell whether a test compares the variable of a loop, or the number of a program."""
    parts = list(ast.walk(test))
    if any(isinstance(p, ast.Attribute) and p.attr == "program_id" for p in parts):
        return True
    calls = any(isinstance(p, (ast.Call, ast.Subscript)) for p in parts)
    return not calls and any(isinstance(p, ast.Name) and p.id in variables for p in parts)


def _shapes(function: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes in annotations `name: tensor[128, 512] = ...` of variables that are annotated once."""
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind = node.annotation
            if (
                isinstance(kind, ast.Subscript)
                and ast.unparse(kind.value).rpartition(".")[2] == "tensor"
            ):
                sizes = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
                numbers = [
                    n.value for n in sizes if isinstance(n, ast.Constant) and type(n.value) is int
                ]
                if len(numbers) == len(sizes):
                    shapes.setdefault(node.target.id, []).append(tuple(numbers))
    return {name: found[0] for name, found in shapes.items() if len(found) == 1}


class _Texts(dict[int, _Text]):
    """What the texts of functions say, by the identity of their code."""

    def of(self, code: CodeType) -> _Text:
        """Return that of one function."""
        text = self.get(id(code))
        if text is None:
            # Prebuilt kernels are in today's dialect, whose names mean other things.
            lines = "" if is_prebuilt(code) else "".join(linecache.getlines(code.co_filename))
            text = self[id(code)] = _text(lines, code.co_name, code.co_firstlineno)
        return text


def check_text(builder: Builder, shared: Sequence[Storage]) -> None:
    """Record the mistakes in the text of a kernel that its programs have shown.

    Args:
        builder: its program.
        shared: what the kernel makes in nl.shared_hbm; tensors in nl.hbm lie there, too.
    """
    texts = _Texts()
    outliving: dict[int, list[tuple[Block, int, Storage]]] = {}
    # By the identity of the stack, which tensors share: a block that is unrolled makes one in every pass.
    around: dict[int, list[tuple[Block, int]]] = {}
    for storage in builder.storages:
        if not storage.stack:
            continue
        again = id(storage.stack) in around
        if not again:
            around[id(storage.stack)] = list(_blocks_around(storage.stack, texts))
        if again and storage.buffer is SHARED_HBM:
            continue
        if any(storage is one for one in shared):
            _check_shared(builder, storage, texts)
            continue
        if not again:
            _check_shape(builder, storage, texts)
        if around[id(storage.stack)]:
            outliving[storage.id] = [(b, n, storage) for b, n in around[id(storage.stack)]]
    if outliving:
        _check_uses(builder, outliving)
    for code, (_, stack) in builder.met.items():
        for node in texts.of(code).masks:
            builder.errors.append(
                BadMask(
                    f"the mask takes the variable of a loop apart, with `{ast.unparse(node)}`: it is not affine",
                    stack=(Span.of_node(node, code), *stack),
                    notes=[older("err_unsupported_expression_in_mask")],
                    help="write two loops, of which one has the quotient as its variable and the other the remainder",
                )
            )


def _blocks_around(stack: Stack, texts: _Texts) -> Iterator[tuple[Block, int]]:
    """Yield the blocks around the places of a stack whose variables are used later, with the depth of the place."""
    for depth, place in enumerate(reversed(stack)):
        if isinstance(place, Span) or not (text := texts.of(place[0])).blocks:
            continue
        line = Span.of(place).line
        for block in text.blocks:
            if block.later and block.first <= line <= block.last:
                yield block, depth


def _check_uses(builder: Builder, outliving: dict[int, list[tuple[Block, int, Storage]]]) -> None:
    told: set[tuple[Span, str]] = set()
    for i in builder.body:
        if type(i) is not Instruction:
            continue
        for value in i.args:
            if type(value) is not NkiTensor or value.storage.id not in outliving:
                continue
            for block, depth, storage in outliving[value.storage.id]:
                made, used = storage.stack[::-1], i.stack[::-1]
                if (
                    depth >= len(used)
                    or made[:depth] != used[:depth]
                    or isinstance(used[depth], Span)
                ):
                    continue
                if Span.of(made[depth]).function != Span.of(used[depth]).function:
                    continue
                span = Span.of(used[depth])
                name = next((n for n, lines in block.later.items() if _among(span, lines)), None)
                if name is None or (span, name) in told:
                    continue
                told.add((span, name))
                builder.errors.append(
                    OutOfScope(
                        f"`{name}` is used outside the block of {block.title} that makes it",
                        stack=i.stack[len(used) - 1 - depth :],
                        notes=[
                            f"a tensor that a block makes belongs to it: made at {Span.of(made[depth])}",
                            older("err_local_variable_used_out_of_scope"),
                        ],
                        help="make it before the block with nl.ndarray, and assign to it inside: t[...] = value",
                    )
                )


def _among(span: Span, lines: frozenset[int]) -> bool:
    return any(span.line <= n <= (span.end_line or span.line) for n in lines)


def _check_shared(builder: Builder, storage: Storage, texts: _Texts) -> None:
    """Record an error for a tensor in shared HBM that a block makes, and a finding where a called function does."""
    places = [p for p in storage.stack if not isinstance(p, Span)]
    around = [
        b for p in places for b in texts.of(p[0]).blocks if b.first <= Span.of(p).line <= b.last
    ]
    is_in_called = len(places) > 1 and not is_prebuilt(places[0][0])
    if not around and is_in_called and places[-1][0] is builder.root:
        builder.find(
            "portability",
            f"`{storage.name}` in nl.shared_hbm is made in the function `{places[0][0].co_name}`, which the kernel"
            " calls: published kernels do it, but the documentation of 2.26 calls it"
            " err_shared_hbm_must_in_kernel_level",
            "make it in the kernel itself, and give it to the function",
            stack=storage.stack,
        )
    for block in around[:1]:
        builder.errors.append(
            TensorArgument(
                f"`{storage.name}` in nl.shared_hbm is made in the block of {block.title}",
                stack=storage.stack,
                notes=[older("err_shared_hbm_must_in_kernel_level")],
                help="make it before the block, at the level of the kernel; nl.hbm is for what one program needs",
            )
        )


def _check_shape(builder: Builder, storage: Storage, texts: _Texts) -> None:
    """Record an error for a new tensor whose variable is annotated with another shape."""
    place = storage.stack[0]
    shapes = {} if isinstance(place, Span) else texts.of(place[0]).shapes
    if not shapes:
        return
    name = variable_of(storage.stack[:1])
    wanted = shapes.get(name)
    # Of a tensor with block axes this is one block.
    if (
        wanted is not None
        and name == re.split(r"[.\[]", storage.name)[0]
        and wanted[-len(storage.shape) :] != storage.shape
    ):
        builder.errors.append(
            AnnotatedShape(
                f"`{name}` has the shape {list(storage.shape)}; it is annotated with {list(wanted)}",
                stack=storage.stack,
                notes=[older("err_annotation_shape_mismatch")],
                help="correct the annotation, or the shape",
            )
        )


def check_parameters(
    function: Callable[..., Any], given: dict[str, set[int]], results: set[int], builder: Builder
) -> None:
    """Record an error where a kernel with a result writes a parameter that it may not, or does not return it.

    Kernels of 2.20 and 2.21 have no result: they write what they compute to their parameters.

    Args:
        function: the kernel.
        given: the numbers of the tensors in each parameter.
        results: the numbers of the tensors that the kernel returns.
        builder: its program.
    """
    parameters = {number: name for name, numbers in given.items() for number in numbers}
    if not results or not parameters:
        return
    written: dict[str, Instruction] = {}
    for i in builder.body:
        if type(i) is Instruction and not i.form.broken:
            for view in i.written():
                if view.storage.id in parameters:
                    written.setdefault(parameters[view.storage.id], i)
    for name, i in written.items():
        mutable = "mutable" in _annotation(function, name)
        if mutable and given[name] & results:
            continue
        code = (
            "err_mutable_parameter_not_returned"
            if mutable
            else "err_cannot_update_immutable_parameter"
        )
        builder.errors.append(
            ParameterUpdate(
                f"parameter `{name}` is written"
                + (", and not returned" if mutable else ", and not annotated as nt.mutable_tensor"),
                stack=i.stack,
                notes=[older(code)],
                help=f"return it beside the other results: return ..., {name}"
                if mutable
                else f"write {name}: nt.mutable_tensor and return it, or copy it to a new tensor and write that",
            )
        )


def _annotation(function: Callable[..., Any], name: str) -> str:
    kind = getattr(function, "__annotations__", {}).get(name, "")
    return kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
