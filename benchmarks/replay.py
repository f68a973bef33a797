"""A replay: a program of ours, the published rows it answers, and what is read off it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.published import Row

if TYPE_CHECKING:
    from benchmarks.readings import Reading
    from benchmarks.running import Run


@dataclass(frozen=True, eq=False)
class Program:
    """A kernel with what it is compiled and timed for.

    Attributes:
        function: the kernel, a plain function in nki_lab's dialect.
        tensors: (shape, dtype name) of each argument that is a tensor, in order.
        constants: further arguments, by name.
        cores: physical cores of a logical core (LNC).
        reorder: False keeps the instructions in the order they are written in.
        whole: latencies include the time a program spends before its first transfer.
        repeats: how often the measured program does what `function` does once, each time on other data; bytes, work
            and time but for the start are taken so many times.
    """

    function: Callable[..., Any]
    tensors: tuple[tuple[tuple[int, ...], str], ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    cores: int = 1
    reorder: bool = True
    whole: bool = True
    repeats: int = 1


@dataclass(frozen=True, eq=False)
class Replay:
    """One program and the rows it answers; `benchmarks.replays` says how they are matched.

    Attributes:
        kernel: regular expression for all of a row's `kernel`.
        shapes: regular expression for all of a row's `shapes`; its named groups are passed to `program` as numbers.
        program: makes the program.
        arch: the generation: v2, v3 or v4.
        source: text that occurs in a row's `source`, where that is what tells rows apart.
        family: name of the variants it is ranked among; "" for none.
        published_bytes: scale the transfers so that they move the row's published bytes.
        reads: metric -> what is read off the run, beyond `benchmarks.readings.KNOWN`.
    """

    kernel: str
    shapes: str
    program: Callable[..., Program]
    arch: str = "v2"
    source: str = ""
    family: str = ""
    published_bytes: bool = False
    reads: Mapping[str, Callable[[Run], Reading]] = field(default_factory=dict)

    def sizes(self, row: Row) -> dict[str, int] | None:
        """Return what `program` is called with for a row; None where this is no replay of the row."""
        if self.arch != row.generation or self.source not in row.source:
            return None
        found = re.fullmatch(self.shapes, row.shapes)
        if found is None or not re.fullmatch(self.kernel, row.kernel):
            return None
        return {name: int(text) for name, text in found.groupdict().items() if text is not None}
