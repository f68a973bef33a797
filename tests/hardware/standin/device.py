"""The device of the stand-ins: compiles with nki_lab, runs on its simulator, and measures what it models.

What is measured differs from the model by what the test has asked for: values by a relative error, and durations by a
ratio for each engine, for the transfers ("dma"), or for an opcode.
"""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nki_lab
from nki_lab.errors import AddressOutOfRange, KernelResult, NkiError
from nki_lab.profiler.columns import take
from nki_lab.profiler.formats import profile_json
from nki_lab.profiler.profile import Profile
from tests.hardware.standin import files
from tests.hardware.standin.machine import Machine


class Program:
    """A NEFF that has been loaded."""

    def __init__(self, machine: Machine, neff: Path, tool: str = "") -> None:
        self.machine, self.tool, self.path = machine, tool, neff
        machine.stage("load", tool)
        if not neff.exists():
            machine.fail("no-neff", tool)
        try:
            members, self.uuid = files.read_neff(neff, machine.contract)
        except Exception:
            machine.fail("invalid", tool)
        self.has_lines = files.LINES in members
        kernel = neff.with_suffix(".standin")
        kernel.write_bytes(members[files.PROGRAM])
        try:
            self.kernel = nki_lab.load(kernel)
        finally:
            kernel.unlink()
        compiled = self.kernel.compiled.kernel
        if compiled.target.name != _chip(machine):
            machine.fail("bad-neff", tool)
        self.inputs = {t.name: t for t in compiled.inputs}
        self.outputs = {f"output_{n}": t for n, t in enumerate(compiled.outputs)}

    def run(self, inputs: Mapping[str, np.ndarray]) -> Any:
        """Execute, and return what nki_lab says of it, with what the device gives."""
        self.machine.stage("execute", self.tool)
        arrays = [np.array(inputs[name]) for name in self.inputs]
        try:
            result = self.kernel.launch_arrays(arrays)
        except AddressOutOfRange:
            self.machine.fail("oob", self.tool)
        return Execution(self.machine, result, arrays, self.has_lines)

    def zeros(self) -> dict[str, np.ndarray]:
        return {name: np.zeros(t.shape, t.dtype.host) for name, t in self.inputs.items()}


class Execution:
    """One execution: its outputs and its times, as a device gives them.

    Attributes:
        outputs: what the kernel returns.
        written: the inputs, some of which it may have written.
        profile: the times as they were measured.
    """

    def __init__(
        self, machine: Machine, result: Any, arrays: Sequence[np.ndarray], has_lines: bool
    ) -> None:
        error = machine["value_error"]
        self.outputs = [_wrong(output, error) for output in result.outputs]
        if machine["nan"]:
            for output in self.outputs:
                output.reshape(-1)[:1] = np.nan
        self.written = arrays
        self._result, self._machine, self._has_lines = result, machine, has_lines

    @property
    def profile(self) -> Profile:
        chip = self._machine.chip
        ratios = self._machine["time_ratios"]
        return measured(self._result.profile, ratios, chip["instance_type"], self._has_lines)


def _wrong(output: np.ndarray, error: float) -> np.ndarray:
    """Return values that differ by a relative error, whose sign alternates."""
    output = np.array(output)
    if not error or not output.size or np.issubdtype(output.dtype, np.integer):
        return output
    signs = np.where(np.arange(output.size) % 2, -1.0, 1.0).reshape(output.shape)
    return (output.astype(np.float64) * (1 + error * signs)).astype(output.dtype)


def _chip(machine: Machine) -> str:
    return nki_lab.targets.get_target(machine["chip"]).name


def compile_kernel(
    machine: Machine, kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], neff: Path
) -> Path:
    """Compile a kernel for arguments, and write the NEFF."""
    machine.stage("compile")
    os.environ.setdefault("NEURON_PLATFORM_TARGET_OVERRIDE", machine["chip"])
    try:
        compiled = kernel.compile(*args, **kwargs)
    except KernelResult:
        machine.fail("hbm-output", "")
    except NkiError as error:
        raise RuntimeError(error.message) from None
    neff.parent.mkdir(parents=True, exist_ok=True)
    stored = neff.with_suffix(".standin")
    compiled.save(stored)
    program = stored.read_bytes()
    stored.unlink()
    return files.write_neff(neff, program, compiled.compiled, machine.contract)


#: Columns that follow from the times of events, or that no longer hold when these change.
_FOLLOWS = (
    "duration_ns", "throughput", "evt_wait_time_ns", "dma_trigger_start_ts", "dma_trigger_end_ts", "dma_wait_time_ns",
    "trigger", "completion",
)  # fmt: skip

# -- times -----------------------------------------------------------------------------------------------------------


def measured(
    profile: Profile, ratios: Mapping[str, float], instance: str, has_lines: bool = True
) -> Profile:
    """Return a profile as measured: each duration longer by its ratio, and what waited for it later.

    Lines of the source are in it where the program was compiled with them.
    """
    tables: dict[str, Any] = {
        name: dict(profile.table(name))
        for name in ("Instruction", "DmaPacketAggregated", "Flow", "KernelInstructions", "KernelIterationVariables",
                     "KernelStackFrames", "TensorInfo", "SbufAllocation")
        if profile.count(name)
    }  # fmt: skip
    if not has_lines:
        for name in ("KernelInstructions", "KernelIterationVariables", "KernelStackFrames"):
            tables.pop(name, None)
        tables["Instruction"].pop("nki_source_location", None)
    last = profile.span_ns[1]
    if ratios:
        last = _stretched(profile, tables, ratios)
    about = dict(next(profile.records("Metadata")))
    about |= {"is_simulation": False, "instance_type": instance, "last_hw_timestamp": last}
    tables["Metadata"] = {name: [value] for name, value in about.items() if value is not None}
    return Profile.from_tables(
        profile.target, tables, is_simulation=False, name=profile.name, metrics=profile.metrics
    )


