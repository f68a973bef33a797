"""The stand-in of `neuronxcc.nki`, Beta 1: baremetal, benchmark and profile."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.dialects import BETA1
from nki_lab.runtime import beta1 as ours
from tests.hardware.standin import device, exports, files
from tests.hardware.standin.machine import Machine
from tests.hardware.standin.nki06 import put_modules


@dataclass
class Latency:
    """The latency of a kernel, in microseconds."""

    times_ns: list[int]
    percentiles: list[int]

    def get_latency_percentile(self, percentile: int) -> float:
        if percentile not in self.percentiles:
            raise KeyError(percentile)
        return device.percentile(self.times_ns, percentile) / 1000


@dataclass
class BenchmarkResult:
    nc_latency: Latency


class Runner:
    """A kernel that one of the three decorators, or `jit`, runs."""

    def __init__(
        self, machine: Machine, kind: str, function: Callable[..., Any], asked: dict[str, Any]
    ) -> None:
        self.machine, self.kind, self.asked = machine, kind, asked
        self.ours = ours.jit(getattr(function, "function", function))
        self.function = getattr(function, "function", function)
        self.__name__ = self.function.__name__
        self.benchmark_result: BenchmarkResult | None = None
        self._grid: Any = None

    def __getitem__(self, grid: Any) -> Runner:
        other = Runner(self.machine, self.kind, self.function, self.asked)
        other.ours, other._grid = self.ours[grid], grid
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine, contract = self.machine, self.machine.contract
        neff, trace = self.asked.get("save_neff_name"), self.asked.get("save_trace_name")
        if (
            self.kind != "profile"
            and trace
            and (neff or "file.neff") != contract["beta1"]["neff_with_trace"]
        ):
            raise AssertionError(
                "save_neff_name must be 'file.neff' when save_trace_name is specified"
            )
        artifacts = self.asked.get("artifacts_dir")
        if artifacts and os.path.isdir(artifacts) and os.listdir(artifacts):
            raise RuntimeError(f"artifacts_dir {artifacts} is not empty")
        folder = Path(artifacts or tempfile.mkdtemp(prefix="neuronxcc"))
        try:
            path = device.compile_kernel(machine, self.ours, args, kwargs, folder / "file.neff")
            machine.initialise()
            program = device.Program(machine, path)
            inputs = program.kernel.inputs(*args, **kwargs)
            execution = program.run(dict(zip(program.inputs, inputs, strict=True)))
            self._keep(path, execution, program)
        finally:
            if not artifacts:
                shutil.rmtree(folder, ignore_errors=True)
        if self.kind == "benchmark":
            return self._benchmark(execution)
        arrays = [a for a in (*args, *kwargs.values()) if isinstance(a, np.ndarray)]
        for array, written in zip(arrays, execution.written, strict=False):
            array[...] = written
        outputs = execution.outputs
        return None if not outputs else outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _keep(self, path: Path, execution: device.Execution, program: device.Program) -> None:
        neff, trace = self.asked.get("save_neff_name"), self.asked.get("save_trace_name")
        where = Path(self.asked.get("working_directory") or ".")
        if neff or trace:
            shutil.copy(path, where / (neff or "file.neff"))
        if not trace:
            return
        nth = self.asked.get("profile_nth", 1)
        profile = execution.profile
        ntff = where / trace
        if nth > 1:
            suffix = self.machine.contract["capture"]["nth_suffix"].format(n=nth)
            ntff = ntff.with_name(f"{ntff.stem}{suffix}{ntff.suffix}")
        files.write_ntff(
            ntff, program.uuid, device.stored_profile(profile, path.parent), self.machine.contract
        )
        if self.kind == "profile":
            reports = where / "json_reports"
            reports.mkdir(exist_ok=True)
            text = json.dumps(exports.document(profile, self.machine["time_unit"]))
            (reports / f"{ntff.stem}.json").write_text(text, "utf-8")

    def _benchmark(self, execution: device.Execution) -> Any:
        about = self.machine.contract["beta1"]
        times = device.latencies(
            execution.profile.total_ns, self.asked.get("iters", about["benchmark"]["iters"])
        )
        self.benchmark_result = BenchmarkResult(Latency(times, about["percentiles"]))
        for percent in about["percentiles"]:
            print(
                f"p{percent}: {self.benchmark_result.nc_latency.get_latency_percentile(percent):.2f}us"
            )
        # What a benchmark returns is undefined: it runs on other values than the arguments.
        garbage = [np.full_like(output, 3) for output in execution.outputs]
        return None if not garbage else garbage[0] if len(garbage) == 1 else tuple(garbage)


def become(name: str, machine: Machine) -> None:
    """Make a module the package."""
    machine.stage("import")
    package = sys.modules[name]
    contract = machine.contract["beta1"]

    def decorator(kind: str, standard: dict[str, Any]) -> Any:
        def decorate(kernel: Any = None, **asked: Any) -> Any:
            if kind == "profile" and not os.path.isabs(asked.get("working_directory") or ""):
                raise ValueError("working_directory must be an absolute path")
            asked = {**standard, **asked}
            if kernel is None:
                return lambda function: Runner(machine, kind, function, asked)
            return Runner(machine, kind, kernel, asked)

        return decorate

    def jit(func: Any = None, mode: str = "auto", **keywords: Any) -> Any:
        kind = mode if mode in ("benchmark",) else "baremetal"
        if mode == "simulation":
            return ours.jit(func, mode=mode, **keywords)
        return decorator(kind, {})(func)

    def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        return ours.simulate_kernel(getattr(kernel, "ours", kernel), *args, **kwargs)

    vars(package).update(
        jit=jit,
        trace=ours.trace,
        simulate_kernel=simulate_kernel,
        baremetal=decorator("baremetal", {}),
        benchmark=decorator("benchmark", contract["benchmark"]),
        profile=decorator("profile", contract["profile"]),
    )
    put_modules(package, name, BETA1.modules)
