"""Which registers do instructions use that no operand names?"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np


class State(Enum):
    """Registers of an engine, a row per partition, that outlive an instruction.

    Attributes:
        parameter: the name under which `.semantics` asks for the rows of its partitions.
        title: what an author knows them as.
        words: registers per partition.
        dtype: their NumPy type.
    """

    # One per partition on Scalar and on Vector (nki/api/nki/isa/__init__.py:1351, 2349).
    ACT_ACCUMULATOR = ("act_accumulator", "the accumulator of Scalar", 1, np.float32)
    DVE_ACCUMULATOR = ("dve_accumulator", "the accumulator of Vector", 1, np.float32)
    # XORWOW states of six words: four on Vector (nki/guides/architecture/trainium3_arch.rst:208), one on GpSimd
    # (nki/api/nki/isa/__init__.py:2197).
    DVE_RNG = ("dve_rng", "the random state of Vector", 24, np.uint32)
    POOL_RNG = ("pool_rng", "the random state of GpSimd", 6, np.uint32)

    def __init__(self, parameter: str, title: str, words: int, dtype: Any) -> None:
        self.parameter = parameter
        self.title = title
        self.words = words
        self.dtype = np.dtype(dtype)

    @property
    def is_accumulator(self) -> bool:
        """Whether it collects values, which mean nothing until it is reset."""
        return self.dtype.kind == "f"

    __hash__ = object.__hash__  # members are singletons; Enum's hash costs a Python call
