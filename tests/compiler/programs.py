"""Which programs do tests compile, and what do these compute?

`compiled` is the way of a kernel through the compiler without the runtime. `random_program` writes small programs with
real instructions over views of few tiles, so that tiles are overwritten, read in part, read unwritten, and placed where
others were. `interpret` computes them on one array per tensor: no addresses, no pool, no casts but NumPy's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.pipeline import PASSES, CompiledKernel, compile_kernel
from nki_lab.errors import NkiError
from nki_lab.ir.builder import Builder
from nki_lab.ir.nodes import Kernel
from nki_lab.ir.tensor import NkiTensor
from nki_lab.isa.operators import OPS
from nki_lab.simulator import Program, SimulatorOptions
from nki_lab.targets import TRN2
from nki_lab.targets.engines import GPSIMD, VECTOR
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM
from nki_lab.targets.spec import Target

ROWS, COLUMNS = 128, 48
#: A machine on which the tiles of a random program only fit in places that others had before.
SMALL = replace(
    TRN2, sbuf_bytes_per_partition=1024, sbuf_reserved_bytes_per_partition=0, psum_bank_bytes=256
)


def compiled(
    fn: Callable[..., Any], *args: Any, target: Target = TRN2, options: Any = None, **kwargs: Any
) -> CompiledKernel:
    """Compile a function for arguments."""
    return compile_kernel(SourceKernel.of(fn), args, kwargs, target, options or CompileOptions())


def failing(fn: Callable[..., Any], *args: Any, error: Any = NkiError, **kwargs: Any) -> Any:
    """Return the error that compiling a function for arguments raises."""
    with pytest.raises(error) as caught:
        compiled(fn, *args, **kwargs)
    return caught.value


def scaled(x: NkiTensor, factor: float = 1.0) -> NkiTensor:
    """Return a new result that is `x` times `factor`: a kernel, or a part of one."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=float(factor))
    nisa.dma_copy(dst=out, src=t)
    return out


def run(fn: Callable[..., Any], *arrays: np.ndarray, **facts: Any) -> list[np.ndarray]:
    """Compile a function for arrays and run it on them."""
    simulation = facts.pop("simulation", None)
    return Program(compiled(fn, *arrays, **facts).kernel, simulation).run(arrays)


def line_of(file: str, text: str) -> int:
    """Return the number of the first line of a test file that holds `text`."""
    lines = Path(file).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def passed(kernel: Kernel, options: CompileOptions | None = None) -> Kernel:
    """Return a traced kernel after every pass."""
    for _, run_pass in PASSES:
        kernel = run_pass(kernel, options or CompileOptions())
    return kernel


def traced(b: Builder, outputs: Sequence[NkiTensor] = (), name: str = "program") -> Kernel:
    """Return the kernel that a builder holds, as tracing returns it."""
    return Kernel(name, b.target, storages=tuple(b.storages), body=tuple(b.body), outputs=tuple(outputs),
                  forms=b.forms, findings=tuple(b.findings.values()))  # fmt: skip


def random_program(
    pick: random.Random, length: int = 24, tiles: int = 8, target: Target = TRN2
) -> Kernel:
    """Write a program of `length` instructions on two inputs, `tiles` tiles and one output."""
    b = Builder(target)
    x, y = (
        b.allocate((ROWS, COLUMNS), "float32", SHARED_HBM, n, origin="input") for n in ("x", "y")
    )
    with b.active():
        out = b.allocate((ROWS, COLUMNS), "float32", SHARED_HBM, "out")
        spill = b.allocate((ROWS, COLUMNS), "float32", PRIVATE_HBM, "spill")
        hbm = (x, y, out, spill)
        chip = [_tile(pick, b) for _ in range(tiles)]
        weights = [b.allocate((ROWS, 32), "float32", SBUF) for _ in range(2)]
        for w in weights:
            nisa.dma_copy(dst=w, src=pick.choice((x, y))[:, 0:32])
        for _ in range(length):
            pick.choice(_STEPS)(pick, hbm, chip, weights)
            if pick.random() < 0.3:  # the old tile is done with: its place is free
                chip[pick.randrange(tiles)] = _tile(pick, b)
        for t in pick.sample(chip, 3):
            if t.buffer is SBUF:
                nisa.dma_copy(dst=out[0 : t.shape[0], 0 : t.shape[1]], src=t)
    assert not b.errors, b.errors[0]
    return traced(b, [out])


def _tile(pick: random.Random, b: Builder) -> NkiTensor:
    shape = pick.choice((32, 64, 128)), pick.choice((8, 24, 48))
    return b.allocate(shape, "float32", pick.choice((SBUF, SBUF, PSUM)))


