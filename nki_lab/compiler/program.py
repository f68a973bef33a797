"""Holds a compiled kernel, and keeps it in a file that runs without its source.

A file is one JSON document: the program of each core in the text form of `ir.text.printer`, the place of every line in
the author's text, what the call was compiled for, and hashes. Nothing in it is executed when it is read, and no other
file is opened: the author's lines that errors show are inside, unless it was saved without them.
"""

from __future__ import annotations

import gc
import hashlib
import json
import linecache
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nki_lab import __version__
from nki_lab.compiler.artifact_form import is_complete
from nki_lab.compiler.cores import pair_shared
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.races import find_races
from nki_lab.compiler.reuse import Programs
from nki_lab.compiler.stored_source import StoredSource, show_lines
from nki_lab.compiler.trace import is_container, map_arguments
from nki_lab.errors import BadFile, KernelErrors, OverCapacity
from nki_lab.ir.program.logical_core import Watched
from nki_lab.ir.program.nodes import Finding, Kernel, Loop, told_once
from nki_lab.ir.program.unwritten import left_to_a_run
from nki_lab.ir.program.verify import verify
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import value_text
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.profiler.formats.reading import (
    MAX_NAME,
    MAX_TEXT,
    beginning_of,
    read_document,
    write_whole,
)
from nki_lab.source import Span, Stack, is_cell
from nki_lab.targets import target_data, target_of
from nki_lab.targets.spec import Target

#: Raised when a file of an older version would be read wrongly.
FORMAT_VERSION = 2
#: The ending of such files.
SUFFIX = ".nkic"

_MARK = "nki_lab kernel"
_HEAD = re.compile(rb'\s*\{\s*"format"\s*:\s*"nki_lab kernel"\s*,\s*"version"\s*:\s*(\d+)\s*,')


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A program that can be simulated and timed without its source.

    Attributes:
        kernel: the program after the last pass.
        stages: (pass name, program after it), the traced program first.
        source: the kernel it was traced from.
        others: the programs of the other cores of a logical core.
        programs: what it shares with other kernels of the same program; None where it comes from a file.
    """

    kernel: Kernel
    stages: tuple[tuple[str, Kernel], ...]
    source: SourceKernel | StoredSource
    others: tuple[Kernel, ...] = ()
    programs: Programs | None = None

    @classmethod
    def of(cls, programs: Programs, source: SourceKernel) -> CompiledKernel:
        """Return the kernel that the passes made of a trace of `source`."""
        kernel, *others = programs.kernels
        return cls(kernel, programs.stages, source, tuple(others), programs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as to a file; the program is that after the last pass."""
        text = to_json(self)
        return from_json, (text, f"{self.kernel.name} {digest_of(text)[:12]}")

    @property
    def target(self) -> Target:
        """The machine it was compiled for."""
        return self.kernel.target

    def save(self, path: str | Path, source: bool = True) -> Path:
        """Write the kernel to a file that `load` reads anywhere, without its source; return the path.

        Args:
            path: the file, ending in .nkic by custom.
            source: keep the kernel's text, and the lines that errors and views show. Running needs neither.

        Raises BadFile where it cannot be written.
        """
        return save(self, path, source)

    @classmethod
    def load(cls, path: str | Path) -> CompiledKernel:
        """Read a kernel that `save` wrote.

        Raises BadFile with one sentence when the file is something else, is damaged, or was made by another version of
        nki_lab or for a chip that is described otherwise by now.
        """
        return load(path)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the author should know, from tracing and all passes."""
        return told_once(self.kernel.findings)

    @cached_property
    def watched(self) -> tuple[Watched, ...]:
        """The tensors on which only a run can tell whether two cores race."""
        if not self.others:
            return ()
        (other,) = self.others
        pairs = pair_shared(self.kernel, other)
        return find_races(self.kernel, other, pairs, to_watch=True).watched

    @property
    def findings_before_run(self) -> tuple[Finding, ...]:
        """What the author should know where the program is not run: also what has not been checked."""
        unwritten = (f for program in (self.kernel, *self.others) for f in left_to_a_run(program))
        races = (finding for tensor in self.watched for finding in tensor.findings())
        return told_once((*self.findings, *unwritten, *races))

    @property
    def needs_a_run(self) -> bool:
        """Whether only a run shows how long it takes, or makes all checks."""
        programs = (self.kernel, *self.others)
        return bool(self.watched) or any(p.has_loops or p.tracked for p in programs)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Let Python not look for unreachable cycles meanwhile."""
    # The cyclic collector walks every live instruction again and again; at 1e5 of them it triples the cost.
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


