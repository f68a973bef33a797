"""The schema: the tables and columns of a profile.

The names, types and units are those of Neuron Explorer's published schema; they lie in
`explorer_schema.json`, so that a profile modelled here and one measured on a device read alike.
Explorer calls a share of 1 "percent" and stores it as a fraction between 0 and 1; so do we.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

_FILE = Path(__file__).with_name("explorer_schema.json")


#: What one event takes or moves at most, in ns, bytes or operations: so much of each of two million adds up in 64 bits.
MOST_OF_EVENT = 1 << 42
_MOST = 3 << 61
#: Table and column, column alone, or type -> the least and the most that a number may be; the first that matches.
_RANGES: tuple[tuple[str, int, int | float], ...] = (
    (r".* (gap_time|dma_wait_time_ns|.*_delay) .*", -_MOST, _MOST),  # negative where two overlap
    (r".* ((.*_)?ts|(.*_)?timestamp|trigger|completion) int\d+", 0, _MOST),
    (r".* (pcore_idx|num_physical_cores) .*", 0, 1023),
    (r".* ((.*_)?idx|(.*_)?index|(compiler_)?pc|partition|.*_partitions|.*_depth|line_number) .*", -1, 1 << 31),
    (r"(Summary|OpcodeSummary|TensorInfo|DmaUsage|HbmUsage|NeffHeader|ThrottleSummary|ExecutionInfo)"
     r" .*(_count|bytes|size|flops|cycles|_ns) int64", 0, _MOST),
    (r".* .*(duration|_ns|bytes|_size|flops|elements|flops_transpose|_address|_transpose) int64", 0, MOST_OF_EVENT),
    (r".* .*_percent float", 0, 1e6),  # of memory, more than 1 where it does not fit
    (r".* float", 0, 1e30),
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """One column: its name, type (int64, int32, float, string, bool), unit and whether required.

    A number lies from `least` to `most`, both included; integers without limits have those of their type.
    """

    name: str
    type: str
    unit: str
    required: bool
    least: float | None = None
    most: float | None = None

    @classmethod
    def parse(cls, text: str, table: str) -> Field:
        """Read a field of a table from its line in the schema file, such as `start_ts int64 ns!`."""
        name, kind, unit = text.split(" ")
        told = f"{table} {name} {kind}"
        limits = next((r[1:] for r in _RANGES if re.fullmatch(r[0], told)), (None, None))
        return cls(name, kind, unit.removesuffix("!"), unit.endswith("!"), *limits)


@dataclass(frozen=True)
class SchemaVersion:
    """One version of Neuron Explorer's schema.

    Attributes:
        version, sdk: of the schema, and of the SDK that has it.
        columns: what is known of its columns.
        changes: what changed since the version before, and where that is said.
    """

    version: str
    sdk: str
    columns: str
    changes: tuple[tuple[str, str], ...]


_DOCUMENT = json.loads(_FILE.read_text(encoding="utf-8"))


def _read() -> dict[str, Mapping[str, Field]]:
    return {
        table: MappingProxyType(
            {field.name: field for field in (Field.parse(line, table) for line in lines)}
        )
        for table, lines in _DOCUMENT["tables"].items()
    }


#: Version of Neuron Explorer's schema that `TABLES` follows.
SCHEMA_VERSION: str = _DOCUMENT["schema_version"]
#: The versions of which something is published, oldest first.
VERSIONS: tuple[SchemaVersion, ...] = tuple(
    SchemaVersion(v["version"], v["sdk"], v["columns"], tuple(map(tuple, v["changes"])))
    for v in _DOCUMENT["versions"]
)
#: Table name -> column name -> Field, in the published order.
TABLES: Mapping[str, Mapping[str, Field]] = MappingProxyType(_read())
#: Values of `queue_type` in the DMA tables.
QUEUE_TYPES: tuple[str, ...] = tuple(_DOCUMENT["enums"]["DmaQueueType"])
#: Values of `performance_mode` in the Instruction table.
PERFORMANCE_MODES: tuple[str, ...] = tuple(_DOCUMENT["enums"]["PerformanceMode"])
#: Name of the table of DMA transfers.
TRANSFERS = "DmaPacketAggregated"
#: What `in_table` and `out_table` of Flow call the tables of its ends.
FLOW_ENDS = {"instruction": "Instruction", "dma_block": TRANSFERS}
#: `source` and `dest` of a transfer on the SBUF side; every other place is device memory.
SBUF_PLACE = "[SB]"

#: Names of the engines in the column `engine`, in the order a timeline shows them.
ENGINES: tuple[str, ...] = ("tensor", "vector", "scalar", "gpsimd", "sync")
