"""Writes docs/kernels.md, the page about the prebuilt kernels with the times that were kept.

python -m docs.kernel_page
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

from docs.markdown import escaped, page
from nki_lab import kernels
from nki_lab.kernels.bench import load_rows, table
from nki_lab.kernels.explained import lines_of, place_of

#: Rows that `nki-lab bench --target trn2 --write docs/kernels` has written, a file per kernel.
KEPT = Path(__file__).parent / "kernels"
PAGE = KEPT.with_suffix(".md")


def kernel_page() -> str:
    """Return the page with every prebuilt kernel: its call, its steps, and how close it comes to its roof."""
    rows = load_rows(KEPT)
    text = (
        "`nki_lab.kernels` holds kernels to read, to call and to measure:"
        ' `from nki_lab.kernels import softmax` gives the kernel, `nki_lab.kernels.get("softmax")` what is known about'
        " it. `.explain()` draws how its arguments lie in tiles, and shows lines, instructions and tiles of each step."
        " `nki-lab bench` writes the table anew, and compares it with an earlier one; `nki_lab.kernels.compare(name)`"
        f" compares kernels that compute the same over their size, for {_listed(kernels.COMPARISONS)}.\n\n"
        "As [operators](operators.md) of PyTorch and JAX these have a backward:"
        f" {_listed(name for name in kernels.names() if kernels.get(name).operator)}.\n\n"
        "Times are modelled. `of roof` is the part of a run that its work takes at least, under the limit of the chip"
        " that allows the least; `HBM bytes` is what is moved, as a multiple of arguments and results.\n\n"
        f"{table(rows, markdown=True)}\n"
    )
    whys = dict.fromkeys(f"- {r.kernel}, {r.dtype}: {r.why}.\n" for r in rows if r.why)
    short = f"Below 85 % of their roof at the sizes above:\n\n{''.join(whys)}" if whys else ""
    return page("Prebuilt kernels", text, short, *(_kernel(name) for name in kernels.names()))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _step(step: str, file: str) -> str:
    """Return a step with the lines that it speaks of."""
    at = getattr(step, "at", "")
    return f"{step} ({place_of(*lines_of(file, at))})" if at else step


def _kernel(name: str) -> str:
    kernel = kernels.get(name)
    function = kernel.kernel.func
    doc = inspect.getdoc(function) or ""
    file = function.__code__.co_filename
    shown = (escaped(_step(step, file)) for step in kernel.steps)
    steps = "".join(f"{n}. {step}\n" for n, step in enumerate(shown, 1))
    sources = "; ".join(map(escaped, kernel.sources))
    call = f"{name}{inspect.signature(function)}"
    official = _listed(kernel.official)
    older = f"\nIn kernels of Beta 1: {official}.\n" if official else ""
    return f"## {name}\n\n```text\n{call}\n\n{doc}\n```\n\n{steps}{older}\nSources: {sources}.\n"


if __name__ == "__main__":
    PAGE.write_text(kernel_page(), encoding="utf-8")
