"""Measures how long a variant of a kernel takes until its timeline can be drawn, beside a run of the kernel.

python -m benchmarks.vary_speed                   # about 1e3 and 1e4 instructions of the tiled matmul
python -m benchmarks.vary_speed 1000              # one size

A variant is traced, compiled and timed, and its timeline packed for the browser; a run computes the values, too.
What the compiler keeps of earlier programs is forgotten in between.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np

from benchmarks.compile_speed import SIZES
from benchmarks.kernels import matmul
from benchmarks.stopwatch import quiet
from nki_lab.compiler.reuse import reuse
from nki_lab.runtime import run, vary
from nki_lab.views.registry import Parts

_BAR_MS = 100
_ROUNDS = 5


def main(words: list[str] | None = None) -> None:
    """Print the time of a variant, seen for the first time and again, and its share of a run's."""
    for size in [int(w) for w in words or ()] or [1_000, 10_000]:
        _print_size(size)
    print(f"bar: {_BAR_MS} ms for a kernel of a thousand instructions")


def _print_size(size: int) -> None:
    k, m, n = SIZES[size]
    arrays = [np.ones(shape, ml_dtypes.bfloat16) for shape in ((k, m), (k, n))]

    first, again, whole = [], [], []
    with quiet():
        for _ in range(_ROUNDS):
            reuse.clear()
            variants = vary(matmul, *arrays, target=["trn2", "trn1"])
            first.append(_seconds(lambda v=variants: _packed(Parts(v.view_data), "1")))
            again.append(_seconds(lambda v=variants: _packed(Parts(v.view_data), "1")))
            reuse.clear()
            whole.append(
                _seconds(lambda: _packed(Parts(run(matmul, *arrays, target="trn1").view_data), ""))
            )
    count = variants.at(target="trn1").instructions
    print(
        f"{count:,} instructions: {min(first) * 1e3:.0f} ms for a variant, {min(again) * 1e3:.1f} ms once it is known;"
        f" {min(first) / min(whole):.2f} of a run with its values ({min(whole) * 1e3:.0f} ms), processor time"
    )


def _packed(parts: Parts, key: str) -> None:
    """Make everything the browser asks for until it has drawn a timeline."""
    prefix = f"vary/run/{key}/" if key else ""
    for name in ([f"vary/at/{key}"] if key else []) + [
        f"{prefix}timeline",
        f"{prefix}timeline/events",
    ]:
        list(parts.make(name))


def _seconds(call: Callable[[], None]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    main(sys.argv[1:])
