"""Finds what a kernel's steps speak of: their lines, and the tiles of the compiled program that these lines work on."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nki_lab.errors import UsageError
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.kernels.prebuilt import Step
from nki_lab.source import Span, Stack
from nki_lab.views.explained import ExplainedStep, Layout, Tile


def lines_of(file: str, at: str) -> tuple[str, list[tuple[int, int]]]:
    """Return the file that `Step.at` names, and first and last line of each place; UsageError where there is none."""
    shared, colon, name = at.partition(".py:")
    if colon:
        file, at = str(Path(file).parents[1] / f"{shared}.py"), name
    text = "".join(linecache.getlines(file))
    lines = text.split("\n")
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    places = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in statements
        if isinstance(node, ast.FunctionDef) and node.name == at
    ] or [
        (node.lineno, node.end_lineno or node.lineno)
        for node in statements
        if lines[node.lineno - 1].strip().startswith(at)
    ]
    if not places:
        raise UsageError(
            f"{Path(file).name}: nothing is called or begins with `{at}`",
            help="name a function of this file, or write how a statement of it begins",
        )
    return file, sorted(places)


def place_of(file: str, places: Sequence[tuple[int, int]]) -> str:
    """Return lines of a file in words."""
    shown = ", ".join(f"{a} to {b}" if a != b else str(a) for a, b in places)
    word = "line" if len(places) == 1 and places[0][0] == places[0][1] else "lines"
    return f"{Path(file).name}, {word} {shown}"


def explained_steps(kernel: Kernel, file: str, steps: Iterable[str]) -> tuple[ExplainedStep, ...]:
    """Return the steps of a compiled kernel with their lines, engines and tiles."""
    return tuple(_explained(kernel, file, step) for step in steps)


def _explained(kernel: Kernel, file: str, step: str) -> ExplainedStep:
    if not isinstance(step, Step) or not step.at:
        return ExplainedStep(str(step))
    file, places = lines_of(file, step.at)
    seen: dict[int, bool] = {}
    engines: Counter[str] = Counter()
    tiles: dict[Any, Tile] = {}
    for i in kernel.instructions:
        if id(i.stack) not in seen:  # equal stacks are one object
            seen[id(i.stack)] = _is_in(i.stack, file, places)
        if seen[id(i.stack)]:
            engines[i.form.engine.name] += 1
            for view in (*i.read(), *i.written()):
                if view.storage.on_chip:
                    _keep_largest(tiles, view.storage)
    source = "\n...\n".join(
        "\n".join(f"{n:4} {linecache.getline(file, n).rstrip()}" for n in range(first, last + 1))
        for first, last in places
    )
    return ExplainedStep(
        str(step), place_of(file, places), source, dict(engines), tuple(tiles.values())
    )


def _is_in(stack: Stack, file: str, places: list[tuple[int, int]]) -> bool:
    spans = (Span.of(place) for place in stack)
    return any(
        span.filename == file and first <= span.line <= last
        for span in spans
        for first, last in places
    )


def _keep_largest(tiles: dict[Any, Tile], storage: Storage) -> None:
    """Keep one tile of those that one line makes, the largest."""
    key = (str(Span.of(storage.stack[0])) if storage.stack else storage.name, storage.called)
    tile = _tile(storage.called or storage.name, storage.buffer.name, storage.dtype, storage.shape)
    if key not in tiles or tiles[key][3:5] < tile[3:5]:
        tiles[key] = tile


def _tile(
    name: str, memory: str, dtype: Any, shape: tuple[int, ...], axes: tuple[str, str] = ("", "")
) -> Tile:
    return Tile(name, memory, str(dtype), shape[0], tuple(shape[1:]), axes)


def layouts(kernel: Kernel, function: Any) -> tuple[Layout, ...]:
    """Return how the arguments and results of a compiled kernel lie in the tiles they are moved to and from."""
    names = _axis_names(inspect.getdoc(function) or "")
    results = [view.storage for view in kernel.outputs]
    rows = []
    for storage in kernel.storages:
        is_result = any(storage is result for result in results)
        if storage.on_chip or not (is_result or storage.origin == "input"):
            continue
        axes = names.get("" if is_result and storage.name not in names else storage.name, [])
        axes = axes if len(axes) == len(storage.shape) else [""] * len(storage.shape)
        tile = next(_tiles_of(kernel, storage, axes), None)
        rows.append(
            Layout(storage.name, tuple(zip(axes, storage.shape, strict=True)), tile, is_result)
        )
    return tuple(rows)


def _tiles_of(kernel: Kernel, storage: Storage, names: list[str]) -> Iterator[Tile]:
    for i in kernel.instructions:
        views = [*i.read(), *i.written()]
        for view in views:
            if view.storage is storage and view.dynamic is None:
                for other in views:
                    if other.storage.on_chip:
                        yield _moved(view, other, storage, names)


def _moved(view: NkiTensor, other: NkiTensor, storage: Storage, names: list[str]) -> Tile:
    """Return the tile of a transfer, its axes named after those of the tensor in device memory."""
    strides = [1] * len(storage.shape)
    for n in range(len(strides) - 2, -1, -1):
        strides[n] = strides[n + 1] * storage.shape[n + 1]

    def name(size: int, stride: int) -> str:
        if size == 1 or not stride:
            return ""
        axis = next(n for n, step in enumerate(strides) if step <= abs(stride))
        return names[axis] or f"axis {axis}"

    named = [name(size, stride) for size, stride in zip(view.shape, view.strides, strict=True)]
    across = " x ".join(filter(None, named[1:]))
    return _tile(
        other.storage.name, other.storage.buffer.name, other.dtype, other.shape, (named[0], across)
    )


def _axis_names(doc: str) -> dict[str, list[str]]:
    """Return the axes that a docstring gives arguments, `x: [rows, width]`; those of the result as ""."""
    names: dict[str, list[str]] = {}
    before, _, after = doc.partition("Returns:")
    for called, axes in re.findall(r"^ *([\w, ]+): \[([^\]]+)\]", before, re.MULTILINE):
        for name in called.split(","):
            names[name.strip()] = [axis.strip() for axis in axes.split(",")]
    if result := re.search(r"\[([^\]]+)\]", after):
        names[""] = [axis.strip() for axis in result[1].split(",")]
    return names
