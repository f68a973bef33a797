"""The module `nki.isa.constants`: the named choices of instructions, under their second import name."""

from nki_lab.isa.enums import (
    dge_mode,
    dma_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from nki_lab.targets.engines import Engine

engine = Engine

__all__ = [
    "dge_mode",
    "dma_engine",
    "engine",
    "matmul_perf_mode",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
]
