"""Measures how many instructions the compiler traces and passes in a second, in how much memory, and the time of an
import.

python -m benchmarks.compile_speed                  # 1e3, 1e4 and 1e5 instructions, each without and with scheduling
python -m benchmarks.compile_speed 10000 1000000    # the sizes named; a million takes a minute
python -m benchmarks.compile_speed passes 10000     # what each pass takes, at one size

Times are CPU times of one core, the best of some runs in a new process per row, so that neither a busy machine
nor the row before counts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import NamedTuple

from benchmarks.kernels import matmul
from benchmarks.stopwatch import best, quiet
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import PASSES
from nki_lab.compiler.trace import TensorSpec, trace
from nki_lab.dtypes import bfloat16
from nki_lab.targets import TRN2

# K, M, N of tiled products with about so many instructions; that of 1e5 is the one the design is held to.
SIZES = {
    1_000: (1024, 1024, 2048),
    10_000: (4096, 2048, 4096),
    100_000: (4096, 8192, 8192),
    1_000_000: (8192, 16384, 20480),
}
_USUAL = (1_000, 10_000, 100_000)
_RUNS = {1_000: 20, 10_000: 7, 100_000: 3, 1_000_000: 1}
_WAYS = {"without scheduling": ("schedule",), "with scheduling": ()}
_BAR = 50_000
_FIXED_MB, _BYTES = 64, 2_500


class Row(NamedTuple):
    """What was found in one process.

    Attributes:
        instructions: of the traced program.
        seconds: CPU time of trace and passes.
        peak_mb: the most memory the process had, for a run with the program after each pass kept.
        start_mb: what it had before.
        stages: seconds of the trace and of each pass, in that run where the sum is the least.
    """

    instructions: int
    seconds: float
    peak_mb: float
    start_mb: float
    stages: dict[str, float]


def main(words: list[str] | None = None) -> None:
    """Print the rates for the sizes asked for, and the import times."""
    words = list(words or ())
    if words[:1] == ["measure"]:
        print(json.dumps(_measured(int(words[1]), words[2])))
    elif words[:1] == ["passes"]:
        _print_passes(int(words[1]) if len(words) > 1 else 10_000)
    else:
        _print_table([int(word) for word in words] or list(_USUAL))
        if not words:
            _print_imports()


def _measured(size: int, way: str) -> Row:
    """Trace and pass the program of a size some times, in this process."""
    k, m, n = SIZES[size]
    source = SourceKernel.of(matmul)
    arguments = TensorSpec((k, m), bfloat16), TensorSpec((k, n), bfloat16)
    options = Choices(skip_passes=_WAYS[way])
    start_mb, peak_mb = _peak_mb(), 0.0
    found: dict[str, float] = {}
    with quiet():
        for _ in range(_RUNS[size]):
            stages: dict[str, float] = {}
            before = time.process_time()
            kernel = trace(source, arguments, {}, TRN2, options)
            stages["trace"] = time.process_time() - before
            recorded = [kernel]
            for run_pass in PASSES:
                if run_pass.name not in options.skip_passes:
                    before = time.process_time()
                    kernel = run_pass(kernel, options)
                    stages[run_pass.name] = time.process_time() - before
                    recorded.append(kernel)
            peak_mb = peak_mb or _peak_mb()
            if not found or sum(stages.values()) < sum(found.values()):
                found = stages
    return Row(len(recorded[0].instructions), sum(found.values()), peak_mb, start_mb, found)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _row(size: int, way: str) -> Row:
    """Do the same in a new process."""
    command = [sys.executable, "-m", "benchmarks.compile_speed", "measure", str(size), way]
    return Row(*json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def _print_table(sizes: list[int]) -> None:
    print(
        f"tiled bf16 matmul; bars: {_BAR:,} instructions a second without scheduling, 1.2 times the time of 1e4 each at"
        f" 1e5,\n{_FIXED_MB} MB and {_BYTES:,} bytes per instruction with the program kept after each pass\n"
    )
    print(
        f"{'instructions':>12}  {'':20}{'per second':>12}{'to 1e4':>8}{'peak MB':>9}{'bar MB':>8}"
    )
    for way in _WAYS:
        usual = _row(10_000, way)
        for size in sizes:
            row = usual if size == 10_000 else _row(size, way)
            each = row.seconds / row.instructions
            ratio = each / (usual.seconds / usual.instructions)
            bar = _FIXED_MB + row.start_mb + row.instructions * _BYTES / 2**20
            print(
                f"{row.instructions:>12,}  {way:20}{1 / each:>12,.0f}{ratio:>8.2f}{row.peak_mb:>9,.0f}{bar:>8,.0f}"
            )


def _print_passes(size: int) -> None:
    for way in _WAYS:
        row = _row(size, way)
        print(f"{row.instructions:,} instructions, {way}: {row.instructions / row.seconds:,.0f}/s")
        for name, seconds in row.stages.items():
            each, share = seconds / row.instructions * 1e6, seconds / row.seconds
            print(f"    {name:<22}{each:8.2f} us each{share:8.0%}")


def _print_imports() -> None:
    def starting(code: str) -> float:
        command = [sys.executable, "-c", code]
        (seconds,) = best(lambda: subprocess.run(command, check=True), times=7)
        return seconds

    bare = starting("pass")
    print(
        f"\nimport, beyond the {bare * 1e3:.0f} ms of an empty interpreter (bar for nki_lab: 300 ms)"
    )
    for name in ("numpy", "ml_dtypes", "nki_lab", "nki_lab.language", "nki_lab.runtime"):
        print(f"    {name:<22}{(starting(f'import {name}') - bare) * 1e3:8.0f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
