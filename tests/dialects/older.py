"""A small dialect in one file: operators return tiles, a grid is run in sequence, `/` is an ALU operator.

The file is also the module that `import older.nki` gives. Tests run it as code of nki_lab, which no author is shown.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from nki_lab.dialects.construct import ERROR, Construct, Subset
from nki_lab.dialects.dialect import Dialect
from nki_lab.errors import InstructionError, KernelArgument
from nki_lab.ir.building.builder import current
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.elementwise import tensor_tensor
from nki_lab.isa.operators import AluOperator, Op, OpClass
from nki_lab.language import float32 as float32
from nki_lab.language import ndarray
from nki_lab.runtime.jit import decorated

__all__ = ["float32", "jit", "load", "program_id", "store"]
__path__: list[str] = []  # `import older.nki` asks for it

_DIVIDE = Op("divide", AluOperator(OpClass.ARITHMETIC, np.divide), home="older")
_program = [0]


class Tile:
    """A tensor, and the instruction that made it."""

    def __init__(self, tensor: Any, made: Any = None) -> None:
        self.tensor, self.made = tensor, made

    def __getitem__(self, index: Any) -> Tile:
        return Tile(self.tensor[index])

    def __truediv__(self, other: Tile) -> Tile:
        result = ndarray(self.tensor.shape, self.tensor.dtype)
        return Tile(result, tensor_tensor(result, self.tensor, other.tensor, _DIVIDE))

    def __setitem__(self, index: Any, value: Tile) -> None:
        part = self.tensor[index]
        try:
            current().retarget(value.made, part)
        except InstructionError:
            tensor_copy(part, value.tensor)


def load(source: Tile) -> Tile:
    tile = ndarray(source.tensor.shape, source.tensor.dtype)
    dma_copy(tile, source.tensor)
    return Tile(tile)


def store(target: Tile, value: Tile) -> None:
    dma_copy(target.tensor, value.tensor)


def program_id() -> int:
    return _program[0]


def jit(function: Any = None, **keywords: Any) -> Any:
    return decorated(OLDER, function, keywords)


def _choices(keywords: dict[str, Any]) -> dict[str, Any]:
    if keywords.get("mode", "simulation") != "simulation":
        raise KernelArgument("older.jit runs on the simulator: write mode='simulation'")
    return {}


def _run(function: Any, positional: Any, keywords: Any, builder: Any) -> Any:
    for program in itertools.product(*map(range, builder.grid)):
        _program[0] = program[0] if program else 0
        function(*map(Tile, positional), **keywords)


OLDER = Dialect(
    title="the older dialect (older.nki)",
    root="older",
    modules={"older": "older_names", "older.nki": "older_names"},
    subset=Subset({"All": {"lambda": Construct("a lambda", ERROR, "write a `def`", "", "")}}),
    choices=_choices,
    grid=lambda name, key: key if isinstance(key, tuple) else (key,),
    cores=lambda grid: 1,
    run=_run,
)
