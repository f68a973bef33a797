"""Finds the line of the author's text that each instruction of a kernel comes from."""

from __future__ import annotations

import numpy as np

from nki_lab.ir.program.nodes import Kernel
from nki_lab.source import Span


def kernel_lines(kernel: Kernel) -> tuple[np.ndarray, list[Span | None]]:
    """Return the kernel line of every instruction, as a number into a list of lines; None is no line."""
    # The builder keeps one object per distinct stack, so that identity is enough (and much cheaper).
    number: dict[int, int] = {}
    spans: list[Span | None] = []
    codes = []
    for i in kernel.instructions:
        code = number.get(id(i.stack))
        if code is None:
            code = number[id(i.stack)] = len(spans)
            spans.append(Span.of(i.stack[0]) if i.stack else None)
        codes.append(code)
    return np.array(codes, dtype=np.int64), spans


def label_of(span: Span | None) -> str | None:
    """Return a line as the profile's `nki_source_location` writes it, such as `add.py:42`."""
    return f"{span.file_label}:{span.line}" if span else None