# -- writing ---------------------------------------------------------------------------------------------------------


def save(compiled: CompiledKernel, path: str | Path, source: bool = True) -> Path:
    """Write a compiled kernel to a file, in one step: readers see all of it or nothing. Returns the path.

    Args:
        compiled: the kernel.
        path: the file, ending in .nkic by custom.
        source: keep the kernel's text and the lines that errors and views show.
    """
    path = Path(path)
    text = to_json(compiled, source)
    try:
        write_whole(path, text)
    except OSError as error:
        raise BadFile.unwritable(path, error) from None
    return path


def to_json(compiled: CompiledKernel, source: bool = True) -> str:
    """Return a compiled kernel as a JSON document; `from_json` gives it back."""
    places = _Places()
    kernels = (compiled.kernel, *compiled.others)
    cores = [
        {"program": print_kernel(k, comments=False), "places": _places_of(k, places)}
        for k in kernels
    ]
    findings = [
        {"kind": f.kind, "message": f.message, "help": f.help, "code": f.code, "place": places(f.stack)}
        for f in compiled.kernel.findings
    ]  # fmt: skip
    described = _source(compiled, places) if source else None  # it names a file, too
    stored: dict[str, Any] = {
        "format": _MARK,
        "version": FORMAT_VERSION,
        "nki_lab": __version__,
        "name": compiled.kernel.name,
        "target": target_data(compiled.target),
        "target_facts": facts_hash(compiled.target),
        "parameters": [
            [p.name, p.kind.name] for p in compiled.source.signature.parameters.values()
        ],
        "arguments": _arguments(compiled.kernel),
        "cores": cores,
        "findings": findings,
        "timed": compiled.kernel.timed,
        "files": places.files(),
        "stacks": places.stacks,
        "source": described,
        "lines": places.lines() if source else None,
    }
    stored["sha256"] = _digest(stored)
    return json.dumps(stored, separators=(",", ":"))


def facts_hash(target: Target) -> str:
    """Return a hash of all facts of a chip: a compiled program may depend on any of them."""
    facts = sorted((name, _stable(fact.value)) for name, fact in target.sources.items())
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _stable(value: Any) -> str:
    """Return a value as text that is the same in every process; sets have no order."""
    if isinstance(value, (set, frozenset)):
        return repr(sorted(_stable(v) for v in value))
    if isinstance(value, Mapping):
        return repr(sorted((_stable(k), _stable(v)) for k, v in value.items()))
    return repr(value)


def _digest(stored: dict[str, Any]) -> str:
    return digest_of(
        json.dumps({k: v for k, v in stored.items() if k != "sha256"}, separators=(",", ":"))
    )


