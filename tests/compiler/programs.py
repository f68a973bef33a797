"""Programs that tests compile, and what they compute.

`compiled` is the way of a kernel through the compiler without the runtime. `RandomProgram` writes small programs with
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
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import PASSES, compile_kernel
from nki_lab.compiler.program import CompiledKernel
from nki_lab.errors import NkiError
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.nodes import Kernel, OutputRef
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.operators import OPS
from nki_lab.simulator import Program
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
    return compile_kernel(SourceKernel.of(fn), args, kwargs, target, options or Choices())


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


def passed(kernel: Kernel, options: Choices | None = None) -> Kernel:
    """Return a traced kernel after every pass."""
    for run_pass in PASSES:
        kernel = run_pass(kernel, options or Choices())
    return kernel


def traced(b: Builder, outputs: Sequence[NkiTensor] = (), name: str = "program") -> Kernel:
    """Return the kernel that a builder holds, as tracing returns it."""
    return Kernel(
        name, b.target, storages=tuple(b.storages), body=tuple(b.body), outputs=tuple(outputs),
        result=tuple(OutputRef(k) for k in range(len(outputs))), forms=b.forms,
        findings=tuple(b.findings.values()), registers=tuple(r.name for r in b.registers),
    )  # fmt: skip


class RandomProgram:
    """Writes random instructions over two inputs, an output, a tensor in HBM, some tiles and two weights."""

    def __init__(self, pick: random.Random, builder: Builder, tiles: int) -> None:
        self.pick = pick
        self.builder = builder
        shape = (ROWS, COLUMNS)
        self.x, self.y = (
            builder.allocate(shape, "float32", SHARED_HBM, n, origin="input") for n in ("x", "y")
        )
        self.out = builder.allocate(shape, "float32", SHARED_HBM, "out")
        self.spill = builder.allocate(shape, "float32", PRIVATE_HBM, "spill")
        self.chip = [self.tile() for _ in range(tiles)]
        self.weights = [builder.allocate((ROWS, 32), "float32", SBUF) for _ in range(2)]
        for w in self.weights:
            nisa.dma_copy(dst=w, src=pick.choice((self.x, self.y))[:, 0:32])

    def tile(self) -> NkiTensor:
        """Make a tile of random size and memory."""
        shape = self.pick.choice((32, 64, 128)), self.pick.choice((8, 24, 48))
        return self.builder.allocate(shape, "float32", self.pick.choice((SBUF, SBUF, PSUM)))

    def steps(self, count: int) -> None:
        """Write `count` instructions, or fewer where one does not fit the tiles."""
        kinds = (self.fill, self.copy, self.copy, self.combine, self.combine, self.load, self.load, self.store,
                 self.multiply, self.accumulate)  # fmt: skip
        for _ in range(count):
            self.pick.choice(kinds)()

    def store_some(self) -> None:
        """Store a column that is surely written, then three of the tiles."""
        nisa.dma_copy(dst=self.out[:, 0:1], src=self.weights[0][:, 0:1])
        for t in self.pick.sample(self.chip, 3):
            if t.buffer is SBUF:
                nisa.dma_copy(dst=self.out[0 : t.shape[0], 0 : t.shape[1]], src=t)

    def fill(self) -> None:
        """Set a rectangle to a number."""
        nisa.memset(dst=self._rectangle(self._sbuf()), value=float(self.pick.randint(-9, 9)),
                    engine=self.pick.choice((VECTOR, GPSIMD)))  # fmt: skip

    def copy(self) -> None:
        """Copy between tiles."""
        dst = self._rectangle(self.chip)
        nisa.tensor_copy(dst=dst, src=self._like(self.chip, dst))

    def combine(self) -> None:
        """Combine two tiles into one."""
        dst = self._rectangle(self._sbuf())
        a, b = (self._like(self._sbuf(), dst) for _ in range(2))
        op = self.pick.choice((OPS["subtract"], OPS["maximum"]))
        nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=op)

    def load(self) -> None:
        """Copy from HBM."""
        dst = self._rectangle(self._sbuf())
        nisa.dma_copy(dst=dst, src=self._like((self.x, self.y, self.out, self.spill), dst))

    def store(self) -> None:
        """Copy to HBM."""
        src = self._rectangle(self._sbuf())
        nisa.dma_copy(dst=self._like((self.out, self.spill), src), src=src)

    def multiply(self) -> None:
        """Add a product to an accumulator, or let it begin one."""
        accumulators = [t for t in self.chip if t.buffer is PSUM]
        if accumulators:
            dst = self._rectangle(accumulators)[0:32]
            weights, values = self.weights
            nisa.nc_matmul(dst=dst, stationary=weights, moving=values[:, 0 : dst.shape[1]])

    def accumulate(self) -> None:
        """Copy a tile and sum its rows in the accumulator of the Scalar engine."""
        data = self._rectangle(self._sbuf())
        command = self.pick.choice((nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.reduce))
        sums = self.pick.choice((None, self._rectangle(self._of_rows(data.shape[0]), (data.shape[0], 1))))  # fmt: skip
        nisa.activation(dst=self._like(self._of_rows(128), data), op=OPS["copy"], data=data,
                        reduce_op=OPS["add"], reduce_cmd=command, reduce_res=sums)  # fmt: skip

    def _of_rows(self, count: int) -> list[NkiTensor]:
        return [t for t in self._sbuf() if t.shape[0] >= count]

    def _sbuf(self) -> list[NkiTensor]:
        return [*(t for t in self.chip if t.buffer is SBUF), *self.weights]

    def _like(self, tensors: Sequence[NkiTensor], view: NkiTensor) -> NkiTensor:
        """Return a view with the shape of `view` of one of the tensors that are large enough."""
        fitting = [t for t in tensors if all(n <= s for n, s in zip(view.shape, t.shape, strict=True))]  # fmt: skip
        return self._rectangle(fitting, view.shape)

    def _rectangle(self, tensors: Sequence[NkiTensor], shape: Any = None) -> NkiTensor:
        """Return a view of one of the tensors, with rows where an engine may begin and columns in steps."""
        pick = self.pick
        t = pick.choice(tensors)
        rows = shape[0] if shape else pick.choice([n for n in (32, 64, 128) if n <= t.shape[0]])
        row = pick.choice(range(0, t.shape[0] - rows + 1, 64 if rows > 32 else 32))
        columns = shape[1] if shape else pick.choice([n for n in (1, 4, 8) if n <= t.shape[1]])
        step = pick.choice([s for s in (1, 1, 2) if (columns - 1) * s < t.shape[1]])
        column = pick.randint(0, t.shape[1] - (columns - 1) * step - 1)
        return t[row : row + rows, column : column + (columns - 1) * step + 1 : step]


def random_program(
    pick: random.Random, length: int = 24, tiles: int = 8, target: Target = TRN2
) -> Kernel:
    """Return a program of about `length` instructions; now and then a new tile takes the part of an old one."""
    b = Builder(target)
    with b.active():
        made = RandomProgram(pick, b, tiles)
        for _ in range(length):
            made.steps(1)
            if pick.random() < 0.3:  # the old tile is done with: its place is free
                made.chip[pick.randrange(tiles)] = made.tile()
        made.store_some()
    assert not b.errors, b.errors[0]
    return traced(b, [made.out])


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

    sums = np.full((ROWS, 1), np.nan, np.float32)
    for i in kernel.instructions:
        kind = i.definition.name
        if kind == "memset":
            view(i.dst)[...] = i.value
        elif kind in ("tensor_copy", "dma_copy"):
            view(i.dst)[...] = view(i.src).copy()
        elif kind == "activation":
            data = view(i.data).copy()
            first = i.data.start_partition
            rows = sums[first : first + len(data)]
            reset = i.reduce_cmd is nisa.reduce_cmd.reset_reduce
            rows[...] = (0 if reset else rows) + data.sum(axis=1, keepdims=True)
            view(i.dst)[...] = data
            if i.reduce_res is not None:
                view(i.reduce_res)[...] = rows
                view(i.reduce_res, written)[...] = True
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
    return Program(kernel, Choices(**options)).run([a.copy() for a in arrays])


def shared_bytes(kernel: Kernel, heirs: bool = False) -> list[tuple[str, str]]:
    """Return pairs of tiles that are in use at one time and share a byte of a partition.

    With `heirs`, a tile may begin in the place of one that the same instruction uses last.
    """
    pairs = []
    placed = [(kernel.storages[k], a, kernel.lifetimes[k]) for k, a in kernel.addresses.items()]
    for n, (s, a, life) in enumerate(placed):
        for t, b, other in placed[:n]:
            together = life.first <= other.last and other.first <= life.last
            rows = a.partition < b.partition + t.partitions and b.partition < a.partition + s.partitions  # fmt: skip
            columns = a.byte < b.byte + t.row_bytes and b.byte < a.byte + s.row_bytes
            if s.buffer is not t.buffer or not (together and rows and columns):
                continue
            handed_over = a == b and any(
                one.first == two.last and one.first > two.first
                for one, two in ((life, other), (other, life))
            )
            if handed_over and heirs:
                continue
            pairs.append((s.name, t.name))
    return pairs


def check_placement(kernel: Kernel) -> None:
    """Check that every tile in use has a place of its own inside its memory."""
    target = kernel.target
    assert shared_bytes(kernel, heirs=True) == []
    touched = {k for k in kernel.lifetimes if kernel.storages[k].on_chip}
    assert set(kernel.addresses) == touched, "every tile that is used has a place, no other"
    for k, a in kernel.addresses.items():
        s = kernel.storages[k]
        assert a.partition + s.partitions <= target.partitions
        if s.buffer is SBUF:
            assert a.byte + s.row_bytes <= target.sbuf_usable_bytes_per_partition
        else:
            bank = target.psum_bank_bytes
            assert a.byte + s.row_bytes <= target.psum_bytes_per_partition
            one_bank = a.byte // bank == (a.byte + s.row_bytes - 1) // bank
            assert one_bank or a.byte % bank == 0, "a tile never crosses a bank it does not start"
