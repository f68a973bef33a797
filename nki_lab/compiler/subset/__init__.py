"""Which Python may a kernel be written in? One row per construct; checks, documentation and tests read the rows.

NKI has two front ends (nki/api/nki/isa/__init__.py, VirtualRegister): the tracer runs a kernel as Python, the parser
reads its text. What both refuse, or the documentation rules out, is an error here; what only the tracer takes is a
finding, which `strict` makes an error. What the parser refuses is known from its open relative, KLR.
"""

from nki_lab.compiler.subset.calls import CALLS
from nki_lab.compiler.subset.construct import (
    ACCEPTED,
    DEPRECATED,
    ERROR,
    PORTABILITY,
    Construct,
    module_of,
)
from nki_lab.compiler.subset.expressions import EXPRESSIONS
from nki_lab.compiler.subset.statements import STATEMENTS
from nki_lab.compiler.subset.values import VALUES

SECTIONS: dict[str, dict[str, Construct]] = {
    "Statements": STATEMENTS,
    "Expressions": EXPRESSIONS,
    "Functions, classes and calls": CALLS,
    "Values, tensors and registers": VALUES,
}
CONSTRUCTS: dict[str, Construct] = {
    key: row for section in SECTIONS.values() for key, row in section.items()
}

__all__ = [
    "ACCEPTED",
    "CONSTRUCTS",
    "DEPRECATED",
    "ERROR",
    "PORTABILITY",
    "SECTIONS",
    "Construct",
    "module_of",
]
