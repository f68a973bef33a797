"""The Python that kernels of today's NKI may be written in; checks, documentation and tests read the rows.

NKI has two front ends (nki/api/nki/isa/__init__.py, VirtualRegister): the tracer runs a kernel as Python, the parser
reads its text. What both refuse, or the documentation rules out, is an error here; what only the tracer takes is a
finding, which `strict` makes an error. What the parser refuses is known from its open relative, KLR.
"""

from nki_lab.dialects.construct import Subset
from nki_lab.dialects.nki_subset.calls import BUILTINS, CALLS, DECORATORS, LOOPING, MATH
from nki_lab.dialects.nki_subset.expressions import EXPRESSIONS
from nki_lab.dialects.nki_subset.statements import STATEMENTS
from nki_lab.dialects.nki_subset.values import VALUES

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

SUBSET = Subset(
    {
        "Statements": STATEMENTS,
        "Expressions": EXPRESSIONS,
        "Functions, classes and calls": CALLS,
        "Values, tensors and registers": VALUES,
    },
    BUILTINS,
    LOOPING,
    MATH,
    DECORATORS,
    _HEAD,
    _KERNEL,
)
