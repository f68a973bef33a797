"""A Neuron device as a backend, alone and beside the simulator: values and times are measured."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nki_lab.backends.backend import Backend, Run
from nki_lab.backends.simulated import Simulator
from nki_lab.choices import DEVICE, Choices, Standard
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.errors import DeviceOutOfBounds, NoDevice, ToolchainError
from nki_lab.hardware import probe, profiler
from nki_lab.hardware.kernel_files import KernelFiles
from nki_lab.hardware.run_folder import RunFolder
from nki_lab.hardware.runner import LIMIT_S, Call, Latency, Runner, Toolchain
from nki_lab.ir.program.nodes import Finding
from nki_lab.profiler.profile import Profile
from nki_lab.targets import get_target
from nki_lab.targets.spec import Target


class DeviceRun(Run):
    """A run on a device.

    Args:
        runner: what ran it.
        call: what was run.
        folder: what is kept of it: text, arrays, NEFF, NTFF, exports, versions.
        outputs: as in `Run`.
        times: executions to warm up, and those that a benchmark times.
    """

    def __init__(
        self,
        runner: Runner,
        call: Call,
        folder: RunFolder,
        outputs: Sequence[np.ndarray],
        times: tuple[int, int],
        findings: Sequence[Finding] = (),
    ) -> None:
        super().__init__(DEVICE, outputs, findings, origin=runner.origin)
        self._runner, self._call, self.folder, self._times = runner, call, folder, times
        self._profile: Profile | None = None

    def profile(self) -> Profile:
        """Return the captured timeline; the kernel is executed again for it, on the same inputs."""
        if self._profile is None:
            self._profile, notes = profiler.capture(self._runner, self._call, self.folder)
            self.findings += tuple(Finding("unchecked", note) for note in notes)
        return self._profile

    def benchmark(self) -> Latency:
        """Time further executions on the device."""
        return self._runner.benchmark(self._call, self.folder, *self._times)


class Neuron(Backend):
    """Runs kernels on a Neuron device with the official package, in child processes."""

    name = DEVICE

    def chip(self, asked: str | Target, options: Choices) -> str | Target:
        """Return the chip of the device; ToolchainError where there is none, or another one than is asked for."""
        named = _toolchain(options).chip
        if not named and isinstance(asked, Standard):
            raise NoDevice(
                "nothing tells which chip the device is: neither neuron-ls nor /sys",
                help="name it, such as --target trn2",
            )
        there = get_target(named or asked)
        if isinstance(asked, Standard):
            return there
        wanted = get_target(asked)
        if wanted.chip != there.chip:
            raise ToolchainError(
                f"the kernel is to be compiled for {wanted.name}, and the device is {there.name}",
                help=f"leave the target out, or write {there.name}; on the simulator it may be any",
            )
        return wanted  # with its overlay, which the model is timed with

    def run(
        self,
        compiled: CompiledKernel,
        arrays: Sequence[np.ndarray],
        options: Choices,
        retrace: Retrace | None,
    ) -> DeviceRun:
        """Compile and execute on the device."""
        runner = Runner(
            _toolchain(options),
            compiled.target.chip,
            runs_folder(options),
            _cache() / "device_locks",
            core=options.core,
            seconds=options.timeout or LIMIT_S,
            say=_say,
        )
        call = _call(compiled, arrays, options, retrace)
        try:
            folder, outputs, updated = runner.run(call)
        except DeviceOutOfBounds as error:
            error.help = "run it with backend='simulator', which names the line and the index"
            raise
        for number, values in updated.items():
            arrays[number][...] = values.reshape(arrays[number].shape)
        return DeviceRun(runner, call, folder, outputs, (options.warmup, options.iters))


class Both(Neuron):
    """Runs kernels on the device and on the simulator, and compares what comes out.

    The results are those of the device; `result.modelled` is the run of the simulator.
    """

    name = "both"

    def run(
        self,
        compiled: CompiledKernel,
        arrays: Sequence[np.ndarray],
        options: Choices,
        retrace: Retrace | None,
    ) -> DeviceRun:
        """Run on both, each on the same inputs."""
        copies = [np.array(array) for array in arrays]
        run = super().run(compiled, arrays, options, retrace)
        modelled = Simulator().run(compiled, copies, options, retrace)
        run.backend, run.other = self.name, modelled
        run.findings, run.notes = modelled.findings, tuple(_differences(run, modelled))
        return run


def _differences(run: Run, modelled: Run) -> Iterator[str]:
    """Yield how far each result of the device is from that of the simulator."""
    for number, (measured, expected) in enumerate(zip(run.outputs, modelled.outputs, strict=True)):
        name = f"result {number}" if len(run.outputs) > 1 else "the result"
        if measured.shape != expected.shape:
            shapes = [*measured.shape], [*expected.shape]
            yield f"{name} has the shape {shapes[0]} on the device, and {shapes[1]} on the simulator"
        else:
            yield f"{name}: {difference_text(measured, expected)}"


def difference_text(measured: np.ndarray, expected: np.ndarray) -> str:
    """Say how far values of a device are from modelled ones: the largest errors, and where they are."""
    found, modelled = (np.asarray(a).astype(np.float64) for a in (measured, expected))
    finite = np.isfinite(found) & np.isfinite(modelled)
    other = ~finite & ~((found == modelled) | (np.isnan(found) & np.isnan(modelled)))
    with np.errstate(all="ignore"):
        error = np.where(finite, np.abs(found - modelled), 0.0)
        relative = np.where(finite & (modelled != 0), error / np.abs(modelled), 0.0)
    text = "device and simulator agree in every bit"
    if error.size and error.max() > 0:
        at, worst = (np.unravel_index(int(e.argmax()), e.shape) for e in (error, relative))
        text = (
            f"device against simulator: max abs error {error[at]:.3g} at {[*map(int, at)]} ({found[at]:.6g}, modelled"
            f" {modelled[at]:.6g}), max rel error {relative[worst]:.3g} at {[*map(int, worst)]}"
        )
    if other.any():
        at = np.unravel_index(int(other.argmax()), other.shape)
        where = f"{int(other.sum())} elements are NaN or infinite on one of both, the first at {[*map(int, at)]}"
        text = f"{where}: {found[at]:.6g}, modelled {modelled[at]:.6g}; {text}"
    return text


def runs_folder(options: Choices) -> Path:
    """Return the folder of all runs on a device."""
    if options.device_runs == "user":
        return _cache() / "device_runs"
    return Path(options.device_runs).expanduser().absolute()  # a child works in another folder


def _cache() -> Path:
    import platformdirs  # late: only runs on a device need it

    return Path(platformdirs.user_cache_dir("nki_lab", appauthor=False))


def _say(line: str) -> None:
    """Print what a child printed, where the cell's own errors go, so that results stay alone on the other stream."""
    print(line, file=sys.stderr, flush=True)