def digest_of(text: str) -> str:
    """Return the digest of a text, as hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def _arguments(kernel: Kernel) -> dict[str, str | None]:
    arguments: dict[str, str | None] = {}

    def leaf(path: str, value: Any) -> Any:
        arguments[path] = None if isinstance(value, NkiTensor) else value_text(value)
        return value

    for parameter in kernel.params:
        map_arguments(parameter.name, parameter.value, leaf, lambda v: not is_container(v))
    return arguments


def _source(compiled: CompiledKernel, places: _Places) -> dict[str, Any]:
    source = compiled.source
    return {
        "file": places.file(source.filename),
        "first_line": source.first_line,
        "text": source.text,
    }


class _Places:
    """Numbers the stacks, files and lines that a kernel's parts came from."""

    def __init__(self) -> None:
        self.stacks: list[list[list[Any]]] = []
        self._numbers: dict[Stack, int] = {}
        self._spans: dict[Any, list[Any]] = {}
        self._files: dict[str, int] = {}
        self._lines: dict[int, dict[int, str]] = {}

    def __call__(self, stack: Stack) -> int:
        """Return the number of a stack."""
        number = self._numbers.get(stack)
        if number is None:
            number = self._numbers[stack] = len(self.stacks)
            self.stacks.append([self._frame(place) for place in stack])
        return number

    def _frame(self, place: Any) -> list[Any]:
        spans = self._spans.get(place)
        if spans is None:
            span = Span.of(place)
            file = self.file(span.filename)
            for line in range(span.line, (span.end_line or span.line) + 1):
                text = linecache.getline(span.filename, line).rstrip("\n")
                self._lines.setdefault(file, {})[line] = text
            spans = self._spans[place] = [
                file, span.line, span.column, span.end_line, span.end_column, span.function,
            ]  # fmt: skip
        return spans

    def file(self, name: str) -> int:
        return self._files.setdefault(name, len(self._files))

    def files(self) -> list[list[Any]]:
        """Return (name without its folder, whether it is a cell) of each file."""
        return [[Span(name, 1).file_label, is_cell(name)] for name in self._files]

    def lines(self) -> dict[str, dict[str, str]]:
        return {
            str(file): {str(n): text for n, text in sorted(lines.items())}
            for file, lines in self._lines.items()
        }


def _places_of(kernel: Kernel, number: _Places) -> dict[str, list[int]]:
    return {
        "instructions": [number(i.stack) for i in kernel.instructions],
        "storages": [number(s.stack) for s in kernel.storages],
        "loops": [number(r.loop.stack) for r in kernel.loops],
    }


# -- reading ---------------------------------------------------------------------------------------------------------


def load(path: str | Path) -> CompiledKernel:
    """Read a kernel that `save` wrote.

    Raises BadFile with one sentence when the file is something else, is damaged, or was made by another version of
    nki_lab or for a chip that is described otherwise by now.
    """
    path = Path(path)
    return from_json(
        read_document(path, _HEAD, f"{path.name} is not a kernel saved by nki_lab"), path.name
    )


def from_json(text: str, source: str = "this text") -> CompiledKernel:
    """Read a compiled kernel from the JSON document that `to_json` wrote.

    Args:
        text: the document.
        source: what to call it in errors.
    """
    head = _HEAD.match(text[:200].encode("utf-8", "replace"))
    if head is None:
        raise BadFile(
            f"{source} is not a kernel saved by nki_lab",
            help="write one with `nki-lab compile`, or compiled.save(path)",
        )
    if int(head[1]) != FORMAT_VERSION:
        raise BadFile(
            f"{source} has version {int(head[1])} of the format, this nki_lab reads {FORMAT_VERSION}",
            help=_AGAIN,
        )
    try:
        stored = json.loads(text)
        intact = stored["sha256"] == _digest(stored)
    except (ValueError, RecursionError, KeyError, TypeError):
        intact = False
    if not intact:
        raise BadFile(f"{source} is damaged: it is not as it was saved", help=_AGAIN)
    if "nki_lab" not in stored:
        raise _incomplete(source)
    if stored["nki_lab"] != __version__:
        raise BadFile(
            f"{source} was compiled by nki_lab {stored['nki_lab']}, this is {__version__}",
            help=_AGAIN,
        )
    if not is_complete(stored):
        raise _incomplete(source)
    try:
        target = target_of(stored["target"])
    except (TypeError, KeyError) as error:
        raise _incomplete(source) from error
    if stored["target_facts"] != facts_hash(target):
        raise BadFile(
            f"{source} was compiled for {target.name} as another nki_lab knew it", help=_AGAIN
        )
    return _read(stored, target, source)


_AGAIN = "compile the kernel again"


def _the(target: Target, name: str, source: str) -> Target:
    if name != target.name:
        raise BadFile(f"{source} has a program for {name}, and is for {target.name}", help=_AGAIN)
    return target


