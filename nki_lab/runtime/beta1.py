"""The runners of the older dialect: nki.jit with its modes, baremetal, benchmark, profile, simulate_kernel.

All run on the simulator. Where the official ones write what a device measured (a NEFF and a trace), ours write the
compiled program and the modelled profile under the same names, and say so.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.beta1.promotion import dtype_named
from nki_lab.choices import Choices
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import KernelArgument, NotModelled, close_matches
from nki_lab.profiler.formats import profile_json
from nki_lab.runtime.jit import KernelFunction, as_kernel, check_dialect, decorated
from nki_lab.runtime.result import Result

#: What `mode=` may be (general/nki/api/nki/__init__.py); "trace" is of kernels that other kernels call.
MODES = ("auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace")
#: The percentiles that a benchmark has.
PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)

_FILES = {"save_neff_name": None, "save_trace_name": None, "additional_compile_opt": None}
_BAREMETAL = {**_FILES, "artifacts_dir": None}
_BENCHMARK = {**_FILES, "warmup": 10, "iters": 100}
_PROFILE = {
    "save_neff_name": "file.neff", "save_trace_name": "profile.ntff", "additional_compile_opt": None,
    "working_directory": None, "overwrite": False, "profile_nth": 1, "num_execs": 1,
}  # fmt: skip


_WRITES: ContextVar[bool] = ContextVar("nki_lab_beta1_writes", default=True)


@contextmanager
def running_only() -> Iterator[None]:
    """Let runners run kernels in a block, and neither write files nor print."""
    token = _WRITES.set(False)
    try:
        yield
    finally:
        _WRITES.reset(token)


@dataclass(frozen=True)
class Latency:
    """The modelled latency of a kernel. The model has no noise: all percentiles are equal.

    Attributes:
        kernel: its name.
        target: the chip that it is modelled for.
        microseconds: of one execution.
    """

    kernel: str
    target: str
    microseconds: float

    def get_latency_percentile(self, percentile: int) -> float:
        """Return a percentile of the latency in microseconds; there are 0, 1, 10, 25, 50, 90, 99 and 100."""
        if percentile not in PERCENTILES:
            raise KernelArgument(
                f"get_latency_percentile({percentile!r}): a benchmark has the percentiles"
                f" {', '.join(map(str, PERCENTILES))}",
                help="write one of these numbers",
            )
        return self.microseconds

    def __str__(self) -> str:
        return (
            f"{self.kernel}: {self.microseconds:.2f} us in every percentile, modelled for {self.target} by nki_lab;"
            " nothing was measured"
        )


@dataclass(frozen=True)
class BenchmarkResult:
    """What a benchmark gives: `nc_latency`, and our Result of the run."""

    nc_latency: Latency
    result: Result


class _Runner(KernelFunction):
    """A kernel with what its runner was asked; a copy such as kernel[2, 4] shares what the latest call gave."""

    _asked: Mapping[str, Any]
    _gave: dict[str, Any]

    def launch_with(
        self, choices: Choices, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Result:
        """Run under these choices and return the Result."""
        paths = self._paths() if _WRITES.get() else []
        result = super().launch_with(choices, args, kwargs)
        self._report(result, paths)
        return result

    def _paths(self) -> list[Path]:
        """Return where the program and its profiles go, the program first; raise where they cannot be written."""
        neff, trace = self._asked["save_neff_name"], self._asked["save_trace_name"]
        if trace and (neff or "file.neff") != "file.neff":
            raise KernelArgument(
                f"save_neff_name={neff!r} beside save_trace_name: the program must be called 'file.neff' there",
                help="write save_neff_name='file.neff'",
            )
        if trace:
            neff = neff or "file.neff"
        return [Path(name) for name in (neff, trace) if name]

    def _report(self, result: Result, paths: list[Path]) -> None:
        """Write what was asked for, and say what it is."""
        if not paths:
            return
        program, *traces = paths
        result.compiled.save(program)
        for path in traces:
            profile_json.save(result.profile, path)
        text = (
            f"{self.__name__}: no NEFF was made, and nothing was measured. {program} is the program that nki_lab"
            " compiled"
        )
        print(
            ", ".join(
                [text, *(f"{p} its modelled profile: nki-lab profile {p}" for p in traces[:1])]
            )
        )


class BaremetalKernel(_Runner):
    """A kernel of nki.baremetal."""

    def _paths(self) -> list[Path]:
        folder = self._asked["artifacts_dir"]
        if folder and Path(folder).is_dir() and any(Path(folder).iterdir()):
            raise KernelArgument(
                f"artifacts_dir={str(folder)!r} is not empty",
                help="name an empty folder, or one that does not exist",
            )
        paths = super()._paths()
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            paths = paths or [Path(folder, "file.neff")]
        return paths


class BenchmarkKernel(_Runner):
    """A kernel of nki.benchmark: after a call, `benchmark_result.nc_latency` is its modelled latency.

    `nki.typing.tensor[shape, dtype]` among its arguments is an array of zeros.
    """

    def launch_with(
        self, choices: Choices, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Result:
        """Run under these choices and return the Result."""
        arrays = tuple(_zeros(value) for value in args)
        return super().launch_with(choices, arrays, {k: _zeros(v) for k, v in kwargs.items()})

    def _report(self, result: Result, paths: list[Path]) -> None:
        if result.missing_times:
            raise NotModelled(
                f"{self.__name__} has no latency: {result.missing_times}",
                help="run it with nki.baremetal or nki.simulate_kernel, which give its values",
            )
        target = result.compiled.target.name
        latency = Latency(self.__name__, target, result.profile.total_ns / 1000)
        self._gave["benchmark"] = BenchmarkResult(latency, result)
        if _WRITES.get():
            print(f"nki.benchmark {latency}")
        super()._report(result, paths)

    @property
    def benchmark_result(self) -> BenchmarkResult:
        """The result of the latest call."""
        if "benchmark" not in self._gave:
            raise NotModelled(
                f"{self.__name__}.benchmark_result: the kernel has not been called",
                help=f"call {self.__name__} with arrays first",
            )
        gave: BenchmarkResult = self._gave["benchmark"]
        return gave


def _zeros(value: Any) -> Any:
    """Return zeros for the description of a tensor, which is a class with its shape and element type.

    Other values are returned as they are.
    """
    if isinstance(value, type) and hasattr(value, "shape") and hasattr(value, "dtype"):
        if value.shape is None or value.dtype is None:
            raise KernelArgument(
                f"an argument of nki.benchmark is the class {value.__name__!r}, without a shape and an element type",
                help="write nki.typing.tensor[[250, 512], nl.float32], or pass an array",
            )
        return np.zeros(value.shape, dtype_named(value.dtype).host)
    return value


class ProfileKernel(_Runner):
    """A kernel of nki.profile: a call writes its program and profile into `working_directory`."""

    def _paths(self) -> list[Path]:
        asked = self._asked
        folder = Path(asked["working_directory"])
        trace = Path(asked["save_trace_name"])
        nth, executions = int(asked["profile_nth"]), int(asked["num_execs"])
        numbers = [*range(nth, executions + 1, nth)] or [nth]
        names = [trace.name if n == 1 else f"{trace.stem}_exec_{n}{trace.suffix}" for n in numbers]
        paths = [folder / Path(asked["save_neff_name"]).name, *(folder / name for name in names)]
        there = [path.name for path in paths if path.exists()]
        if there and not asked["overwrite"]:
            raise KernelArgument(
                f"working_directory={str(folder)!r} already has {', '.join(there)}",
                help="write overwrite=True, or name another folder",
            )
        return paths

    def _report(self, result: Result, paths: list[Path]) -> None:
        if not paths:
            return
        reports = paths[0].parent / "json_reports"
        reports.mkdir(parents=True, exist_ok=True)
        for path in paths[1:]:
            summary = {"modelled_by": "nki_lab", **result.profile.summary}
            report = reports / f"{path.stem}.json"
            report.write_text(json.dumps(summary, indent=1, default=str) + "\n", encoding="utf-8")
        super()._report(result, paths)


def jit(func: Any = None, mode: str = "auto", **kwargs: Any) -> Any:
    """Make a function a kernel; all modes run on the simulator, and `mode="benchmark"` models the latency.

    Args:
        func: the function.
        mode: "auto", "jax", "torchxla", "baremetal", "benchmark", "simulation" or "trace".
        kwargs: what public kernels ask of the compiler is accepted; `platform_target` chooses the chip.
    """
    if mode not in MODES:
        raise KernelArgument(
            f"nki.jit(mode={mode!r}): there is no such mode",
            help=close_matches(str(mode), MODES) or f"write one of {', '.join(MODES)}",
        )
    if mode == "benchmark":
        return benchmark(func, **kwargs)
    if mode == "baremetal":
        return baremetal(func, **kwargs)
    return decorated(BETA1, func, kwargs)


def baremetal(kernel: Any = None, **kwargs: Any) -> Any:
    """Make a function a kernel that runs on NumPy arrays.

    Args:
        kernel: the function or kernel.
        kwargs: save_neff_name, save_trace_name, artifacts_dir (an empty folder), additional_compile_opt.
    """
    return _runner(BaremetalKernel, baremetal, _BAREMETAL, kernel, kwargs)


def benchmark(kernel: Any = None, **kwargs: Any) -> Any:
    """Make a function a kernel whose latency is modelled: `kernel.benchmark_result.nc_latency` after a call.

    Args:
        kernel: the function or kernel.
        kwargs: warmup and iters, which change nothing in a model without noise; save_neff_name, save_trace_name,
            additional_compile_opt.
    """
    return _runner(BenchmarkKernel, benchmark, _BENCHMARK, kernel, kwargs)


def profile(func: Any = None, **kwargs: Any) -> Any:
    """Make a function a kernel whose calls write its program and its modelled profile into a folder.

    Args:
        func: the function or kernel.
        kwargs: working_directory (an absolute path, must be given), save_neff_name, save_trace_name, overwrite,
            profile_nth, additional_compile_opt.
    """
    if func is None or kwargs:
        _check_directory(kwargs)
    elif func is not None:
        _check_directory({})
    return _runner(ProfileKernel, profile, _PROFILE, func, kwargs)


def _check_directory(asked: Mapping[str, Any]) -> None:
    folder = asked.get("working_directory")
    if folder is None or not Path(folder).is_absolute():
        raise KernelArgument(
            "nki.profile needs working_directory=, an absolute path"
            + f"; {str(folder)!r} is relative" * (folder is not None),
            help="write @nki.profile(working_directory='/tmp/profiles')",
        )


def trace(func: Any = None, **kwargs: Any) -> Any:
    """Make a function a kernel that other kernels and the runners call."""
    return jit(func, mode="trace", **kwargs)


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel, or kernel[grid], on the simulator and return what it returns; outputs by argument are written."""
    function = as_kernel(kernel)
    check_dialect(BETA1, function.source)
    return function._with(simulated=True)(*args, **kwargs)


def _runner(
    kind: type[_Runner],
    runner: Callable[..., Any],
    standard: Mapping[str, Any],
    kernel: Any,
    given: dict[str, Any],
) -> Any:
    """Return the kernel of a runner, or its decorator where there is no function yet."""
    if kernel is None:
        return functools.partial(runner, **given)
    asked = {name: given.pop(name) for name in standard if name in given}
    made = decorated(BETA1, kernel, given)
    changed = object.__new__(kind)
    vars(changed).update(vars(made))
    changed._asked, changed._gave = {**standard, **asked}, {}
    made._copies.add(changed)
    return changed
