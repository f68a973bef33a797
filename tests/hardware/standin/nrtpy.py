"""The stand-in of `nrtpy`, and of `spike`, whose classes have other names."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.hardware.standin import device, files
from tests.hardware.standin.machine import Machine, NrtError

_ITEM_VOID = {2: "V2", 1: "i1"}


class NrtpyError(RuntimeError):
    """An error of the Python layer."""


@dataclass
class BenchmarkResult:
    mean_ms: float
    min_ms: float
    max_ms: float
    std_dev_ms: float
    iterations: int
    warmup_iterations: int
    durations_ms: list[float]


@dataclass
class TensorMetadata:
    shape: list[int]
    size: int
    dtype: str


class NrtpyTensor:
    """An array on the device; one whose dtype the runtime does not know comes back as bytes."""

    def __init__(self, array: np.ndarray, name: str | None = None) -> None:
        self.array, self.name = array, name
        self.shape, self.dtype = array.shape, array.dtype

    @classmethod
    def from_numpy(
        cls, array: np.ndarray, name: str | None = None, core_id: int = 0
    ) -> NrtpyTensor:
        return cls(np.array(array), name)

    def write_from_numpy(self, array: np.ndarray) -> None:
        self.array[...] = array

    def numpy(self) -> np.ndarray:
        return np.array(self.array)


class NrtpyModel:
    """A loaded NEFF."""

    machine: Machine

    def __init__(self, program: device.Program) -> None:
        self.program = program
        self.input_tensors_info = _info(program.inputs)
        self.output_tensors_info = _info(program.outputs)

    @classmethod
    def load_from_neff(
        cls,
        neff_path: Any,
        name: str | None = None,
        core_id: int = 0,
        cc_enabled: bool = False,
        rank_id: int = 0,
        world_size: int = 1,
    ) -> NrtpyModel:
        cls.machine.initialise()
        return cls(device.Program(cls.machine, Path(neff_path)))

    def __call__(
        self,
        inputs: Any,
        outputs: Any = None,
        save_trace: bool = False,
        ntff_name: str | None = None,
    ) -> dict[str, NrtpyTensor] | None:
        program = self.program
        if inputs.keys() != program.inputs.keys():
            self.machine.fail("bad-input", "")
        arrays = {name: _typed(inputs[name].array, spec) for name, spec in program.inputs.items()}
        execution = program.run(arrays)
        if save_trace:
            path = Path(ntff_name or program.path.with_suffix(".ntff"))
            profile = device.stored_profile(execution.profile, path.parent)
            files.write_ntff(path, program.uuid, profile, self.machine.contract)
        given = dict(zip(program.outputs, execution.outputs, strict=True))
        for name, written in zip(program.inputs, execution.written, strict=True):
            inputs[name].array = written.view(inputs[name].array.dtype)
        if outputs is not None:
            for name, tensor in outputs.items():
                tensor.array = given[name].view(tensor.array.dtype)
            return None
        return {name: NrtpyTensor(_untyped(array), name) for name, array in given.items()}

    def benchmark(
        self,
        inputs: Any,
        outputs: Any = None,
        warmup_iter: int = 5,
        benchmark_iter: int = 5,
        mode: str = "device",
    ) -> BenchmarkResult:
        if mode not in ("device", "host") or benchmark_iter < 1:
            raise ValueError("mode must be device or host, and benchmark_iter at least 1")
        program = self.program
        arrays = {name: _typed(inputs[name].array, spec) for name, spec in program.inputs.items()}
        total = program.run(arrays).profile.total_ns + (0 if mode == "device" else 1_300_000)
        times = [ns / 1e6 for ns in device.latencies(total, benchmark_iter)]
        return BenchmarkResult(
            statistics.fmean(times),
            min(times),
            max(times),
            statistics.pstdev(times),
            len(times),
            warmup_iter,
            times,
        )


def _info(tensors: Any) -> dict[str, TensorMetadata]:
    return {
        name: TensorMetadata(
            list(t.shape),
            int(np.prod(t.shape)) * t.dtype.itemsize,
            str(t.dtype).removeprefix("nl."),
        )
        for name, t in tensors.items()
    }


def _typed(array: np.ndarray, spec: Any) -> np.ndarray:
    return array.view(spec.dtype.host).reshape(spec.shape)


def _untyped(array: np.ndarray) -> np.ndarray:
    """Return an array as libnrt reports it: dtypes that NumPy lacks become bytes, and fp8 is int8."""
    plain = (
        array.dtype.kind in "fiu"
        and array.dtype.name[:5] != "float8"
        and array.dtype.isbuiltin == 1
    )
    return array if plain else array.view(_ITEM_VOID[array.dtype.itemsize])


def become(name: str, machine: Machine) -> None:
    """Make a module the package."""
    machine.stage("import")
    NrtpyModel.machine = machine
    prefix = {"nrtpy": "Nrtpy", "spike": "Spike"}[name]

    def configure(visible_cores: Any = None, **others: Any) -> None:
        import os

        if visible_cores is not None:
            os.environ["NEURON_RT_VISIBLE_CORES"] = ",".join(map(str, visible_cores))

    vars(sys.modules[name]).update(
        {
            f"{prefix}Model": NrtpyModel,
            f"{prefix}Tensor": NrtpyTensor,
            "NrtpyError": NrtpyError,
            "NrtError": NrtError,
            "BenchmarkResult": BenchmarkResult,
            "configure": configure,
            "reset": lambda: None,
        }
    )
