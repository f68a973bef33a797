"""Writes the documentation page of the tables of a profile, from the schema."""

from __future__ import annotations

from nki_lab.profiler.schema import SCHEMA_VERSION, TABLES


def profile_page() -> str:
    """Return the page, in Markdown."""
    return "\n".join(
        [f"# The tables of a profile\n\nSchema version {SCHEMA_VERSION}.\n", *_tables(), *_absent()]
    )


def _tables() -> list[str]:
    lines = []
    for table, row in ROWS.items():
        lines += [f"## {table}", "", f"A row is {row}.", ""]
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
