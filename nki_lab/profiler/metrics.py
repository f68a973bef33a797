"""Computes Neuron Explorer's Summary metrics of a run, and says what bounds it.

The formulas are those of the Summary table in tools/neuron-explorer/profile-schema-reference.rst.
A metric that the tables do not determine is left out (Explorer prints 0 for some of them).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.schema import ENGINES, TABLES, TRANSFERS
from nki_lab.profiler.tables import Tables

#: Opcodes that set up or tear down and do not count as execution (page, `total_exec_time`).
SETUP_OPCODES = frozenset(
    (
        "NOP",
        "SET_ORDERING_MODE",
        "EVENT_SEMAPHORE",
        "EVENT_SEMAPHORE_RANGE_CLEAR",
        "NOTIFY",
        "COMPARE_BRANCH",
        "DRAIN",
        "WRITE",
        "TENSOR_LOAD",
        "MODIFY_POOL_CONFIG",
    )
)
#: Divided by, not multiplied with its inverse, which would leave 6.086000000000001e-06.
NS_PER_S = 1e9
#: Queue types whose descriptors lie ready when the program starts.
STATIC_QUEUES = ("input", "output", "data")
#: An engine that is busy less than this share of the time does not bound the run.
BOUND_SHARE = 0.5
#: What is busy for this part of the time of the busiest holds a run back as well: one alone gains next to nothing.
ALSO_BOUND = 0.9


class Kind(Enum):
    """What a metric of a span of time is, against that of the run it is a part of."""

    #: The metrics of spans that divide a run add up to that of the run; cycles, which are rounded, to one per span.
    ADDITIVE = "additive"
    #: A share between 0 and 1, of the span's time or of what moves in it.
    FRACTION = "fraction"
    #: Counts what has a part in the span: what reaches over its ends is counted on both sides.
    COUNT = "count"
    #: A mean, a ratio, or the time between two events of the span.
    MEAN = "mean"
    #: The same in every span.
    CONSTANT = "constant"


_KINDS = {
    **dict.fromkeys(("s", "B", "flops", "cycles"), Kind.ADDITIVE),
    "fraction": Kind.FRACTION,
}
#: Metrics of which the unit does not say it.
_OTHER_KINDS = {
    "total_exec_time": Kind.MEAN,
    "dma_transfer_average_bytes": Kind.MEAN,
    "mm_arithmetic_intensity": Kind.MEAN,
    "peak_flops_bandwidth_ratio": Kind.CONSTANT,
    "dma_queue_count": Kind.CONSTANT,
    **dict.fromkeys(
        (
            "trace_count", "event_count", "total_row_count", "dma_transfer_count", "static_dma_packet_count",
            "software_dynamic_dma_packet_count", "hardware_dynamic_dma_packet_count", "psum_read_sbuf_write_count",
            "matmul_instruction_count", "activate_instruction_count", "cc_op_count", "cc_cores_instruction_count",
            *(f"{engine}_engine_instruction_count" for engine in ENGINES),
        ),
        Kind.COUNT,
    ),
}  # fmt: skip


def kind_of(metric: str) -> Kind:
    """Return the kind of a Summary metric. A new one has a unit that says it, or a row in the table above."""
    return _OTHER_KINDS.get(metric) or _KINDS[TABLES["Summary"][metric].unit]


def summarise(profile: Tables) -> dict[str, Any]:
    """Compute every Summary metric the tables determine: seconds, bytes, fractions of 1."""
    total_ns = profile.total_ns
    first_ns, last_ns = profile.span_ns
    ghz = profile.target.core_ghz
    result: dict[str, Any] = {
        "total_time": total_ns / NS_PER_S,
        "neuroncore_cycle_count": round(last_ns * ghz) - round(first_ns * ghz),
        "event_count": profile.count("SemaphoreUpdate"),
        "trace_count": profile.count("SemaphoreUpdate")
        + profile.count("Instruction")
        + profile.count(TRANSFERS),
    }
    result |= _engine_times(profile, total_ns)
    result |= _dma(profile, total_ns)
    result |= _flops(profile, result, total_ns)
    result |= _on_chip_traffic(profile)
    result |= _collectives(profile, total_ns)
    result |= _whole_run(profile)
    # A span of a transfer's time holds that share of its bytes, which may have moved before or after.
    return {
        name: min(1.0, value) if kind_of(name) is Kind.FRACTION else value
        for name, value in result.items()
    }


def _share(part_ns: float, total_ns: int) -> float:
    return part_ns / total_ns if total_ns else 0.0


def _engine_times(profile: Tables, total_ns: int) -> dict[str, Any]:
    engine = profile.strings("Instruction", "engine")
    opcode = profile.strings("Instruction", "opcode")
    start = profile.numbers("Instruction", "start_ts")
    end = profile.numbers("Instruction", "end_ts")
    cores = len(profile.cores)
    active = profile.table("ActiveTime")
    result: dict[str, Any] = {}
    for name in ENGINES:
        rows = engine.equal_to(name)
        busy_ns = 0
        if active:
            spans = profile.strings("ActiveTime", "engine").equal_to(name)
            busy_ns = int(profile.numbers("ActiveTime", "duration_ns")[spans].sum())
        result[f"{name}_engine_instruction_count"] = int(rows.sum())
        result[f"{name}_engine_instruction_time"] = int((end[rows] - start[rows]).sum()) / NS_PER_S
        result[f"{name}_engine_active_time"] = busy_ns / cores / NS_PER_S
        result[f"{name}_engine_active_time_percent"] = _share(busy_ns / cores, total_ns)
    activate = opcode.equal_to("ACTIVATE") | opcode.equal_to("ACTIVATE_QUANTIZE")
    result["activate_instruction_count"] = int(activate.sum())
    result["activate_instruction_time"] = int((end - start)[activate].sum()) / NS_PER_S
    result["matmul_instruction_count"] = int(opcode.equal_to("MATMUL").sum())
    return result


def _dma(profile: Tables, total_ns: int) -> dict[str, Any]:
    start = profile.numbers(TRANSFERS, "start_ts")
    end = profile.numbers(TRANSFERS, "end_ts")
    size = profile.numbers(TRANSFERS, "transfer_bytes")
    queue = profile.strings(TRANSFERS, "queue_type")
    read = int(profile.hbm_bytes("read").sum())
    written = int(profile.hbm_bytes("write").sum())
    busy_ns = intervals.covered_ns(start, end)
    moved = int(size.sum())
    peak = profile.target.hbm_stack_bytes_per_ns
    result: dict[str, Any] = {
        "dma_active_time": busy_ns / NS_PER_S,
        "dma_active_time_percent": _share(busy_ns, total_ns),
        "dma_active_cycles": round(busy_ns * profile.target.core_ghz),
        "dma_transfer_count": len(start),
        "dma_transfer_time": int((end - start).sum()) / NS_PER_S,
        "dma_transfer_total_bytes": moved,
        "hbm_read_bytes": read,
        "hbm_write_bytes": written,
        "mbu_estimated_percent": _share((read + written) / peak, total_ns),
    }
    least = profile.metrics.get("inputs_and_weights_size_bytes")
    if least is not None:
        result["mbu_min_read_util_percent"] = _share(least / peak, total_ns)
    if profile.count("DmaQueuesInfo"):
        result["dma_queue_count"] = profile.count("DmaQueuesInfo")
    packets = _packets(profile)
    if packets is not None:
        result["dma_packet_time"] = packets[1] / NS_PER_S
    if len(start):
        result["dma_transfer_average_bytes"] = moved / len(start)
    static = np.zeros(len(start), dtype=bool)
    for name in STATIC_QUEUES:
        rows = queue.equal_to(name)
        static |= rows
        field = "weight" if name == "data" else name
        result[f"{field}_queue_bytes"] = int(size[rows].sum())
    for prefix, rows in (
        ("static_dma", static),
        ("software_dynamic_dma", queue.equal_to("software_dynamic")),
        ("hardware_dynamic_dma", queue.equal_to("hardware_dynamic")),
    ):
        part_ns = intervals.covered_ns(start[rows], end[rows])
        result[f"{prefix}_active_time"] = part_ns / NS_PER_S
        result[f"{prefix}_active_time_percent"] = _share(part_ns, total_ns)
        result[f"{prefix}_size"] = int(size[rows].sum())
        if packets is not None:
            result[f"{prefix}_packet_count"] = int(packets[0][rows].sum())
            result[f"{prefix}_packet_percent"] = _share(
                int(packets[0][rows].sum()), int(packets[0].sum())
            )
        result[f"{prefix}_size_percent"] = int(size[rows].sum()) / moved if moved else 0.0
    dynamic_ns = intervals.covered_ns(start[~static], end[~static])
    result["dynamic_dma_active_time_percent"] = _share(dynamic_ns, total_ns)
    result["dynamic_dma_size_percent"] = int(size[~static].sum()) / moved if moved else 0.0
    if packets is not None:
        dynamic = int(packets[0][~static].sum())
        result["dynamic_dma_packet_percent"] = _share(dynamic, int(packets[0].sum()))
    return result


def _packets(profile: Tables) -> tuple[np.ndarray, float] | None:
    """Return the number of packets of each transfer and the time of all packets in ns; None where unknown."""
    deals = profile.deals
    if deals is not None:
        lengths = profile.numbers(TRANSFERS, "duration_ns")
        return deals.packets, float(deals.packet_ns(lengths).sum())
    if not profile.count("DmaPacket"):
        return None
    ids = profile.numbers(TRANSFERS, "id")
    order = np.argsort(ids, kind="stable")
    whole = profile.numbers("DmaPacket", "packet_aggregation_id")
    place = np.minimum(np.searchsorted(ids[order], whole), max(len(ids) - 1, 0))
    mine = ids[order][place] == whole if len(ids) else np.zeros(len(whole), dtype=bool)
    counts = np.bincount(order[place[mine]], minlength=len(ids))
    return counts, float(profile.numbers("DmaPacket", "duration_ns").sum())


def _flops(profile: Tables, metrics: dict[str, Any], total_ns: int) -> dict[str, Any]:
    def total(column: str) -> int:
        return int(profile.numbers("Instruction", column).sum())

    flops, transposes = total("raw_flops"), total("flops_transpose")
    useful = max(flops - transposes, 0)  # a file may tell the transposes alone
    peak = profile.target.tensor_peak_flops_per_ns * len(profile.cores)
    balance = peak / profile.target.hbm_stack_bytes_per_ns
    utilisation = _share(useful / peak, total_ns)
    result: dict[str, Any] = {
        "hardware_flops": flops,
        "transpose_flops": transposes,
        "adjusted_hardware_flops": total("adjusted_flops"),
        "adjusted_transpose_flops": total("adjusted_flops_transpose"),
        "peak_flops_bandwidth_ratio": balance,
        # A kernel has no model graph, so Explorer takes both from the executed instructions.
        "mfu_estimated_percent": utilisation,
        "mfu_inst_estimated_percent": utilisation,
        "hfu_estimated_percent": _share(flops / peak, total_ns),
    }
    moved = metrics["hbm_read_bytes"] + metrics["hbm_write_bytes"]
    if moved:
        result["mm_arithmetic_intensity"] = useful / moved
        best = min(1.0, useful / moved / balance)
        result["mfu_max_achievable_estimated_percent"] = best
        result["mfu_inst_max_achievable_estimated_percent"] = best
    return result


def _on_chip_traffic(profile: Tables) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in (
        "sbuf_read_bytes",
        "sbuf_write_bytes",
        "psum_read_bytes",
        "psum_write_bytes",
        "psum_read_sbuf_write_bytes",
        "spill_save_bytes",
        "spill_reload_bytes",
    ):
        column = profile.column("Instruction", field)
        if column is not None:
            result[field] = int(profile.numbers("Instruction", field).sum())
    if "psum_read_sbuf_write_bytes" in result:
        moved = profile.numbers("Instruction", "psum_read_sbuf_write_bytes")
        result["psum_read_sbuf_write_count"] = int((moved > 0).sum())
    return result


def _collectives(profile: Tables, total_ns: int) -> dict[str, Any]:
    # Files leave empty tables out; the model knows of every collective, a measurement may not.
    if "CcOp" not in profile.table_names and not profile.is_simulation:
        return {}
    start, end = profile.numbers("CcOp", "start_ts"), profile.numbers("CcOp", "end_ts")
    active_ns = intervals.covered_ns(start, end)
    return {
        "cc_op_count": len(start),
        "cc_op_time": int((end - start).sum()) / NS_PER_S,
        "cc_op_active_time": active_ns / NS_PER_S,
        "cc_op_active_time_percent": _share(active_ns, total_ns),
    }


def _whole_run(profile: Tables) -> dict[str, Any]:
    opcode = profile.strings("Instruction", "opcode")
    setup = [code for code, name in enumerate(opcode.values) if name in SETUP_OPCODES]
    real = ~np.isin(opcode.codes, setup)
    start = np.concatenate(
        (profile.numbers("Instruction", "start_ts")[real], profile.numbers(TRANSFERS, "start_ts"))
    )
    end = np.concatenate(
        (profile.numbers("Instruction", "end_ts")[real], profile.numbers(TRANSFERS, "end_ts"))
    )
    if not len(start):
        return {}
    exec_ns = int(end.max() - start.min())
    active_ns = intervals.covered_ns(start, end)
    return {
        "total_exec_time": exec_ns / NS_PER_S,
        "total_active_time": active_ns / NS_PER_S,
        "total_active_time_percent": _share(active_ns, exec_ns),
    }


@dataclass(frozen=True)
class Bound:
    """Say what holds a run back.

    Attributes:
        resource: "tensor", "vector", "scalar", "gpsimd", "sync" or "dma"; the busiest one.
        share: fraction of the time it is busy.
        is_bound: False when even the busiest is idle most of the time (latency-bound).
        others: what is about as busy, with its share, the busiest first; a change has to relieve all of them.
    """

    resource: str
    share: float
    is_bound: bool
    others: tuple[tuple[str, float], ...] = ()

    @property
    def busiest(self) -> dict[str, float]:
        """The share of the time of everything that is about as busy as the busiest, which is the first."""
        return {self.resource: self.share} | dict(self.others)


def bound_by(profile: Tables) -> Bound:
    """Find the resource with the largest active share, and those about as busy; ties go to the first in a timeline."""
    summary = profile.summary
    shares = {name: summary.get(f"{name}_engine_active_time_percent", 0.0) for name in ENGINES}
    shares["dma"] = summary.get("dma_active_time_percent", 0.0)
    resource, *others = sorted(shares, key=lambda name: -shares[name])
    most = shares[resource]
    if most < BOUND_SHARE:
        return Bound(resource, most, False)
    near = tuple((name, shares[name]) for name in others if shares[name] >= ALSO_BOUND * most)
    return Bound(resource, most, True, near)
