"""Writes the documentation page of profiles, from the schema."""

from __future__ import annotations

from nki_lab.profiler.schema import SCHEMA_VERSION, TABLES

_HEAD = f"""\
# Profiles

<!-- Written from nki_lab/profiler by `pytest tests/timing/test_profile_page.py --update-golden`. -->

A profile says when every instruction and transfer of a run took place, on which engine or queue, and why not earlier.
It has the tables, columns and units of [Neuron Explorer's schema](https://github.com/aws-neuron/aws-neuron-sdk),
version {SCHEMA_VERSION} (tools/neuron-explorer/profile-schema-reference.rst): a profile modelled here and one
measured on a device read alike, and `is_simulation` tells them apart. Times of rows are whole nanoseconds, those of
Summary seconds, and what Explorer calls percent is a fraction of 1, as in its own files.

```python
profile = nki_lab.run(kernel, a, b).profile
profile.table_names  # the tables below
profile.table("Instruction")  # a table as NumPy columns
list(profile.records("OpcodeSummary"))  # a table as rows, None where unknown
profile.summary["mfu_estimated_percent"]
profile.save("run.parquet")  # nki_lab.profiler.profile.Profile.load("run.parquet") reads it
```

A kernel launched on both cores of a logical core, `kernel[2]`, has one profile: `pcore_idx` tells the core of a row,
ids are unique over both, and `profile.core(1)` has the rows of one. In Summary, counts, bytes and operations are sums
over both cores, active times of engines are means, and shares of the Tensor engine's peak refer to both peaks.

## Files

`nki-lab profile add.py:add --input a=randn:128x512 -o run.parquet` writes a profile, `nki-lab profile run.parquet`
shows the report of one, and with `-o` writes it in another format. Every format holds the whole profile: reading it
back gives an equal profile.

| name | what it is | for |
|---|---|---|
| `run.json` | one document, column by column | keeping |
| `run.parquet` | a folder with a file for each table, as Neuron Explorer writes them | pandas, DuckDB, Polars |
| `run.csv` | a folder with a CSV file for each table; an unknown value is an empty field | spreadsheets |
| `run.pftrace` | a timeline in Perfetto's format | [ui.perfetto.dev](https://ui.perfetto.dev) |

Parquet needs pyarrow: `pip install 'nki-lab[profile]'`. `--perfetto trace.json` writes the timeline as a Chrome trace,
which is larger, for other viewers. In a folder, `profile.json` says what ran. For other programs, the folder also has
tables that are derived from others (Summary, ActiveTime, ...): nki_lab computes them again when it reads a profile. So
is DmaPacket, which is written only up to a million rows.

A folder of Parquet tables that Neuron Explorer wrote is read in the same way, as a measured profile:
`nki-lab profile FOLDER`, `Profile.load(FOLDER)`. If it does not name the chip, give `--target trn2`. This follows the
published schema; it has not been tried with a folder from a device.

## Loop variables

An instruction knows the values of the loop variables around it, such as `i=3, j=0`: of every `for` and comprehension in
each function of its call stack, whatever it loops over, and of device loops. They are read by running the kernel's
Python once more, without output, when one of the tables about them is needed. Values that are not whole numbers, or
that only the device knows, are null. All are null for a kernel that was loaded from a file, and where the kernel has
changed since it ran (a global it reads, an object it was given).

```python
from nki_lab.profiler.analyses.loops import loop_values

loop_values(profile)  # per row of Instruction: "i=3, j=0"
```
"""


def profile_page() -> str:
    """Return the page, in Markdown."""
    return "\n".join([_HEAD, *_tables(), *_absent()])


