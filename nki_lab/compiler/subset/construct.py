"""What is known about one construct of Python in a kernel?"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

ACCEPTED, PORTABILITY, DEPRECATED, ERROR = "accepted", "portability", "deprecation", "error"

_HEAD = """\
import math
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

import nki
import nki.isa as nisa
import nki.language as nl


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


"""
_KERNEL = """\
@nki.jit
def kernel(x):
    t = nl.load(x)
{body}
    return stored(t)
"""


@dataclass(frozen=True)
class Construct:
    """A construct of Python, and what becomes of it in a kernel.

    Attributes:
        what: the construct, as the subject of a sentence.
        level: "accepted"; "portability": a finding, since one official front end refuses it; "deprecation": a
            finding; "error": no front end compiles it.
        instead: what to write instead; for what is accepted, what it means.
        source: page of the official documentation, or file of the open front end (github.com/leanprover/KLR).
        example: lines of a kernel that has loaded its argument `x` into the tile `t`, or a module with `kernel`.
        better: the same, rewritten as `instead` says.
        code: of the error.
    """

    what: str
    level: str
    instead: str
    source: str
    example: str
    better: str = ""
    code: str = "NKI110"

    def message(self, subject: str = "") -> str:
        """Return what an author is told; `subject` names what was found where the row is about many."""
        if self.level == ERROR:
            return f"{subject or self.what} is not supported in a kernel"
        return f"{subject or self.what}: NKI's tracer takes it, its parser does not"


def module_of(example: str) -> str:
    """Return the text of a module with the kernel that an example stands for."""
    text = textwrap.dedent(example).strip("\n")
    if "def kernel(" in text:
        return f"{_HEAD}{text}\n"
    return _HEAD + _KERNEL.format(body=textwrap.indent(text, "    "))