def _incomplete(source: str) -> BadFile:
    return BadFile(
        f"{source} is not as nki_lab writes it: a part is missing or of another kind", help=_AGAIN
    )


def _read(stored: dict[str, Any], target: Target, source: str) -> CompiledKernel:
    files = [f"<{source}>{os.sep}{label}" for label, _ in stored["files"]]
    for number, lines in (stored["lines"] or {}).items():
        shown = {int(n): text for n, text in lines.items()}
        show_lines(files[int(number)], shown, stored["files"][int(number)][1])
    stacks = [
        tuple(Span(files[frame[0]], *frame[1:]) for frame in stack) for stack in stored["stacks"]
    ]
    names = [stored["name"], *files, *(name for name, _ in stored["parameters"])]
    _check_lengths(names, "name", MAX_NAME, source)
    texts = [text for f in stored["findings"] for text in (f["message"], f["help"])]
    texts.append(stored["timed"])
    texts += [text for lines in (stored["lines"] or {}).values() for text in lines.values()]
    _check_lengths(texts, "text", MAX_TEXT, source)
    with collector_paused():
        kernels = [_placed(core, target, stacks, source) for core in stored["cores"]]
    findings = tuple(
        Finding(f["kind"], f["message"], stacks[f["place"]], f["help"], f["code"])
        for f in stored["findings"]
    )
    kernels = [kernel.with_(timed=stored["timed"]) for kernel in kernels]
    kernel = kernels[0].with_(findings=findings)
    main = stored["source"] or {"file": 0, "first_line": 1, "text": ""}
    described = StoredSource(
        stored["name"],
        tuple((name, kind) for name, kind in stored["parameters"]),
        stored["arguments"],
        files[main["file"]] if files else f"<{source}>",
        main["first_line"],
        main["text"],
    )
    return CompiledKernel(kernel, (("loaded", kernel),), described, tuple(kernels[1:]))


def _check_lengths(texts: Sequence[str], what: str, most: int, source: str) -> None:
    """Raise BadFile where a text is longer than any view has room for."""
    longest = max(map(len, texts), default=0)
    if longest > most:
        raise BadFile(
            f"{source} has a {what} of {longest:,} characters, more than {most:,}",
            help="make the file anew from a kernel with shorter names",
        )


def _placed(core: dict[str, Any], target: Target, stacks: Sequence[Stack], source: str) -> Kernel:
    """Return the program of a core, with the places of its parts."""
    kernel = read_kernel(core["program"], lambda name: _the(target, name, source))
    # A kernel that does not fit may have been compiled nevertheless; that is among its findings.
    wrong = [error for error in verify(kernel) if not isinstance(error, OverCapacity)]
    if wrong:  # the file is intact: it was made so
        raise wrong[0] if len(wrong) == 1 else KernelErrors(wrong)
    _check_lengths([kernel.name, *(s.name for s in kernel.storages)], "name", MAX_NAME, source)
    places = core["places"]
    parts = (
        ("instructions", kernel.instructions),
        ("storages", kernel.storages),
        ("loops", kernel.loops),
    )
    if any(len(places[name]) != len(listed) for name, listed in parts):
        raise _incomplete(source)
    for i, number in zip(kernel.instructions, places["instructions"], strict=True):
        i.stack = stacks[number]
    for s, number in zip(kernel.storages, places["storages"], strict=True):
        s.stack = stacks[number]
    numbers = iter(places["loops"])
    return kernel.with_(body=tuple(_with_places(kernel.body, numbers, stacks)))


def _with_places(body: Any, numbers: Iterator[int], stacks: Sequence[Stack]) -> Iterator[Any]:
    for node in body:
        if isinstance(node, Loop):
            stack = stacks[next(numbers)]
            inner = tuple(_with_places(node.body, numbers, stacks))
            node = Loop(node.kind, node.bounds, node.register, inner, stack, node.number)
        yield node


def is_artifact(path: Path) -> bool:
    """Tell whether a file says that it is a kernel saved by nki_lab."""
    return _HEAD.match(beginning_of(path)) is not None