def _tables() -> list[str]:
    lines = ["## Tables", ""]
    for table, row in ROWS.items():
        lines += [f"### {table}", "", f"A row is {row}.", ""]
        unknown = UNKNOWN.get(table, {})
        known = [
            f"`{field.name}`" + (f" ({field.unit})" if field.unit != "-" else "")
            for field in TABLES[table].values()
            if field.name not in unknown
        ]
        lines += [f"Filled: {', '.join(known)}.", ""]
        lines += [f"- {note}" for note in NOTES.get(table, ())]
        lines += [""] if table in NOTES else []
        reasons: dict[str, list[str]] = {}
        for column, reason in unknown.items():
            reasons.setdefault(reason, []).append(f"`{column}`")
        if reasons:
            lines += ["| null | because |", "|---|---|"]
            lines += [f"| {', '.join(columns)} | {reason} |" for reason, columns in reasons.items()]
            lines.append("")
    return lines


def _absent() -> list[str]:
    lines = ["## Tables without rows", "", "| table | because |", "|---|---|"]
    return [*lines, *(f"| {table} | {reason} |" for table, reason in ABSENT.items()), ""]


#: Table -> what one row of it is.
ROWS: dict[str, str] = {
    "Instruction": "one micro-operation on an engine, one load of an activation table, or the instruction that issues a"
    " transfer; every pass of a device loop has its own rows",
    "DmaPacketAggregated": "one DMA transfer, from its first byte to its last",
    "DmaPacket": "one descriptor of a transfer, on the DMA engine that serves it",
    "Flow": "one dependence: what had to end before something could begin",
    "ActiveTime": "a span of time in which an engine runs at least one instruction",
    "PendingDma": "the number of transfers issued and not complete, from this moment on",
    "DmaUsage": "the rate of all transfers from this moment on, and the bytes moved until then",
    "HbmUsage": "the same of what is read from and written to HBM",
    "SbufUsage": "the share of SBUF in use from this moment on: of all, and of four partitions"
    "; bytes that are reserved count, while the views show shares of what a kernel may use",
    "PsumUsage": "the share of PSUM in use from this moment on: of all, and of each bank",
    "SbufAllocation": "a tensor in one of four partitions of SBUF, from first to last use, and what used it first",
    "OpcodeSummary": "an opcode of an engine",
    "TensorInfo": "an input, output or constant of the kernel, and how often it was loaded",
    "KernelInstructions": "an instruction of the program, with its line, its call stack and the loops around it",
    "KernelStackFrames": "a function that was called on the way to an instruction; its caller is its parent",
    "KernelIterationVariables": "the value of a loop variable in one iteration; the loop around it is its parent",
    "CcOp": "a collective, with the time in which this rank moves its own tensors",
    "CoreBarriers": "a meeting of a core with the other one, from when this core came to it; also an exchange of tiles",
    "DmaQueuesInfo": "a queue of transfers on one DMA engine",
    "Warning": "something the model leaves out or assumes, and this kernel leans on",
    "Summary": "the run, in Explorer's metrics: there is one row",
    "Metadata": "the chip and the run: there is one row",
}

#: Table -> what has to be known to read some of its columns.
NOTES: dict[str, tuple[str, ...]] = {
    "Instruction": (
        "`operands` are the arguments of the instruction in the program's text form, as `nki-lab disasm` prints it.",
        "`kernel_instruction_name` leads to KernelInstructions: to the line, the call stack and the loop variables.",
        "`raw_flops` counts transposes by the Tensor engine as the products with an identity matrix that they are;"
        " `flops_transpose` is that part of it.",
    ),
    "DmaPacketAggregated": (
        "`read_steps` and `write_steps` count elements, the outermost axis first; a step from partition to partition"
        " counts the elements of a partition.",
        "`read_offset` and `write_offset` count bytes: from the start of a tensor in HBM, within a partition of SBUF.",
        "Partitions, offsets and steps are null where only the device knows them, and partitions for HBM.",
        "`trigger` and `completion` are the start and end of the instruction that issued the transfer.",
    ),
    "PendingDma": ("A transfer is pending from the end of the instruction that issued it.",),
    "DmaUsage": (
        "Transfers of a core that are under way at the same time share its DMA engines equally.",
    ),
    "KernelInstructions": (
        "An instruction in a device loop is one row, however often it runs; the value of that loop's variable is null.",
    ),
    "SbufAllocation": (
        "`opcode` and `operands` are those of the instruction that used the tensor first, `queue_name` and `block_id`"
        " those of a transfer.",
    ),
}

