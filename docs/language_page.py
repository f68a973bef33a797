"""Writes the documentation page of the language from its table."""

from __future__ import annotations

from collections.abc import Mapping

from nki_lab.dialects.construct import (
    ACCEPTED,
    DEPRECATED,
    ERROR,
    PORTABILITY,
    Construct,
    Subset,
)

_HEAD = """\
# The Python of kernels

<!-- Written from nki_lab/dialects/nki_subset by `pytest tests/compiler/test_language_page.py --update-golden`. -->

NKI has two front ends: the *tracer* runs a kernel as Python, the *parser* reads its text. nki_lab traces, and reads
the text to check it: that of the kernel, of every function it calls, and of the functions and classes these name.

| level | meaning |
|---|---|
| accepted | both front ends take it |
| portability | a finding: the tracer takes it, the parser does not; an error under `--strict` |
| deprecation | a finding: it will be removed from NKI; an error under `--strict` |
| error | no front end compiles it, or the documentation rules it out; `nki-lab explain` has a page for the code |

Sources are pages of the [AWS Neuron documentation](https://github.com/aws-neuron/aws-neuron-sdk), and files of
[KLR](https://github.com/leanprover/KLR), an open front end of the same language, for what only the parser refuses.
"""
_ORDER = (ACCEPTED, PORTABILITY, DEPRECATED, ERROR)


def language_page(subset: Subset) -> str:
    """Return the page, in Markdown."""
    return "\n".join([_HEAD, *(_section(title, rows) for title, rows in subset.sections.items())])


def _section(title: str, rows: Mapping[str, Construct]) -> str:
    lines = [
        f"## {title}",
        "",
        "| construct | level | meaning, or what to write instead | source |",
    ]
    lines.append("|---|---|---|---|")
    for row in sorted(rows.values(), key=lambda row: _ORDER.index(row.level)):
        level = f"error {row.code}" if row.level == ERROR else row.level
        cells = (row.what, level, row.instead, row.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""])
