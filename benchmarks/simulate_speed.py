"""Measures a re-run of a compiled kernel against the same tiles by hand in NumPy.

python -m benchmarks.simulate_speed            # tables
python -m benchmarks.simulate_speed softmax    # kernels whose name holds this word
"""

from __future__ import annotations

import sys
import time

import numpy as np

import nki_lab.language as nl
from benchmarks.kernels import KERNELS, Measured
from benchmarks.stopwatch import best, quiet
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import compile_kernel
from nki_lab.ir.program.nodes import Kernel
from nki_lab.simulator import Program
from nki_lab.targets import TRN2

_REPEATED = 2000


def main(words: list[str] | None = None) -> None:
    """Print both tables, of the kernels whose names hold one of the words."""
    chosen = {n: m for n, m in KERNELS.items() if not words or any(w in n for w in words)}
    with quiet():
        print(f"{'kernel':<34}{'instr.':>8}{'tile loop':>12}{'simulated':>12}{'ratio':>8}{'bar':>6}"
              f"{'compile':>12}{'bind':>10}{'error':>10}")  # fmt: skip
        for name, measured in chosen.items():
            print(_row(name, measured))
        if not words:
            print(f"\n{'one instruction':<42}{'NumPy call':>12}{'simulated':>12}{'more':>10}")
            for name, step, by_hand in _small_steps():
                print(_small_row(name, step, by_hand))


def _compiled(kernel, arrays) -> Kernel:
    return compile_kernel(SourceKernel.of(kernel), tuple(arrays), {}, TRN2, Choices()).kernel


def _row(name: str, measured: Measured) -> str:
    arrays = measured.arrays(np.random.default_rng(0))
    start = time.perf_counter()
    kernel = _compiled(measured.kernel, arrays)
    compiled = time.perf_counter()
    program = Program(kernel)
    bound = time.perf_counter()
    by_hand = measured.tile_loop(*arrays)
    expected = measured.expected(*(a.astype(float) for a in arrays))
    error = max(
        np.abs(result.astype(float) - expected).max() / np.abs(expected).max()
        for result in (by_hand(), *program.run(arrays))
    )
    loop, simulated = best(by_hand, lambda: program.run(arrays), least=3.0)
    return (
        f"{name:<34}{len(kernel.instructions):>8,}{loop * 1e3:>9.2f} ms{simulated * 1e3:>9.2f} ms"
        f"{simulated / loop:>8.2f}{measured.bar:>6}{(compiled - start) * 1e3:>9.1f} ms"
        f"{(bound - compiled) * 1e3:>7.1f} ms{error:>10.1e}"
    )


def _small_steps():
    """Yield (name, kernel step on [128, 1] tiles, the same by NumPy on three arrays)."""
    a, b, c = (np.ones((128, 1), np.float32) for _ in range(3))
    yield (
        "tensor_tensor add, float32: 1 call",
        lambda x, y, z, n: nisa.tensor_tensor(dst=z, data1=x, data2=y, op=nl.add),
        lambda: np.add(a, b, out=c),
    )
    yield (
        "tensor_scalar multiply add: 2 calls",
        lambda x, y, z, n: nisa.tensor_scalar(
            dst=z, data=x, op0=nl.multiply, operand0=y, op1=nl.add, operand1=1.0
        ),
        lambda: (np.multiply(a, b, out=c), np.add(c, np.float32(1), out=c)),
    )
    yield (
        "tensor_copy float32 to bfloat16: 1 cast",
        lambda x, y, z, n: nisa.tensor_copy(dst=n, src=x),
        lambda: np.copyto(c, a),
    )
    yield (
        "activation exp with bias: 2 calls",
        lambda x, y, z, n: nisa.activation(dst=z, op=nl.exp, data=x, bias=y),
        lambda: (np.add(a, b, out=c), np.exp(c, out=c)),
    )
    yield "memset: 1 call", lambda x, y, z, n: nisa.memset(dst=z, value=1.0), lambda: c.fill(1)


def _small_row(name, step, by_hand) -> str:
    def repeated(times):
        def kernel(x):
            out = nl.ndarray((128, 2), dtype=nl.float32, buffer=nl.shared_hbm)
            a, b, c = (nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3))
            n = nl.ndarray((128, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
            for t in (a, b, c, n):
                nisa.memset(dst=t, value=0.5)
            for _ in range(times):
                step(a, b, c, n)
            nisa.dma_copy(dst=out[:, 0:1], src=c)
            nisa.dma_copy(dst=out[:, 1:2], src=n)
            return out

        x = np.zeros((1, 1), np.float32)
        program = Program(_compiled(kernel, [x]))
        return lambda: program.run([x])

    def loop():
        for _ in range(_REPEATED):
            by_hand()

    many, one, alone = best(repeated(_REPEATED + 1), repeated(1), loop, times=20)
    each, floor = (many - one) / _REPEATED, alone / _REPEATED
    return f"{name:<42}{floor * 1e6:>9.2f} us{each * 1e6:>9.2f} us{(each - floor) * 1e6:>7.2f} us"


if __name__ == "__main__":
    main(sys.argv[1:])