_NEURON = (
    "names a stage of the Neuron compiler or a framework, through which a kernel here does not go"
)
_CRC = "a checksum of values; the model of time computes none"
_HOST = "tells of a machine and of software on it; a modelled run has none"
_CC = "the cores that run collectives are not modelled"
_HLO = "counts the operations of a model's graph; a kernel has none (Explorer prints 0)"

#: Table -> column -> why a model cannot know it.
UNKNOWN: dict[str, dict[str, str]] = {
    "Instruction": {
        **dict.fromkeys(
            (
                "penguin_id", "raw_penguin_id", "bir_id", "raw_bir_id", "bir_instruction_name", "hlo_attrs",
                "hlo_name", "raw_hlo_id", "raw_framework_id", "layer", "stack_frame_ids",
                "bir_debug_info_source_location",
            ),
            _NEURON,
        ),
        **dict.fromkeys(("crc_in", "crc_out"), _CRC),
        "instruction_chain": "no instruction here stands for a chain of others",
        **dict.fromkeys(
            ("tensor_elements", "tensor_elements_transpose"),
            "Explorer asks not to use it: `raw_flops` and `flops_transpose` say what it leaves open",
        ),
    },
    "DmaPacketAggregated": {
        "semaphore_id": "waits are modelled, not the semaphores that carry them",
        "modular_flow_function": _NEURON,
        **dict.fromkeys(
            ("transpose_shape", "transpose_unroll_factor"),
            "no page says how the DMA engines cut a transpose",
        ),
    },
    "DmaPacket": {"crc": _CRC},
    "DmaQueuesInfo": {
        "axi_port": "no page says which port a queue uses",
        "dram_channel": "no page says which channel a queue uses",
    },
    "SbufAllocation": {"hlo_name": _NEURON},
    "TensorInfo": {
        "format": "NKI gives the axes of a tensor no meaning",
        "node": "a kernel has no NEFF",
    },
    "CoreBarriers": {"semaphore": "waits are modelled, not the semaphores that carry them"},
    "CcOp": {
        "algorithm": "the runtime chooses it, by links that are not modelled",
        "bus_bandwidth": "links between ranks are not modelled",
        **dict.fromkeys(("stream_id", "stream_index"), _CC),
        "replica_group_id": "a kernel gives its lists of ranks no number",
    },
    "Summary": {
        **dict.fromkeys(
            ("model_flops", "mfu_hlo_estimated_percent", "mfu_hlo_max_achievable_estimated_percent"),
            _HLO,
        ),
        "total_row_count": "counts the rows of a database; there is none",
        **dict.fromkeys(
            (
                "cc_cores_instruction_time", "cc_cores_instruction_active_time",
                "cc_cores_instruction_active_time_percent", "cc_cores_instruction_count",
            ),
            _CC,
        ),
    },
    "Metadata": {
        **dict.fromkeys(
            (
                "instance_type", "runtime_version", "collectives_version", "driver_version", "explorer_version",
                "compiler_version", "neuroncore_idx", "neuron_device_idx", "ultraserver_id", "ultraserver_type",
                "ultraserver_size", "ultraserver_instance_index", "s3_bucket_path", "explorer_build_time",
            ),
            _HOST,
        ),
        **dict.fromkeys(("first_ts", "last_ts"), "a modelled run takes place at no hour of any day"),
        "ntff_version": "there is no raw trace",
        "ticks_per_nanosec": "there is no raw trace",
    },
}  # fmt: skip

#: Table -> why a model has no rows for it.
ABSENT: dict[str, str] = {
    "CcInstruction": _CC,
    "Error": "a kernel that is wrong has an error, and no profile",
    "ExecutionInfo": "tells several executions of NEFFs apart; a profile here holds one run of a kernel",
    "NeffHeader": "a kernel has no NEFF",
    "SemaphoreUpdate": "waits are modelled, not the semaphores that carry them",
    "Throttle": "the Tensor engine's current limit changes how long a product takes; events of it are not kept",
    "ThrottleSummary": "as Throttle",
}
