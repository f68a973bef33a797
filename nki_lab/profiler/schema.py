"""Which tables and columns does a profile have?

The names, types and units are those of Neuron Explorer's published schema; they lie in
`explorer_schema.json`, so that a profile modelled here and one measured on a device read alike.
Explorer calls a share of 1 "percent" and stores it as a fraction between 0 and 1; so do we.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

_FILE = Path(__file__).with_name("explorer_schema.json")


@dataclass(frozen=True)
class Field:
    """One column: its name, type (int64, int32, float, string, bool), unit and whether required."""

    name: str
    type: str
    unit: str
    required: bool

    @classmethod
    def parse(cls, text: str) -> Field:
        """Read a field from its line in the schema file, such as `start_ts int64 ns!`."""
        name, kind, unit = text.split(" ")
        return cls(name, kind, unit.removesuffix("!"), unit.endswith("!"))


def _read() -> tuple[str, dict[str, Mapping[str, Field]], dict[str, tuple[str, ...]]]:
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    tables: dict[str, Mapping[str, Field]] = {
        table: MappingProxyType({field.name: field for field in map(Field.parse, lines)})
        for table, lines in document["tables"].items()
    }
    return document["schema_version"], tables, {k: tuple(v) for k, v in document["enums"].items()}


_version, _tables, _enums = _read()

#: Version of Neuron Explorer's schema that `TABLES` follows.
SCHEMA_VERSION: str = _version
#: Table name -> column name -> Field, in the published order.
TABLES: Mapping[str, Mapping[str, Field]] = MappingProxyType(_tables)
#: Values of `queue_type` in the DMA tables.
QUEUE_TYPES: tuple[str, ...] = _enums["DmaQueueType"]
#: Values of `performance_mode` in the Instruction table.
PERFORMANCE_MODES: tuple[str, ...] = _enums["PerformanceMode"]
#: Name of the table of DMA transfers.
TRANSFERS = "DmaPacketAggregated"
#: `source` and `dest` of a transfer on the SBUF side; every other place is device memory.
SBUF_PLACE = "[SB]"

#: Names of the engines in the column `engine`, in the order a timeline shows them.
ENGINES: tuple[str, ...] = ("tensor", "vector", "scalar", "gpsimd", "sync")
