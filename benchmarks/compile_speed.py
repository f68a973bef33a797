"""How many instructions does the compiler trace and pass in a second, and how long does an import take?

python -m benchmarks.compile_speed            # about 1e3, 1e4 and 1e5 instructions
python -m benchmarks.compile_speed 10000      # one size, and the memory the process took for it
python -m benchmarks.compile_speed 1000000    # a million takes minutes and up to 4 GiB
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import tracemalloc

from benchmarks.kernels import matmul
from benchmarks.stopwatch import best, quiet
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.pipeline import PASSES, compile_kernel
from nki_lab.compiler.trace import TensorSpec, trace
from nki_lab.dtypes import bfloat16
from nki_lab.targets import TRN2

# K, M, N of tiled products with about 1e3, 1e4 and 1e5 instructions; the last is the one the design is held to.
SIZES = {
    1_000: (1024, 1024, 2048),
    10_000: (4096, 2048, 4096),
    100_000: (4096, 8192, 8192),
    1_000_000: (8192, 16384, 20480),
}
_USUAL = (1_000, 10_000, 100_000)
_BAR = 50_000


def main(words: list[str] | None = None) -> None:
    """Print the rates for the sizes asked for, and the import times."""
    chosen = [int(w) for w in words or ()] or list(_USUAL)
    found: dict[int, float] = {}
    with quiet():
        for size in chosen:
            found[size] = _print_rate(*SIZES[size])
    if len(chosen) == 1:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory of the process: {peak:,.0f} MB")
    print(f"bar: {_BAR:,} instructions a second, schedule aside")
    if 10_000 in found and 100_000 in found:
        print(
            f"time per instruction at 1e5: {found[100_000] / found[10_000]:.2f} of that at 1e4 (bar 1.2)"
        )
    if not words:
        _print_memory(*SIZES[10_000])
        _print_imports()


def _print_rate(k: int, m: int, n: int) -> float:
    """Print what each pass takes per instruction, and return the sum in seconds."""
    source = SourceKernel.of(matmul)
    arguments = TensorSpec((k, m), bfloat16), TensorSpec((k, n), bfloat16)
    stages: dict[str, float] = {}
    count = 0
    for _ in range(3 if k * m * n < 10**12 else 1):
        start = time.perf_counter()
        kernel = trace(source, arguments, {}, TRN2, CompileOptions())
        _keep(stages, "trace", time.perf_counter() - start)
        recorded = [kernel]
        for name, run in PASSES:
            start = time.perf_counter()
            kernel = run(kernel, CompileOptions())
            _keep(stages, name, time.perf_counter() - start)
            recorded.append(kernel)
        count = len(kernel.instructions)
    total = sum(stages.values())
    rest = total - stages["schedule"]
    print(
        f"matmul {k}x{m}x{n} bfloat16: {count:,} instructions in {total:.2f} s, {count / total:,.0f}/s;"
        f" schedule aside {count / rest:,.0f}/s"
    )
    for name, seconds in stages.items():
        print(f"    {name:<22}{seconds / count * 1e6:8.2f} us each{seconds / total:8.0%}")
    return rest / count


def _print_memory(k: int, m: int, n: int) -> None:
    source = SourceKernel.of(matmul)
    arguments = TensorSpec((k, m), bfloat16), TensorSpec((k, n), bfloat16)
    tracemalloc.start()
    compiled = compile_kernel(source, arguments, {}, TRN2, CompileOptions())
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    count = len(compiled.kernel.instructions)
    print(f"memory with all passes recorded: {used / count:,.0f} bytes per instruction (bar 2,500)")


def _keep(stages: dict[str, float], name: str, seconds: float) -> None:
    stages[name] = min(stages.get(name, seconds), seconds)


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
