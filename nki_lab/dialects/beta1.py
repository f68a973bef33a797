"""The older dialect of Beta 1: `import neuronxcc.nki`, calls that return new tiles, launch grids of any rank."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nki_lab.dialects.construct import Subset
from nki_lab.dialects.dialect import Dialect, Grid
from nki_lab.errors import KernelArgument, close_matches

#: Keyword arguments of `nki.jit` that public kernels give and that change nothing here.
_IGNORED = {
    "kernel_return", "enable_out_of_bound_check", "show_compiler_tb", "experimental_flags", "disable_allocation_opt",
    "debug_kernel", "additional_compile_opt",
}  # fmt: skip
_TAKEN = ("allow", "debug", "nki", "platform_target")

# What the old compiler did between the lines of a kernel is documented by its name only: fusion, allocation, spilling.
# The approximation is the one of those tried that comes closest to the times published for kernels of the dialect
# (benchmarks/unmodified.py): giving each value of a tile a place of its own changes none of them, and PSUM tiles that
# share banks from the start make them worse.
_TIMED = (
    "the old compiler's schedule is not published. A kernel of the older dialect is timed so: each call is the"
    " instructions that it stands for, with the copies that the old compiler inserted; a tile takes the place that has"
    " been free the longest, so that loads run ahead where memory lasts; the scheduler of today's kernels orders them"
    " unless tiles lie on each other; of copies, and of products and sums with a number or column, whose engine is"
    " open, all, half or none are on Scalar, as is estimated fastest; nothing is fused, computed once for all passes"
    " of a loop, or spilled. For 29 published times of such kernels on trn1, modelled by measured time is 0.46 to"
    " 1.58, in the middle 1.07"
)


def _choices(keywords: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(keywords) - _IGNORED - set(_TAKEN))
    if unknown:
        raise KernelArgument(
            f"the decorator of neuronxcc.nki has no argument `{unknown[0]}`, and no public kernel gives it",
            help=close_matches(unknown[0], [*_TAKEN, *_IGNORED]) or "leave it out",
        )
    choices = {"debug": bool(keywords.get("debug", False)), "allow": keywords.get("allow")}
    return choices | {
        name: keywords[name] for name in ("nki", "platform_target") if name in keywords
    }


def _grid(name: str, key: Any) -> Grid:
    sizes = key if isinstance(key, tuple) else (key,)
    try:
        grid = tuple(operator.index(n) for n in sizes)
    except (TypeError, ValueError):
        grid = ()
    if not grid or min(grid) < 1:
        raise KernelArgument(
            f"{name}[{key!r}]: a launch grid is made of positive integers",
            help="write kernel[2, 4](...), with one number for each axis of the grid",
        )
    return grid


def _run(
    function: Callable[..., Any],
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    builder: Any,
) -> Any:
    from nki_lab.beta1.launch import run

    return run(function, positional, keywords, builder)


# Where nobody chooses. The chip: the documentation of 2.26 is about Inf2, Trn1 and Trn2; the newest of them has all
# instructions of the dialect (general/nki/nki_faq.rst@0521004c:24). The memory: the old compiler moved what does not
# fit out of the way by itself, so a kernel that needs more than the chip has runs all the same, with a finding.
_STANDARD = {"target": "trn2", "capacity": "finding"}

#: The package of the official prebuilt kernels, and the room that offers them. Its modules are the files of
#: nki-samples, src/nki_samples/reference, which its __init__ calls the same kernels.
PREBUILT, _KERNELS = "neuronxcc.nki.kernels", "nki_lab.kernels.official"
_FILES = (
    "allocated_attention", "allocated_fused_linear", "attention", "double_row_matmul", "rmsnorm_quant",
    "rmsnorm_quant.rmsnorm_quant", "tutorial", "vision",
)  # fmt: skip

BETA1 = Dialect(
    title="the older dialect (neuronxcc.nki)",
    root="neuronxcc",
    modules={
        "neuronxcc": "nki_lab.api.beta1",
        "neuronxcc.nki": "nki_lab.api.beta1.nki",
        "neuronxcc.nki.compiler": "nki_lab.api.beta1.compiler",
        "neuronxcc.nki.isa": "nki_lab.api.beta1.isa",
        "neuronxcc.nki.isa.constants": "nki_lab.api.beta1.isa_constants",
        "neuronxcc.nki.language": "nki_lab.api.beta1.language",
        "neuronxcc.nki.language.constants": "nki_lab.api.beta1.language_constants",
        "neuronxcc.nki.typing": "nki_lab.api.beta1.typing",
        PREBUILT: _KERNELS,
        **{f"{PREBUILT}.{name}": f"{_KERNELS}.{name}" for name in _FILES},
    },
    ready={
        "nki": "neuronxcc.nki",
        "nl": "neuronxcc.nki.language",
        "nisa": "neuronxcc.nki.isa",
        "ncc": "neuronxcc.nki.compiler",
        "nt": "neuronxcc.nki.typing",
    },
    option="beta1",
    subset=Subset({}),
    choices=_choices,
    grid=_grid,
    cores=lambda grid: 1,
    run=_run,
    standard=_STANDARD,
    timed=_TIMED,
    beside=True,
)
