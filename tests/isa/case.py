"""Defines a case of an instruction, and runs it.

A case has tiles with their contents, a program that calls instructions on them, and what the tiles hold afterwards by
an independent formula; or `breaks`, words of the rule that must refuse it. The program is traced into a small kernel:
tiles are loaded through HBM, the instructions follow, tiles that are expected are stored. The simulator runs it.

    Case(
        "reciprocal", "float32",
        tiles={"dst": empty((128, 8)), "data": tile(x)},
        run=lambda t: isa.reciprocal(t.dst, t.data),
        expected={"dst": 1 / x.astype(float)}, rtol=1e-7,
    )
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.cores import pair_shared
from nki_lab.compiler.passes.allocate import allocate_psum, allocate_sbuf
from nki_lab.dtypes import DType, dtype_of
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import registry
from nki_lab.isa.operators import OPS
from nki_lab.simulator import Program, run_ranks, simulate
from nki_lab.targets import get_target
from nki_lab.targets.spaces import HBM, PSUM, SBUF, SHARED_HBM, MemoryRegion
from nki_lab.targets.spec import Target

#: Instructions and operators under their names, as authors see them.
isa = SimpleNamespace(**registry)
nl = SimpleNamespace(**OPS)

View = Callable[[NkiTensor], NkiTensor]


@dataclass(frozen=True)
class Tile:
    """A tensor of a case.

    Attributes:
        data: contents before the program; a tile that is only written holds something else than the result.
        dtype: element type.
        space: memory.
        view: what the program gets of the tensor, e.g. `lambda t: t[:, 0:4]`; all of it when None.
    """

    data: np.ndarray
    dtype: DType
    space: MemoryRegion = SBUF
    view: View | None = None


def tile(
    data: Any, dtype: str | None = None, space: MemoryRegion = SBUF, view: View | None = None
) -> Tile:
    """Make a tile that holds `data`, cast to `dtype` (by default the array's own; float32 for Python floats)."""
    array = np.asarray(data)
    own = np.dtype(np.float32) if array.dtype == np.float64 else array.dtype
    element = dtype_of(dtype if dtype is not None else own)
    assert element is not None, f"no NKI dtype for {dtype or array.dtype}"
    with np.errstate(all="ignore"):
        return Tile(np.ascontiguousarray(array.astype(element.np)), element, space, view)


def empty(
    shape: tuple[int, ...],
    dtype: str = "float32",
    space: MemoryRegion = SBUF,
    view: View | None = None,
) -> Tile:
    """Make a tile to be written; until then every byte is 0x55, so that a write left out is seen."""
    element = dtype_of(dtype)
    assert element is not None
    data = np.empty(shape, element.np)
    data.view(np.uint8)[...] = 1 if dtype == "bool_" else 0x55
    return Tile(data, element, space, view)


@dataclass(frozen=True)
class Case:
    """One use of an instruction.

    Attributes:
        instruction: the name of the definition it is about.
        name: what it shows, unique per instruction.
        tiles: tensors by name.
        run: the program, called with the tiles' views as attributes.
        expected: contents of tiles afterwards (the whole tensor, without the view), by an independent formula.
        rtol, atol: tolerances; 0 means equal.
        ranks: ranks it runs on, all with the same program; with more than one the data and the expected contents of
            every tile have a first axis of ranks.
        targets: targets it must run on (or, with `breaks`, be refused on).
        cores: cores it runs on, all with the same program and data.
        breaks: part of the sentence of the rule it breaks; empty for a case that runs.
    """

    instruction: str
    name: str
    tiles: dict[str, Tile]
    run: Callable[[Any], Any]
    expected: dict[str, Any] = field(default_factory=dict)
    rtol: float = 0.0
    atol: float = 0.0
    targets: tuple[str, ...] = ("trn1", "trn2", "trn3")
    breaks: str = ""
    cores: int = 1
    ranks: int = 1

    def __str__(self) -> str:
        return f"{self.instruction}-{self.name}".replace(" ", "_")


def one_call(
    instruction: str,
    name: str,
    given: dict[str, Any],
    expected: dict[str, Any] | None = None,
    **facts: Any,
) -> Case:
    """Make a case of one call; the arguments in `given` that are Tiles become tiles of the same name."""
    tiles = {k: v for k, v in given.items() if isinstance(v, Tile)}

    def run(t: Any) -> None:
        getattr(isa, instruction)(
            **{k: getattr(t, k) if k in tiles else v for k, v in given.items()}
        )

    return Case(instruction, name, tiles, run, expected or {}, **facts)


class Traced:
    """A case as a program: the kernel, its inputs, and the instructions the case itself emitted."""

    def __init__(
        self,
        case: Case,
        target: Target | str,
        replace: dict[str, Callable[[Builder], NkiTensor]] | None = None,
        core: int = 0,
    ) -> None:
        self.case = case
        self.builder = builder = Builder(get_target(target), program=(core, case.cores))
        self._inputs: list[np.ndarray] = []
        self._views: dict[str, NkiTensor] = {}
        whole: dict[str, NkiTensor] = {}
        with builder.active():
            for name, made in case.tiles.items():
                whole[name] = self._load(name, made)
                self._views[name] = made.view(whole[name]) if made.view else whole[name]
            for name, make in (replace or {}).items():
                self._views[name] = make(builder)
            first = len(builder.body)
            case.run(SimpleNamespace(**self._views, core=core))
            self.own: list[Instruction] = [
                i for i in builder.body[first:] if type(i) is Instruction
            ]
            self.errors = builder.errors
            self.outputs = {n: self._store(n, whole[n]) for n in case.expected}
        self.kernel = Kernel(
            "case",
            builder.target,
            storages=tuple(builder.storages),
            body=tuple(builder.body),
            outputs=tuple(self.outputs.values()),
            forms=builder.forms,
            program=builder.program,
            registers=tuple(r.name for r in builder.registers),
        )

    @property
    def subject(self) -> Instruction:
        """The last instruction of the case that is an instance of its definition."""
        return [i for i in self.own if i.definition.name == self.case.instruction][-1]

    def _load(self, name: str, made: Tile) -> NkiTensor:
        builder = self.builder
        shape = made.data.shape[self.case.ranks > 1 :]
        source = builder.allocate(shape, made.dtype, SHARED_HBM, f"{name}_in", origin="input")
        self._inputs.append(made.data)
        if made.space in HBM:
            held = builder.allocate(shape, made.dtype, made.space, name)
            isa.dma_copy(held, source)
            return held
        held = builder.allocate(shape, made.dtype, SBUF, name)
        isa.dma_copy(held, source)
        if made.space is PSUM:
            moved = builder.allocate(shape, made.dtype, PSUM, name)
            isa.tensor_copy(moved, held)
            return moved
        return held

    def _store(self, name: str, held: NkiTensor) -> NkiTensor:
        builder = self.builder
        if held.buffer is PSUM:
            moved = builder.allocate(held.shape, held.dtype, SBUF, f"{name}_moved")
            isa.tensor_copy(moved, held)
            held = moved
        out = builder.allocate(held.shape, held.dtype, SHARED_HBM, f"{name}_out")
        isa.dma_copy(out, held)
        return out

    def simulate(self, **options: Any) -> dict[str, np.ndarray]:
        """Run on the simulator and return the contents of the expected tiles."""
        results = self.run(self.kernel, Choices(**options))
        return dict(zip(self.outputs, results, strict=True))

    def inputs_of(self, rank: int) -> list[np.ndarray]:
        """Return the arrays of a rank."""
        return [data[rank] for data in self._inputs] if self.case.ranks > 1 else self._inputs

    def run(self, kernel: Kernel, options: Choices | None = None) -> list[np.ndarray]:
        """Run `kernel`, a form of the case's own, with the other cores and ranks that the case has beside it.

        Results of several ranks are put one after the other along a new first axis.
        """
        cores, ranks = self.case.cores, self.case.ranks
        if cores == ranks == 1:
            return simulate(kernel, self.inputs_of(0), options)
        kernels = [kernel]
        if cores > 1:
            other = Traced(self.case, self.builder.target, core=1).kernel
            if kernel.addresses is not None:
                for allocate in (allocate_sbuf, allocate_psum):
                    other = allocate(other, Choices())
            kernels.append(other)
        programs = [[Program(k, options, rank, ranks) for k in kernels] for rank in range(ranks)]
        pairs = (
            pair_shared(self.kernel, other) if cores > 1 else []
        )  # of its own: texts keep no `named`
        outputs = run_ranks(programs, [self.inputs_of(rank) for rank in range(ranks)], pairs)
        return outputs[0] if ranks == 1 else [np.stack(own) for own in zip(*outputs, strict=True)]


def check(case: Case, results: dict[str, np.ndarray]) -> None:
    """Compare results with what a case expects; float64 holds every value of every dtype."""
    for name, expected in case.expected.items():
        found, wanted = results[name].astype(float), np.asarray(expected).astype(float)
        np.testing.assert_allclose(
            found, wanted, rtol=case.rtol, atol=case.atol, equal_nan=True, err_msg=f"{case}: {name}"
        )


def sample(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Return seeded float32 values of both signs, no two rows or columns alike."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def rounded(values: Any, dtype: str) -> np.ndarray:
    """Round float64 values through float32 to `dtype`, as an engine writes them."""
    element = dtype_of(dtype)
    assert element is not None
    with np.errstate(all="ignore"):
        return np.asarray(values, np.float64).astype(np.float32).astype(element.np)