def _rectangle(pick: random.Random, tensors: Sequence[NkiTensor], shape: Any = None) -> NkiTensor:
    """Return a view of one of `tensors` that fits `shape`, if that is given."""
    t = pick.choice(tensors)
    rows = shape[0] if shape else pick.choice([n for n in (32, 64, 128) if n <= t.shape[0]])
    row = pick.choice(range(0, t.shape[0] - rows + 1, 64 if rows > 32 else 32))
    columns = shape[1] if shape else pick.choice([n for n in (1, 4, 8) if n <= t.shape[1]])
    step = pick.choice([s for s in (1, 1, 2) if (columns - 1) * s < t.shape[1]])
    column = pick.randint(0, t.shape[1] - (columns - 1) * step - 1)
    return t[row : row + rows, column : column + (columns - 1) * step + 1 : step]


def _on_chip(chip, space=None):
    return [t for t in chip if space is None or t.buffer is space]


def _fill(pick, hbm, chip, weights):
    nisa.memset(dst=_rectangle(pick, _on_chip(chip, SBUF) or weights), value=float(pick.randint(-9, 9)),
                engine=pick.choice((VECTOR, GPSIMD)))  # fmt: skip


def _copy(pick, hbm, chip, weights):
    dst = _rectangle(pick, chip)
    nisa.tensor_copy(dst=dst, src=_rectangle(pick, _fitting(chip, dst), dst.shape))


def _combine(pick, hbm, chip, weights):
    sbuf = [*_on_chip(chip, SBUF), *weights]
    dst = _rectangle(pick, sbuf)
    a, c = (_rectangle(pick, _fitting(sbuf, dst), dst.shape) for _ in range(2))
    nisa.tensor_tensor(dst=dst, data1=a, data2=c, op=pick.choice((OPS["subtract"], OPS["maximum"])))


def _load(pick, hbm, chip, weights):
    dst = _rectangle(pick, _on_chip(chip, SBUF) or weights)
    nisa.dma_copy(dst=dst, src=_rectangle(pick, hbm, dst.shape))


def _store(pick, hbm, chip, weights):
    src = _rectangle(pick, _on_chip(chip, SBUF) or weights)
    nisa.dma_copy(dst=_rectangle(pick, hbm[2:], src.shape), src=src)


def _multiply(pick, hbm, chip, weights):
    psum = [t for t in _on_chip(chip, PSUM) if t.shape[0] >= 32]
    if psum:
        dst = _rectangle(pick, psum)[0:32]
        nisa.nc_matmul(dst=dst, stationary=weights[0], moving=weights[1][:, 0 : dst.shape[1]])


def _fitting(tensors, view):
    return [t for t in tensors if all(n <= s for n, s in zip(view.shape, t.shape, strict=True))]


_STEPS = (_fill, _copy, _copy, _combine, _combine, _load, _load, _store, _multiply)


def interpret(kernel: Kernel, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute a program of float32 tiles on one array per tensor; unwritten elements are NaN."""
    memory = {s.id: np.full(s.shape, np.nan, np.float32) for s in kernel.storages}
    written = {s.id: np.zeros(s.shape, bool) for s in kernel.storages}
    for storage, array in zip(kernel.inputs, arrays, strict=True):
        memory[storage.id][...] = array

    def view(t: NkiTensor, of: Any = memory) -> np.ndarray:
        flat = of[t.storage.id].reshape(-1)
        steps = [s * flat.itemsize for s in t.strides]
        return np.ndarray(t.shape, flat.dtype, flat, t.offset * flat.itemsize, steps)

    for i in kernel.instructions:
        kind = i.definition.name
        if kind == "memset":
            view(i.dst)[...] = i.value
        elif kind in ("tensor_copy", "dma_copy"):
            view(i.dst)[...] = view(i.src).copy()
        elif kind == "tensor_tensor":
            op = {"subtract": np.subtract, "maximum": np.maximum}[i.op.name]
            view(i.dst)[...] = op(view(i.data1), view(i.data2))
        else:
            product = view(i.stationary).T @ view(i.moving)
            old = np.where(view(i.dst, written), view(i.dst), 0)
            view(i.dst)[...] = old + product
        view(i.dst, written)[...] = True
    return [view(t) for t in kernel.outputs]


def integers(rng: np.random.Generator, shape: tuple[int, ...] = (ROWS, COLUMNS)) -> np.ndarray:
    """Return small signed integers as float32: every sum of products of them is exact."""
    return rng.integers(-9, 10, shape).astype(np.float32)


def simulated(kernel: Kernel, arrays: Sequence[np.ndarray], **options: Any) -> list[np.ndarray]:
    """Run a compiled kernel on copies of the arrays."""
    return Program(kernel, SimulatorOptions(**options)).run([a.copy() for a in arrays])
