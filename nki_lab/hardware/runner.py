"""Runs and times a kernel on a device with whatever official package is there, each time in a child process.

    nki 0.3 or newer    a call of the kernel with NumPy arrays compiles and executes
    neuronxcc.nki       nki.baremetal, and nki.benchmark for times
    nrtpy, spike        load a NEFF that an earlier run has compiled, and execute or time it
    neuron-bench        times a NEFF

Times come from the device's counters or from neuron-bench, never from a clock of Python.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.errors import DeviceBusy, DeviceMemory, NkiError, PackageMissing, ToolchainError
from nki_lab.hardware import probe
from nki_lab.hardware.child import Ended, run_child, unwritable
from nki_lab.hardware.diagnose import diagnose, without_harmless
from nki_lab.hardware.kernel_files import KernelFiles
from nki_lab.hardware.run_folder import RunFolder, compiled_before, core_lock
from nki_lab.source import printable

#: Seconds that a compilation and an execution may take together where no time limit is given.
LIMIT_S = 900.0
_WORKER = Path(__file__).with_name("worker.py")
_TOOLS, _LIBRARIES = str(probe.Places().tools), "/opt/aws/neuron/lib"
#: The module of the official decorators, by its package.
NAMESPACES = {"nki": "nki", "neuronxcc": "neuronxcc.nki"}
#: How a kernel of a package is run: a name in `worker.ACTIONS`.
_APIS = {"nki": "standalone", "neuronxcc": "baremetal"}
_PRINTED = re.compile(r"\bp(\d{1,3})\s*[:=]?\s+(\d+(?:\.\d+)?)")
#: Variables that change what is compiled, besides the kernel.
_FLAGS = ("NEURON_CC_FLAGS", "NEURON_RT_STOCHASTIC_ROUNDING_EN", "NKI_PRECISE_FP")
#: Variables that would have the official package do something else than run on the device.
_CLEARED = ("NKI_SIMULATOR", "NEURON_RT_NUM_CORES", "NEURON_RT_INSPECT_ENABLE")


@dataclass(frozen=True)
class Toolchain:
    """What a run on a device needs, as it was found.

    Attributes:
        python: the interpreter with the official package.
        versions: distribution -> its version in that interpreter.
        modules: the official modules that it finds.
        tools: official tool -> where it is.
        chip: name of the target of the device; "" where nothing tells.
        cores: numbers of its logical cores.
        loader: interpreter with nrtpy or spike, and which of them; None where there is none.
    """

    python: Path
    versions: Mapping[str, str]
    modules: frozenset[str]
    tools: Mapping[str, Path]
    chip: str
    cores: tuple[int, ...]
    loader: tuple[Path, str] | None = None


@dataclass(frozen=True)
class Call:
    """One call of a kernel, as it goes to the device.

    Attributes:
        name: of the kernel.
        files: its text and arguments.
        package: the official package that its names are of, "nki" or "neuronxcc".
        arrays: the inputs, in order.
        inputs: their names.
        outputs: NumPy dtype of each result.
        grid: shape of the launch grid.
        lnc: physical cores of the logical core.
        schedule: waits between named instructions.
        place: of the kernel in the author's text.
    """

    name: str
    files: KernelFiles
    package: str
    arrays: Sequence[np.ndarray]
    inputs: Sequence[str]
    outputs: Sequence[np.dtype[Any]]
    grid: tuple[int, ...] = ()
    lnc: int = 1
    schedule: Any = ()
    place: Any = ()


@dataclass(frozen=True)
class Latency:
    """Measured times of one execution of a kernel on a device.

    Attributes:
        name: of the kernel.
        origin: which device, such as "measured on trn2, core 0".
        percentiles_us: time in us that so many percent of the executions stayed below.
        warmup, iterations: executions before, and those that were timed.
        source: who measured: "nki.benchmark", "neuron-bench", "nrtpy", "spike" or "profile".
    """

    name: str
    origin: str
    percentiles_us: Mapping[int, float]
    warmup: int
    iterations: int
    source: str

    @property
    def latency_ns(self) -> int:
        """The median, in ns."""
        return round(self.percentiles_us[50] * 1000)

    def __repr__(self) -> str:
        shown = ", ".join(f"p{p} {us:,.3f}" for p, us in sorted(self.percentiles_us.items()))
        return printable(
            f"{self.name}: {shown} us, {self.origin} by {self.source}: {self.iterations} executions after"
            f" {self.warmup} to warm up"
        )


@dataclass
class Runner:
    """Runs kernels on one core of a device.

    Attributes:
        toolchain: what it uses.
        chip: name of the target of the device.
        base: folder of all run folders.
        locks: folder of the locks of cores, the same for all notebooks of a user.
        core: number of the logical core.
        seconds: time limit of each child.
        say: is given what children print, and what the author should know meanwhile.
    """

    toolchain: Toolchain
    chip: str
    base: Path
    locks: Path
    core: int = 0
    seconds: float = LIMIT_S
    say: Callable[[str], None] = print

    @property
    def origin(self) -> str:
        """Where what it returns comes from."""
        return f"measured on {self.chip}, core {self.core}"

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self, call: Call) -> tuple[RunFolder, list[np.ndarray], dict[int, np.ndarray]]:
        """Compile and execute; return the folder, the results, and the inputs that the kernel has written by number."""
        api = self._api(call.package)
        folder = RunFolder.new(self.base, call.name)
        try:
            self._request(folder, call)
            key = self._key(call)
            before = compiled_before(self.base, key)
            loader = self.toolchain.loader
            if before is not None and loader is not None:
                request: dict[str, Any] = {
                    "api": "loaded",
                    "neff": str(before),
                    "runner": loader[1],
                }
                result = self._child(folder, call, request, loader[0])
                neff: str | None = str(_kept(folder, before))
            else:
                result = self._child(folder, call, {"api": api}, self.toolchain.python)
                neff = result["neff"]
            folder.note(
                key=key,
                neff=None if neff is None else os.path.relpath(neff, folder.path),
                kernel=call.name,
                origin=self.origin,
                versions=result["versions"],
            )
            outputs = _outputs(folder, call, result["outputs"])
            updated = {
                int(n): _array(folder, described, call.arrays[int(n)].dtype)
                for n, described in result["updated"].items()
            }
        except NkiError as error:
            error.notes += (f"what was sent and printed is in {folder.path}",)
            raise
        finally:
            folder.release()
        return folder, outputs, updated

    def _api(self, package: str) -> str:
        """Return how the official package is called; PackageMissing where it is not there."""
        toolchain, namespace = self.toolchain, NAMESPACES[package]
        if namespace in toolchain.modules:
            return _APIS[package]
        others = sorted(toolchain.modules & {*NAMESPACES.values()})
        raise PackageMissing(
            f"the kernel is written for {namespace}, which {toolchain.python} does not have"
            + f"; it has {' and '.join(others)}" * bool(others),
            help="install it there, or name another interpreter with NKI_LAB_NEURON_PYTHON",
        )

    def _request(self, folder: RunFolder, call: Call) -> None:
        """Write the text of the kernel and its arrays."""
        for name, (_, text) in call.files.sources.items():
            folder.write(name, text)
        for n, array in enumerate(call.arrays):
            folder.write(f"input_{n}.bin", np.ascontiguousarray(array).tobytes())
        folder.note(sources={name: place for name, (place, _) in call.files.sources.items()})

    def _child(
        self, folder: RunFolder, call: Call, asked: Mapping[str, Any], python: Path
    ) -> dict[str, Any]:
        """Have a child process answer a request, and return its result."""
        request = {
            "namespace": NAMESPACES[call.package],
            "name": call.name,
            **call.files.request,
            "arrays": [
                {"file": f"input_{n}.bin", "dtype": a.dtype.name, "shape": list(a.shape)}
                for n, a in enumerate(call.arrays)
            ],
            "inputs": list(call.inputs),
            "grid": list(call.grid),
            "schedule": call.schedule,
            "cores": [self.core],
            "warmup": 0,
            "iters": 0,
            **asked,
        }
        folder.write("request.json", json.dumps(request))
        answer = folder.path / "result.json"
        answer.unlink(missing_ok=True)
        environment = self.environment(folder, call.lnc)
        folder.note(environment=_told(environment), interpreter=str(python))
        command = [str(python), str(_WORKER), str(folder.path)]
        ended = self._locked(command, folder, environment, call.name)
        if answer.is_file():
            result = json.loads(folder.read("result.json"))
            if result["ok"]:
                return dict(result)
            error = result["error"]
            text = f"{ended.output}\n{error['type']}: {error['text']}"
            raise self._diagnosed(text, call, ended)
        raise self._diagnosed(ended.output, call, ended)

    def tool(
        self, command: Sequence[str], call: Call, folder: RunFolder, uses_core: bool = True
    ) -> Ended:
        """Run an official tool in the run folder; ToolchainError where it fails."""
        environment = self.environment(folder, call.lnc)
        run = self._locked if uses_core else self._started
        ended = run(command, folder, environment, call.name)
        if ended.code:
            raise self._diagnosed(ended.output, call, ended, Path(command[0]).name)
        return ended

    def _locked(
        self, command: Sequence[str], folder: RunFolder, environment: Mapping[str, str], who: str
    ) -> Ended:
        """Run a program that uses the core, while no other run of ours does."""
        with core_lock(self.locks, self.core, who, self.say) as lock:
            return self._started(command, folder, environment, who, (lock,))

    def _started(
        self,
        command: Sequence[str],
        folder: RunFolder,
        environment: Mapping[str, str],
        who: str,
        held: Sequence[int] = (),
    ) -> Ended:
        def say(line: str) -> None:
            if without_harmless(line) == line:
                self.say(line)

        if not folder.path.is_dir():
            raise folder.gone("the folder itself")
        return run_child(
            command,
            folder=folder.path,
            environment=environment,
            seconds=self.seconds,
            say=say,
            held=held,
        )

    def _diagnosed(self, text: str, call: Call, ended: Ended, tool: str = "") -> NkiError:
        """Return the error of ours that a failed child stands for."""
        error = diagnose(text, tool=tool, code=ended.code)
        if isinstance(error, (DeviceBusy, DeviceMemory)):
            error = diagnose(text, tool=tool, code=ended.code, users=probe.users())
        error.stack = call.place
        return error

    def environment(self, folder: RunFolder, lnc: int) -> dict[str, str]:
        """Return the variables of a child: all are set before it imports anything."""
        environment = {k: v for k, v in os.environ.items() if k not in _CLEARED}
        for name, folders in (("PATH", _TOOLS), ("LD_LIBRARY_PATH", _LIBRARIES)):
            if os.path.isdir(folders):
                parts = [part for part in (environment.get(name), folders) if part]
                environment[name] = os.pathsep.join(parts)
        return environment | {
            "NEURON_PLATFORM_TARGET_OVERRIDE": self.chip,
            "NEURON_LOGICAL_NC_CONFIG": str(lnc),
            "NEURON_RT_VISIBLE_CORES": str(self.core),
            "NEURON_FRAMEWORK_DEBUG": "1",
            "NKI_ARTIFACTS_DIR": str(folder.path / "artifacts"),
            "NKI_DEBUG_INFO": "True",
            "PYTHONUNBUFFERED": "1",
        }

    def _key(self, call: Call) -> str:
        """Return what tells two compilations apart."""
        facts = [
            call.files.digest,
            [(a.dtype.name, a.shape) for a in call.arrays],
            (self.chip, call.lnc, call.grid, call.schedule),
            sorted(self.toolchain.versions.items()),
            [os.environ.get(name, "") for name in _FLAGS],
        ]
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    # -- timing ----------------------------------------------------------------------------------------------------

    def benchmark(self, call: Call, folder: RunFolder, warmup: int, iters: int) -> Latency:
        """Time executions of what a run has compiled; ToolchainError where nothing is there that can.

        Args:
            call: the call; its arrays are inputs of the timed executions where the tool takes them.
            folder: of the run.
            warmup, iters: executions before, and those that are timed.
        """
        asked = {"warmup": warmup, "iters": iters}
        if call.package == "neuronxcc":
            self._request(folder, call)
            result = self._child(folder, call, {"api": "benchmark", **asked}, self.toolchain.python)
            shares = {int(p): us for p, us in result["percentiles_us"].items()}
            return self._latency(call, shares, warmup, iters, "nki.benchmark")
        neff = neff_of(folder)
        if "neuron-bench" in self.toolchain.tools:
            shares = self._neuron_bench(folder, neff, call, warmup, iters)
            return self._latency(call, shares, warmup, iters, "neuron-bench")
        if self.toolchain.loader is not None:
            python, package = self.toolchain.loader
            self._request(folder, call)
            request = {"api": "loaded", "neff": str(neff), "runner": package, **asked}
            durations = self._child(folder, call, request, python)["durations_us"]
            shares = {
                p: float(np.percentile(durations, p)) for p in (0, 1, 10, 25, 50, 90, 99, 100)
            }
            return self._latency(call, shares, warmup, iters, package)
        raise ToolchainError(
            f"{call.name} cannot be timed on the device: neuron-bench, nrtpy and spike are not installed",
            help="install aws-neuronx-tools, or name an interpreter with nrtpy with NKI_LAB_RUNNER_PYTHON; the time of"
            " one execution is in result.profile",
        )

    def _latency(
        self, call: Call, shares: Mapping[int, float], warmup: int, iters: int, source: str
    ) -> Latency:
        return Latency(call.name, self.origin, shares, warmup, iters, source)

    def _neuron_bench(
        self, folder: RunFolder, neff: Path, call: Call, warmup: int, iters: int
    ) -> dict[int, float]:
        reports = folder.path / "neuron_bench"
        command = [
            str(self.toolchain.tools["neuron-bench"]),
            "exec",
            f"--warmup={warmup}",
            f"--work={iters}",
            "--enable-only-latency",
            "--fixed-nc-count=1",
            f"--output-directory={reports}",
            str(neff),
        ]
        ended = self.tool(command, call, folder)
        return bench_percentiles(reports, ended.output)


def neff_of(folder: RunFolder) -> Path:
    """Return the NEFF of a run; ToolchainError where it has none, or none any more."""
    named = folder.described.get("neff")
    if not named or not (folder.path / named).is_file():
        raise folder.gone(f"the NEFF {named or ''}".rstrip())
    return (folder.path / named).resolve()


def _kept(folder: RunFolder, neff: Path) -> Path:
    """Copy a NEFF into a run folder, so that the folder holds all that belongs to its run."""
    path = folder.path / "artifacts" / neff.name
    try:
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(neff, path)
    except OSError as error:
        raise unwritable(folder.path, error) from None
    return path


def _outputs(
    folder: RunFolder, call: Call, described: Sequence[Mapping[str, Any]]
) -> list[np.ndarray]:
    if len(described) != len(call.outputs):
        raise ToolchainError(
            f"{call.name} returned {len(described)} arrays on the device, and {len(call.outputs)} on the simulator",
            stack=call.place,
            help="return tensors, or tuples, lists and dicts of them",
        )
    pairs = zip(described, call.outputs, strict=True)
    return [_array(folder, each, dtype) for each, dtype in pairs]


def _array(folder: RunFolder, described: Mapping[str, Any], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an array that a child wrote.

    The runtime hands types that NumPy lacks back as bytes or integers of their size: the kernel tells what they are.
    """
    data = np.frombuffer(folder.read(described["file"]), np.uint8).copy()
    if described["itemsize"] != dtype.itemsize:
        try:
            dtype = np.dtype(described["dtype"])
        except TypeError:
            raise ToolchainError(
                f"the device returned {described['dtype']}, and the kernel returns {dtype.name}",
                help="return a tensor of another dtype",
            ) from None
    return data.view(dtype).reshape(described["shape"])