def without_notifications(profile: Profile, kinds: Sequence[str]) -> Profile:
    """Return a profile without the transfers of these kinds of queues, and without what refers to them."""
    tables = {name: dict(profile.table(name)) for name in profile.stored}
    rows = list(profile.records("DmaPacketAggregated"))
    gone = {row["id"] for row in rows if row["queue_type"] in kinds}
    stay = [row["id"] not in gone for row in rows]
    flows = [
        not any(
            flow[f"{end}_table"] == "dma_block" and flow[f"{end}_id"] in gone
            for end in ("in", "out")
        )
        for flow in profile.records("Flow")
    ]
    for name, chosen in (("DmaPacketAggregated", stay), ("Flow", flows)):
        if name in tables and not all(chosen):
            tables[name] = {
                c: take(column, np.flatnonzero(chosen)) for c, column in tables[name].items()
            }
            if not any(chosen):
                del tables[name]
    return Profile.from_tables(
        profile.target, tables, is_simulation=False, name=profile.name, metrics=profile.metrics
    )


def _stretched(profile: Profile, tables: dict[str, Any], ratios: Mapping[str, float]) -> int:
    """Place the events of the tables anew, and return the end of the run."""
    events: list[dict[str, Any]] = []
    ends: dict[tuple[str, int], int] = {}
    for table, kind in (("Instruction", "instruction"), ("DmaPacketAggregated", "dma_block")):
        for row, record in enumerate(profile.records(table)):
            is_transfer = table != "Instruction"
            lane = record["queue_name"] if is_transfer else record["engine"]
            own = ratios.get("" if is_transfer else record["opcode"])
            ratio = own or ratios.get("dma" if is_transfer else lane, 1.0)
            events.append({"at": (table, row), "key": (kind, record["id"]), "lane": (record["pcore_idx"], lane),
                           "start": record["start_ts"], "end": record["end_ts"], "ratio": ratio})  # fmt: skip
    before: dict[Any, list[Any]] = defaultdict(list)
    for flow in profile.records("Flow"):
        before[flow["out_table"], flow["out_id"]].append((flow["in_table"], flow["in_id"]))
    by_key = {event["key"]: event for event in events}
    events.sort(key=lambda event: (event["start"], event["end"]))
    latest: dict[Any, Any] = {}
    placed: dict[Any, tuple[int, int]] = {}
    for event in events:
        earlier: Iterable[Any] = [by_key[k] for k in before[event["key"]] if k in placed]
        if event["lane"] in latest:
            earlier = itertools.chain(earlier, [latest[event["lane"]]])
        waits = [(e["end"], placed[e["key"]][1]) for e in earlier]
        done = [w for w in waits if w[0] <= event["start"]]
        start = event["start"]
        if done:
            old, new = max(done)
            start = max(new + event["start"] - old, *(n for _, n in done))
        end = start + max(1, round((event["end"] - event["start"]) * event["ratio"]))
        placed[event["key"]] = start, end
        latest[event["lane"]] = event
        ends[event["at"]] = end
        event["new"] = start, end
    for table in ("Instruction", "DmaPacketAggregated"):
        of_table = {e["at"][1]: e["new"] for e in events if e["at"][0] == table}
        if of_table:
            starts, stops = zip(*(of_table[row] for row in range(len(of_table))), strict=True)
            tables[table] |= {"start_ts": list(starts), "end_ts": list(stops)}
            for follows in _FOLLOWS:
                tables[table].pop(follows, None)
    tables["Flow"].pop("gap_time", None) if "Flow" in tables else None
    return max(ends.values())


def stored_profile(profile: Profile, folder: Path) -> bytes:
    """Return a profile as the bytes of its file."""
    path = folder / "profile.standin"
    profile_json.save(profile, path)
    content = path.read_bytes()
    path.unlink()
    return content


def read_profile(content: bytes, folder: Path) -> Profile:
    path = folder / "profile.standin"
    path.write_bytes(content)
    try:
        return Profile.load(path)
    finally:
        path.unlink()


# -- arrays and latencies --------------------------------------------------------------------------------------------


def read_array(path: Path, like: np.ndarray) -> np.ndarray:
    """Return an input from a file: .npy, or raw bytes of the input's dtype."""
    if path.suffix == ".npy":
        array = np.load(path)
        return array.view(like.dtype).reshape(like.shape)
    return np.frombuffer(path.read_bytes(), like.dtype).reshape(like.shape)


def write_array(path: Path, array: np.ndarray, npy: bool) -> None:
    """Write an output as .npy or as raw bytes."""
    if npy:
        with open(path, "wb") as file:
            np.save(file, array)
    else:
        path.write_bytes(array.tobytes())


def latencies(total_ns: int, count: int) -> list[int]:
    """Return the times of executions, the same in each run: the first of them takes up to 4 % longer."""
    return [total_ns + total_ns * (count - n) * 4 // (count * 100) for n in range(1, count + 1)]


def percentile(times: Sequence[int], percent: int) -> float:
    """Return a percentile of times."""
    return float(np.percentile(times, percent))
