"""Measures the processor time and memory that timing a million executed instructions takes.

python -m benchmarks.timing_speed                 # about 1e5 and 1e6 instructions of the tiled matmul
python -m benchmarks.timing_speed 100000          # one size
"""

from __future__ import annotations

import resource
import sys
import time

from benchmarks.compile_speed import SIZES
from benchmarks.kernels import matmul
from benchmarks.stopwatch import quiet
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import compile_kernel
from nki_lab.compiler.trace import TensorSpec
from nki_lab.dtypes import bfloat16
from nki_lab.ir.program.execution import Execution
from nki_lab.targets import TRN2
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.schedule import schedule

_BAR = 1.5


def main(words: list[str] | None = None) -> None:
    """Print processor seconds per million instructions for the sizes asked for."""
    found: dict[int, float] = {}
    for size in [int(w) for w in words or ()] or [100_000, 1_000_000]:
        found[size] = _print_size(size)
    print(f"bar: {_BAR} s per million executed instructions")
    if len(found) == 2:
        small, large = found.values()
        print(
            f"per instruction at the larger size: {large / small:.2f} of the smaller one (linear: 1)"
        )


def _print_size(size: int) -> float:
    k, m, n = SIZES[size]
    arguments = TensorSpec((k, m), bfloat16), TensorSpec((k, n), bfloat16)
    # The order does not change what is timed; leaving it out halves the time until there is a program.
    options = Choices(record=False, skip_passes=("schedule",))
    source = SourceKernel.of(matmul)
    kernel = compile_kernel(source, arguments, {}, TRN2, options).kernel
    execution = Execution.in_program_order(kernel)
    count = len(kernel.instructions)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = float("inf")
    with quiet():
        for _ in range(5 if count < 500_000 else 2):
            start = time.process_time()
            timeline = schedule(execution, TimingOptions())
            seconds = min(seconds, time.process_time() - start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    per_million = seconds / count * 1e6
    print(
        f"{count:,} instructions: {seconds:.2f} s, {per_million:.2f} s per million;"
        f" {grown:,.0f} MB more than the program; modelled {timeline.total_ns / 1e6:.3f} ms"
    )
    return per_million


if __name__ == "__main__":
    main(sys.argv[1:])
