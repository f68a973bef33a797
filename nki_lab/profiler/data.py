"""Computes the tables that follow from the instructions and transfers of a run.

Makers of profiles supply Instruction and DmaPacketAggregated; the tables here are computed when somebody asks for them
and the maker did not supply them (a measured profile brings its own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nki_lab.errors import UsageError
from nki_lab.profiler import intervals, metrics
from nki_lab.profiler.columns import Strings, known
from nki_lab.profiler.schema import ENGINES, SCHEMA_VERSION, TRANSFERS
from nki_lab.profiler.tables import Tables

#: A longer table DmaPacket is not made: ten columns of it take some 10 GB.
MOST_ROWS = 1 << 27


def active_time(profile: Tables) -> Mapping[str, Any]:
    """Merge the instructions of each engine into the spans in which it is busy."""
    engine = profile.strings("Instruction", "engine")
    start = profile.numbers("Instruction", "start_ts")
    end = profile.numbers("Instruction", "end_ts")
    core = profile.numbers("Instruction", "pcore_idx")
    starts, ends, engines, cores = [], [], [], []
    for number in np.unique(core):
        for code, name in enumerate(ENGINES):
            rows = engine.equal_to(name) & (core == number)
            first, last = intervals.merge(start[rows], end[rows])
            starts.append(first)
            ends.append(last)
            engines.append(np.full(len(first), code))
            cores.append(np.full(len(first), number))
    if not starts:
        return {}
    return {
        "start_ts": np.concatenate(starts),
        "end_ts": np.concatenate(ends),
        "engine": Strings(np.concatenate(engines), ENGINES),
        "pcore_idx": np.concatenate(cores),
    }


def opcode_summary(profile: Tables) -> Mapping[str, Any]:
    """Count and time the instructions of each engine and opcode."""
    engine = profile.strings("Instruction", "engine")
    opcode = profile.strings("Instruction", "opcode")
    start = profile.numbers("Instruction", "start_ts")
    end = profile.numbers("Instruction", "end_ts")
    first, last = profile.span_ns
    rows = []
    for name in ENGINES:
        of_engine = engine.equal_to(name)
        for code in np.unique(opcode.codes[of_engine]).tolist():
            chosen = of_engine & (opcode.codes == code)
            active = intervals.covered_ns(start[chosen], end[chosen])
            rows.append(
                (
                    name,
                    opcode.values[code] if code >= 0 else "",
                    int(chosen.sum()),
                    int((end[chosen] - start[chosen]).sum()),
                    active,
                    active / (last - first) if last > first else 0.0,
                )
            )
    names = ("engine", "opcode", "instruction_count", "instruction_time_ns", "active_time_ns")
    if not rows:
        return {}
    columns = zip(*rows, strict=True)
    return dict(zip((*names, "active_time_percent"), map(list, columns), strict=True))


def pending_dma(profile: Tables) -> Mapping[str, Any]:
    """Count the transfers that are queued or under way, at every moment the count changes.

    A transfer is pending from the end of the instruction that issued it, where that is known.
    """
    end = profile.numbers(TRANSFERS, "end_ts")
    issued = profile.column(TRANSFERS, "completion")
    begin = profile.numbers(TRANSFERS, "start_ts")
    if issued is not None:
        assert isinstance(issued, np.ndarray)
        begin = np.where(np.ma.getmaskarray(issued), begin, known(issued))
        begin = np.clip(begin, profile.span_ns[0], end)  # of a span: issued before it, perhaps

    def counted(rows: np.ndarray) -> dict[str, Any]:
        times, value = intervals.steps(begin[rows], end[rows])
        return {"timestamp": times, "value": value}

    return _per_core(profile, np.ones(len(end), dtype=bool), counted)


def dma_usage(profile: Tables) -> Mapping[str, Any]:
    """Sum the throughput of all transfers over time."""
    moved = profile.numbers(TRANSFERS, "transfer_bytes")
    return _throughput(profile, np.ones(len(moved), dtype=bool), moved)


def hbm_usage(profile: Tables) -> Mapping[str, Any]:
    """Sum the throughput of what transfers read from and write to device memory over time."""
    moved = profile.hbm_bytes("read") + profile.hbm_bytes("write")
    return _throughput(profile, moved > 0, moved)


def _throughput(profile: Tables, chosen: np.ndarray, moved: np.ndarray) -> Mapping[str, Any]:
    """Sum the rates of the chosen transfers; those under way at the same time share their core's DMA engines equally.

    The mean rate of a transfer is more than it has while others are under way: means that are added up exceed what
    the engines can move.
    """
    start, end = profile.numbers(TRANSFERS, "start_ts"), profile.numbers(TRANSFERS, "end_ts")
    core = profile.numbers(TRANSFERS, "pcore_idx")

    def summed(rows: np.ndarray) -> dict[str, Any]:
        everyone = core == core[rows[0]]
        times, under_way = intervals.steps(start[everyone], end[everyone])
        share = 1.0 / np.maximum(under_way, 1)
        served = np.concatenate(([0.0], np.cumsum(share[:-1] * np.diff(times))))
        first, last = (np.searchsorted(times, column[rows]) for column in (start, end))
        work = served[last] - served[first]
        alone = np.where(work > 0, moved[rows] / np.where(work > 0, work, 1.0), 0.0)
        added = np.zeros(len(times))
        np.add.at(added, first, alone)
        np.add.at(added, last, -alone)
        bytes_per_ns = np.maximum(np.cumsum(added), 0.0) * share * (under_way > 0)
        # What has arrived by then: the rate up to each moment, integrated.
        so_far = np.concatenate(([0.0], np.cumsum(bytes_per_ns[:-1] * np.diff(times))))
        return {
            "timestamp": times,
            "current_throughput": bytes_per_ns * 1e9,
            "total_transfer_bytes": np.rint(so_far).astype(np.int64),
        }

    return _per_core(profile, chosen, summed)


def _per_core(
    profile: Tables, chosen: np.ndarray, make: Callable[[np.ndarray], dict[str, Any]]
) -> Mapping[str, Any]:
    """Make the samples of each core from the rows of its transfers, one core after the other."""
    core = profile.numbers(TRANSFERS, "pcore_idx")
    parts = []
    for number in np.unique(core[chosen]):
        part = make(np.flatnonzero(chosen & (core == number)))
        parts.append(part | {"pcore_idx": np.full(len(part["timestamp"]), number)})
    if not parts:
        return {}
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def metadata(profile: Tables) -> Mapping[str, Any]:
    """Describe the chip and the run, as far as a model can know them."""
    target = profile.target
    first, last = profile.span_ns
    cores = len(profile.cores)
    return {
        "profile_schema_version": SCHEMA_VERSION,
        "num_physical_cores": cores,
        "vnc_enabled": cores > 1,
        "first_hw_timestamp": first,
        "last_hw_timestamp": last,
        "dma_ddr_bandwidth": target.dma_bytes_per_ns_all_engines * 1e9,
        "num_dma_engines_per_neuroncore": target.dma_engines,
        "hbm_ddr_bandwidth": target.hbm_stack_bytes_per_ns * 1e9,
        "tensor_engine_num_rows": target.pe_rows,
        "tensor_engine_num_cols": target.pe_columns,
        "tensor_engine_clock_freq": target.tensor_ghz,
        "vector_engine_clock_freq": target.vector_ghz,
        "vector_engine_num_channels": target.partitions,
        "scalar_engine_clock_freq": target.scalar_ghz,
        "scalar_engine_num_channels": target.partitions,
        "gpsimd_engine_clock_freq": target.gpsimd_ghz,
        "gpsimd_engine_num_channels": target.partitions,
        "neuroncore_clock_freq": target.core_ghz,
        "profile_name": profile.name,
        "is_simulation": profile.is_simulation,
    }


def packet_table(profile: Tables) -> Mapping[str, Any]:
    """Make the table DmaPacket: one row per descriptor, served in order by the engine it was dealt to.

    The packets of the busiest engine fill the time from the transfer's first byte to its last one; those of an engine
    with fewer are shown just as long.
    """
    deals = profile.deals
    if deals is None or not len(deals.codes):
        return {}
    rows = int(deals.packets.sum())
    if rows > MOST_ROWS:
        raise UsageError(
            f"table DmaPacket would have {rows:,} rows, more than fit in memory",
            help="DmaPacketAggregated has a row for each transfer, with its bytes and times",
        )
    times = (profile.numbers(TRANSFERS, name) for name in ("start_ts", "end_ts"))
    row, start, end, place, engine, read, written = deals.all_packets(*times)
    order = np.lexsort((place, row, start))
    row = row[order]
    columns: dict[str, Any] = {
        "start_ts": start[order],
        "end_ts": end[order],
        "id": np.arange(1, len(order) + 1),
        "packet_idx": place[order],
        "packet_aggregation_id": profile.numbers(TRANSFERS, "id")[row],
        "engine_idx": engine[order],
        "read_bytes": read[order],
        "write_bytes": written[order],
        "transfer_bytes": np.maximum(read, written)[order],
    }
    for name in ("pcore_idx", "queue_type", "variable", "queue_name", "queue_idx"):
        column = profile.column(TRANSFERS, name)
        if column is not None:
            columns[name] = column.take(row) if isinstance(column, Strings) else column[row]
    return columns


def summary(profile: Tables) -> Mapping[str, Any]:
    """Compute the Summary metrics and add those only the maker knows."""
    return metrics.summarise(profile) | profile.metrics


#: Table -> how to compute it.
DERIVED: dict[str, Callable[[Tables], Mapping[str, Any]]] = {
    "ActiveTime": active_time,
    "DmaPacket": packet_table,
    "DmaUsage": dma_usage,
    "HbmUsage": hbm_usage,
    "Metadata": metadata,
    "OpcodeSummary": opcode_summary,
    "PendingDma": pending_dma,
    "Summary": summary,
}


class ProfileData(Tables):
    """The tables of a run, with those that follow from others."""

    derived = DERIVED
