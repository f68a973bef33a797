"""What a kernel computes of its work, and where its results are, under whatever grid it was launched.

for b, head in places("flash_fwd", batch, kv_heads):  # all, those of this core, or the one of this program
    ...
out = result("out", (batch, heads, queries, d), dtype)  # one tensor for all programs and cores
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import nki_lab.language as nl
from nki_lab.beta1.creation import ndarray
from nki_lab.beta1.program import placed
from nki_lab.hardware.kernel_files import constant_on_device
from nki_lab.ir.building.builder import current
from nki_lab.kernels.prebuilt import require
from nki_lab.source import is_prebuilt
from nki_lab.targets.spaces import SHARED_HBM


@constant_on_device(False)
def is_program() -> bool:
    """Tell whether a program of the older dialect's grid runs, not a core."""
    return placed() is not None


@constant_on_device(False)
def is_launched_program() -> bool:
    """Tell whether a prebuilt kernel is what was launched, under its official name: nothing reads its results yet."""
    return is_program() and is_prebuilt(current().root)


@constant_on_device(False)
def is_last_program() -> bool:
    """Tell whether the program that runs is the last of its grid."""
    program = placed()
    return program is not None and all(n == size - 1 for size, n in zip(*program, strict=True))


def places(kernel: str, *sizes: int, alone: bool = False) -> Iterator[tuple[int, ...]]:
    """Yield the places of a grid of these sizes that the caller computes.

    Today's kernel on one core computes all; of two cores each takes every second. A program of the older dialect
    computes its own; KernelArgument where the launch grid is another. With `alone` it may also be called without a
    launch grid, and computes all.
    """
    program = placed()
    if alone and program is not None and not program[0]:
        yield from itertools.product(*map(range, sizes))
        return
    if program is None:
        core, cores = nl.program_id(0), nl.num_programs(0)
        yield from itertools.islice(itertools.product(*map(range, sizes)), core, None, cores)
        return
    grid, place = program
    launched = f"launched on the grid {list(grid)}" if grid else "called without a launch grid"
    require(
        grid == sizes,
        f"{kernel} is {launched}; expected the grid {list(sizes)}",
        f"write {kernel}[{', '.join(map(str, sizes))}](...)",
    )
    yield place


def result(name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a tensor in HBM for a result; all programs and cores of a launch write into the same."""
    if placed() is None:
        return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm, name=name)
    return ndarray(shape, dtype=dtype, buffer=SHARED_HBM, name=name).base