def _call(
    compiled: CompiledKernel,
    arrays: Sequence[np.ndarray],
    options: Choices,
    retrace: Retrace | None,
) -> Call:
    """Return what the device is to run."""
    source, kernel = compiled.source, compiled.kernel
    if retrace is None or not isinstance(source, SourceKernel):
        raise ToolchainError(
            f"{kernel.name} comes from a file that holds a program of nki_lab, and a device needs the kernel's text",
            help="call the kernel itself on the device",
        )
    dialect = source.dialect
    files = KernelFiles(retrace.source, dialect, retrace.args, retrace.kwargs)
    return Call(
        name=kernel.name,
        files=files,
        package=dialect.root,
        arrays=[np.array(array) for array in arrays],
        inputs=[storage.name for storage in kernel.inputs],
        outputs=[view.dtype.host for view in kernel.outputs],
        grid=tuple(options.grid or ()),
        lnc=1 + len(compiled.others),
        schedule=[[name, before] for name, before in options.schedule],
        place=(source.place,),
    )


# -- what there is ---------------------------------------------------------------------------------------------------

#: Seconds for which what was found is taken as still there, so that a loop of calls looks once.
_KNOWN_S = 30.0
_latest: dict[tuple[str, ...], tuple[float, Toolchain]] = {}


def _toolchain(options: Choices) -> Toolchain:
    """Return what runs kernels on a device here; NoDevice or PackageMissing with all that was looked for."""
    key = (os.environ.get("PATH", ""), options.neuron_python, options.runner_python)
    when, toolchain = _latest.get(key, (-_KNOWN_S, None))
    if toolchain is None or time.monotonic() - when > _KNOWN_S:
        report = probe.probe(choices=options).require()
        runner = report.runner
        toolchain = Toolchain(
            python=Path(report.packages.python),
            versions=report.packages.versions,
            modules=frozenset(name for name, there in report.packages.modules.items() if there),
            tools=report.tools,
            chip=report.chip,
            cores=tuple(core for device in report.devices for core in device.cores),
            loader=(Path(runner.python), runner.runner) if runner.runner else None,
        )
        _latest.clear()
        _latest[key] = time.monotonic(), toolchain
    if options.core not in toolchain.cores:
        raise NoDevice(
            f"there is no core {options.core}: the devices have {', '.join(map(str, toolchain.cores))}",
            help="choose one of them with --core",
        )
    visible = os.environ.get("NEURON_RT_VISIBLE_CORES", "")
    if re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", visible):
        spans = [part.partition("-") for part in visible.split(",")]
        if not any(int(first) <= options.core <= int(last or first) for first, _, last in spans):
            raise NoDevice(
                f"core {options.core} is not one of NEURON_RT_VISIBLE_CORES={visible}",
                help="choose one of these with --core",
            )
    return toolchain
