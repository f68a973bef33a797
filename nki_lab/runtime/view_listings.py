"""The lines of the author's text that a program came from."""

from __future__ import annotations

import linecache
from collections.abc import Iterator

from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.stored_source import StoredSource
from nki_lab.ir.program.nodes import Kernel
from nki_lab.source import Span, Stack
from nki_lab.views.run import Listing

#: Functions of one file stand in one listing when so few lines lie between them.
_GAP = 6


def listings(kernel: Kernel, source: SourceKernel | StoredSource) -> list[Listing]:
    """Return the text of the kernel and of every function it called, the kernel's first; what is lost is left out."""
    ranges: dict[str, list[tuple[int, int]]] = {}
    length = max(1, len(source.text.splitlines()))
    own = (source.first_line, source.first_line + length - 1)
    ranges[source.filename] = [own]
    for filename, first, last in _functions(kernel):
        ranges.setdefault(filename, []).append((first, last))
    listed = []
    for filename, parts in ranges.items():
        for first, last in _joined(parts):
            lines = [linecache.getline(filename, n).rstrip("\n") for n in range(first, last + 1)]
            if filename == source.filename and first == own[0] and not any(lines):
                lines = source.text.splitlines()
            span = Span(filename, first)
            if any(line.strip() for line in lines):
                heading = span.heading().rpartition(", line ")[0]
                listed.append(Listing(span.file_label, heading, first, tuple(lines)))
    return listed


def _functions(kernel: Kernel) -> Iterator[tuple[str, int, int]]:
    """Yield file, first and last line of everything that stands in the stack of an instruction or tensor."""
    seen: set[object] = set()
    stacks: list[Stack] = [i.stack for i in kernel.instructions] + [
        s.stack for s in kernel.storages
    ]
    for stack in {id(s): s for s in stacks}.values():
        for place in stack:
            if isinstance(place, Span):
                key: object = (place.filename, place.line)
                entry = (place.filename, place.line, place.end_line or place.line)
            else:
                key = id(place[0])
                lines = [line for _, _, line in place[0].co_lines() if line]
                first = place[0].co_firstlineno
                entry = (place[0].co_filename, first, max(lines, default=first))
            if key not in seen:
                seen.add(key)
                yield entry


def _joined(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    head = parts[0]
    for first, last in sorted(parts):
        if joined and first <= joined[-1][1] + _GAP:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return sorted(joined, key=lambda part: (not part[0] <= head[0] <= part[1], part))