def bench_percentiles(reports: Path, output: str) -> dict[int, float]:
    """Return the percentiles in us that neuron-bench has written or printed; ToolchainError where none are found."""
    texts = []
    if reports.is_dir():
        texts = [file.read_text(encoding="utf-8") for file in sorted(reports.rglob("*.json"))]
    for text in texts:
        try:
            shares = _shares(json.loads(text))
        except ValueError:
            continue
        if shares:
            return shares
    # No page tells what it writes: its table has p50 and p99 in us.
    printed = {int(p): float(us) for p, us in _PRINTED.findall(output)}
    if 50 in printed:
        return printed
    raise ToolchainError(
        "neuron-bench has told no percentiles of the latency that this version of nki_lab can read",
        notes=(f"it printed {output.strip().splitlines()[-1:]}",),
        help="look at its report in the run folder",
    )


def _shares(document: Any) -> dict[int, float]:
    """Return the percentiles of the first table of a document that has a p50."""
    if isinstance(document, Mapping):
        shares = {
            int(name[1:]): float(value)
            for name, value in document.items()
            if name[:1] == "p" and name[1:].isdigit() and isinstance(value, (int, float))
        }
        if 50 in shares:
            return shares
        document = list(document.values())
    if isinstance(document, list):
        for part in document:
            if shares := _shares(part):
                return shares
    return {}


def _told(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a bundle keeps: those of the official tools, and no other of the author's."""
    return {k: v for k, v in environment.items() if k.startswith(("NEURON_", "NKI_"))}
