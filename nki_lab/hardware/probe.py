"""Finds out what there is to run a kernel on a device: devices, tools, packages, and who uses the devices.

    report = probe()
    report.is_usable      a device, and packages that can compile for it
    report.rungs          the ladder: what was found at each rung, and what to install where something is missing

Each rung is asked without starting the Neuron Runtime and without importing a Neuron package: the first keeps a core,
and the second may take a minute (general/nki/getting_started.rst@0521004c). A tool that does not answer is ended.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nki_lab.choices import Choices
from nki_lab.errors import NoDevice, PackageMissing
from nki_lab.hardware.diagnose import diagnose
from nki_lab.targets import get_target, target_names

#: A tool that takes longer than this to say what there is does not answer.
SECONDS = 5.0
#: The tools, the newer of two that do the same first.
TOOLS = ("neuron-ls", "neuron-explorer", "neuron-profile", "neuron-bench")
#: Distributions whose versions are reported, from setup-env.rst and the pages of nrtpy.
DISTRIBUTIONS = (
    "nki", "neuronx-cc", "nrtpy", "spike", "torch-neuronx", "torch-xla", "jax-neuronx", "libneuronxla", "nki-library",
)  # fmt: skip
#: What can run a NEFF from Python, the documented one first.
RUNNERS = ("nrtpy", "spike")

#: Variables that change what a device or compiler does, from configuration-guide.rst and environment-variables.rst.
VARIABLES = (
    "NEURON_PLATFORM_TARGET_OVERRIDE", "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES",
    "NEURON_RT_EXEC_TIMEOUT", "NEURON_RT_ENABLE_DGE_NOTIFICATIONS", "NEURON_RT_INSPECT_ENABLE", "NEURON_CC_FLAGS",
    "NKI_SIMULATOR", "NKI_ARTIFACTS_DIR", "NKI_DEBUG_INFO", "TORCH_NEURONX_NEFF_CACHE_DIR", "NEURON_COMPILE_CACHE_URL",
)  # fmt: skip

#: More cores than a device has.
MOST_CORES = 1024

_SETUP = "awsdocs-neuron.readthedocs-hosted.com/en/latest/nki/get-started/setup-env.html"
_ENVIRONMENTS = "aws_neuronx_venv_*"


class Places(NamedTuple):
    """Where the system keeps what is looked for."""

    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    tools: Path = Path("/opt/aws/neuron/bin")
    environments: Path = Path("/opt")


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder.

    Attributes:
        name: what was looked for.
        found: True, False, or None for what is only worth knowing.
        text: what was found.
        help: what to install or do.
    """

    name: str
    found: bool | None
    text: str
    help: str = ""


@dataclass(frozen=True)
class User:
    """A process that holds cores of a device."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"


@dataclass(frozen=True)
class Device:
    """A device: its number, its logical cores, and who holds them."""

    number: int
    cores: tuple[int, ...]
    lnc: int | None = None
    memory_bytes: int | None = None
    instance_type: str = ""
    users: tuple[User, ...] = ()


@dataclass(frozen=True)
class Packages:
    """What an interpreter has.

    Attributes:
        python: the interpreter.
        versions: distribution -> its version.
        modules: module -> whether it can be found.
        problem: why the interpreter gave no answer; "" where it did.
    """

    python: str
    versions: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, bool] = field(default_factory=dict)
    problem: str = ""

    @property
    def generation(self) -> str:
        """The generation of NKI: "nki", "beta2", "beta1", or "" where there is none."""
        if self.modules.get("nki"):
            return "nki" if _numbers(self.versions.get("nki", "")) >= (0, 3) else "beta2"
        return "beta1" if self.modules.get("neuronxcc.nki") else ""

    @property
    def runner(self) -> str:
        """The module that runs a NEFF from Python; "" where there is none."""
        return next((name for name in RUNNERS if self.modules.get(name)), "")


@dataclass(frozen=True)
class Report:
    """What there is.

    Attributes:
        rungs: the ladder, from the devices to the packages.
        devices: what is known of each device.
        chip: name of the target that the devices are; "" where nothing tells.
        lnc: the logical-core configuration of the devices; None where nothing tells.
        tools: tool -> its file.
        packages: of the interpreter that compiles.
        runner: of the interpreter that has nrtpy or spike.
    """

    rungs: tuple[Rung, ...]
    devices: tuple[Device, ...]
    chip: str
    lnc: int | None
    tools: Mapping[str, Path]
    packages: Packages
    runner: Packages

    @property
    def is_usable(self) -> bool:
        """Whether a kernel can be compiled for a device here, and run on it."""
        return bool(self.devices) and self.packages.generation in ("nki", "beta1")

    @property
    def users(self) -> tuple[User, ...]:
        """The processes that hold cores."""
        return tuple(dict.fromkeys(user for device in self.devices for user in device.users))

    def require(self) -> Report:
        """Return the report; raise NoDevice or PackageMissing with the ladder where no device can be used."""
        if self.is_usable:
            return self
        notes = [f"{rung.name}: {rung.text}" for rung in self.rungs if rung.found is not None]
        if not self.devices:
            missing = next((r for r in self.rungs if r.found is False and r.help), None)
            help = missing.help if missing else "run it with --backend simulator"
            if not any(rung.found for rung in self.rungs):
                help = f"run it with --backend simulator; on a Trainium or Inferentia2 instance, {help}"
            raise NoDevice("no Neuron device was found", notes=notes, help=help)
        has = self.packages.generation
        what = "nki 0.1 and 0.2 do not run kernels on NumPy arrays" if has else "no NKI package"
        raise PackageMissing(f"{what} ({self.packages.python})", notes=notes, help=_install("nki"))


def probe(places: Places | None = None, choices: Choices | None = None) -> Report:
    """Look for devices, tools and packages, and return what there is.

    Args:
        places: where the system keeps them; by default where Linux does.
        choices: name the interpreters; what is chosen now by default.
    """
    places, choices = places or Places(), choices or Choices.current()
    tools = {name: path for name in TOOLS if (path := find_tool(name, places))}
    rung, devices = _neuron_ls(tools.get("neuron-ls"), places)
    rungs = [rung]
    files = sorted(
        path.name for path in _listed(places.dev) if re.fullmatch(r"neuron\d+", path.name)
    )
    has_files = bool(files)
    device_help = "without them, tools find nothing: in a container, pass --device=/dev/neuron0"
    rungs.append(Rung("device files", has_files, ", ".join(files) or "none", device_help))
    described = _sysfs(places)
    if not devices:
        devices = described
    driver = _read(places.sys / "module/neuron/version")
    driver_help = "load the driver: sudo modprobe neuron; or install aws-neuronx-dkms"
    is_loaded = bool(described) or (places.sys / "module/neuron").is_dir()
    told = f"version {driver}" if driver else "loaded" if is_loaded else "not loaded"
    rungs.append(Rung("driver", is_loaded, told, driver_help))
    product = _read(places.sys / "devices/virtual/dmi/id/product_name")
    instance = next((d.instance_type for d in (*devices, *described) if d.instance_type), "")
    if devices and not (_chip(instance) or _chip(product)) and "neuron-ls" in tools:
        instance = _heading(tools["neuron-ls"])
    chip = _chip(instance) or _chip(product)
    rungs.append(Rung("instance", bool(chip) or None, instance or product or "unknown"))
    for name in TOOLS[1:]:
        path = tools.get(name)
        is_needed = name == "neuron-explorer" and "neuron-profile" not in tools
        found = True if path else False if is_needed else None
        help = "install aws-neuronx-tools" if is_needed else ""
        rungs.append(Rung(name, found, str(path or "not installed"), help))
    packages = _packages(choices.neuron_python)
    rungs += _told(packages, places)
    runner = _packages(choices.runner_python) if choices.runner_python else packages
    runs = f"{runner.runner} {runner.versions.get(runner.runner, '')}".strip()
    rungs.append(
        Rung(
            "nrtpy or spike",
            True if runs else None,
            f"{runs}, {runner.python}" if runs else f"neither, {runner.python}",
            "install nrtpy in an environment of its own, and name its Python in NKI_LAB_RUNNER_PYTHON",
        )
    )
    seen = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    if seen:
        rungs.append(Rung("environment", None, ", ".join(seen)))
    lnc = next((device.lnc for device in devices if device.lnc), None)
    return Report(tuple(rungs), devices, chip, lnc, tools, packages, runner)


def users() -> tuple[User, ...]:
    """Return the processes that hold cores now; nothing where neuron-ls is missing or does not tell."""
    devices = _neuron_ls(find_tool("neuron-ls", Places()), Places())[1]
    return tuple(dict.fromkeys(user for device in devices for user in device.users))


# -- devices ---------------------------------------------------------------------------------------------------------


def find_tool(name: str, places: Places) -> Path | None:
    """Return where an official tool is, on PATH or in the folder of the tools; None where it is in neither."""
    path = shutil.which(name) or shutil.which(name, path=str(places.tools))
    return Path(path) if path else None


def _neuron_ls(tool: Path | None, places: Places) -> tuple[Rung, tuple[Device, ...]]:
    """Ask neuron-ls for the devices."""
    name = "neuron-ls"
    if tool is None:
        help = "install aws-neuronx-tools; it is looked for on PATH and in /opt/aws/neuron/bin"
        return Rung(name, False, "not installed", help), ()
    answer = output_of([str(tool), "--json-output"])
    if answer.code is None:
        help = "look for a process that hangs: ps aux | grep neuron; or load the driver again"
        return Rung(name, False, answer.stderr or f"gave no answer within {SECONDS:g} s", help), ()
    if answer.code:
        error = diagnose(answer.stderr + answer.stdout, tool=name, code=answer.code)
        return Rung(name, False, error.message, error.help), ()
    try:
        document = json.loads(answer.stdout) if answer.stdout.strip() else []
        devices = tuple(_device(row) for row in _rows(document))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        told = answer.stdout.strip().splitlines()
        return Rung(
            name, False, f"cannot be read: {told[-1][:200]}", "install aws-neuronx-tools again"
        ), ()
    if not devices:
        help = (
            "this instance has no Neuron device, or its driver is not loaded: sudo modprobe neuron"
        )
        return Rung(name, False, "no device", help), ()
    return Rung(name, True, _summary(devices)), devices


def _heading(tool: Path) -> str:
    """Return the instance type that neuron-ls prints above its table, where its JSON does not tell it."""
    told = re.search(r"^instance-type: *(\S+)", output_of([str(tool)]).stdout, re.M)
    return told[1] if told else ""


def _rows(document: Any) -> Iterable[Mapping[str, Any]]:
    """Return the devices of what neuron-ls prints: a list, which some versions wrap."""
    if isinstance(document, dict):
        document = document.get("neuron_devices", [])
    if not isinstance(document, list):
        raise TypeError("neuron-ls prints a list")
    return document


def _device(row: Mapping[str, Any]) -> Device:
    cores = row.get("neuroncore_ids")
    number = int(row["neuron_device"])
    if cores is None:
        cores = _cores(number, int(row["nc_count"]))
    users = tuple(
        User(int(process["pid"]), str(process.get("command", "")))
        for process in row.get("neuron_processes") or []
        if "pid" in process
    )
    lnc, memory = row.get("logical_neuroncore_config"), row.get("memory_size")
    return Device(
        number,
        tuple(map(int, cores)),
        None if lnc is None else int(lnc),
        None if memory is None else int(memory),
        str(row.get("instance_type") or ""),
        users,
    )


def _cores(device: int, count: int) -> tuple[int, ...]:
    """Return the numbers of the cores of a device that tells only how many it has."""
    if not 0 <= count <= MOST_CORES:
        raise ValueError(f"a device has no {count} cores")
    return tuple(range(device * count, (device + 1) * count))


def _summary(devices: Sequence[Device]) -> str:
    cores = sum(len(device.cores) for device in devices)
    text = f"{len(devices)} device{'s' * (len(devices) > 1)}, {cores} logical cores"
    if lnc := next((device.lnc for device in devices if device.lnc), None):
        text += f" (LNC {lnc})"
    users = dict.fromkeys(str(user) for device in devices for user in device.users)
    return text + (f", used by {', '.join(users)}" if users else "")


def _sysfs(places: Places) -> tuple[Device, ...]:
    """Return the devices that the driver describes."""
    devices = []
    for folder in _listed(places.sys / "devices/virtual/neuron_device"):
        named = re.fullmatch(r"neuron(\d+)", folder.name)
        count = _read(folder / "core_count")
        if named is None or not count.isdecimal() or int(count) > MOST_CORES:
            continue
        number, instance = int(named[1]), _read(folder / "info/architecture/instance_type")
        devices.append(Device(number, _cores(number, int(count)), instance_type=instance))
    return tuple(sorted(devices, key=lambda device: device.number))


def _chip(name: str) -> str:
    """Return the target of an instance type such as trn2.3xlarge; "" for other machines."""
    family = re.match(r"[a-z]+\d+", name.lower())  # the driver says Trn1
    return get_target(family[0]).name if family and family[0] in target_names() else ""


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip()[:200]
    except OSError:
        return ""


# -- packages --------------------------------------------------------------------------------------------------------


def _installed(distributions: Sequence[str], runners: Sequence[str]) -> dict[str, Any]:
    """Return what this interpreter has; looking for a module imports none, not even its package."""
    # Also run by itself in another interpreter, of any version of Python.
    import importlib.machinery
    import importlib.metadata
    import os
    import sys

    versions = {}
    for name in distributions:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    path = [
        folder for folder in sys.path if folder
    ]  # what lies in the working directory is not installed
    find = importlib.machinery.PathFinder.find_spec
    modules = {name: find(name, path) is not None for name in ("nki", *runners)}
    compiler = find("neuronxcc", path)
    inside = compiler.submodule_search_locations if compiler else None
    modules["neuronxcc.nki"] = any(os.path.isdir(os.path.join(p, "nki")) for p in inside or ())
    return {"versions": versions, "modules": modules}


def _packages(python: str | None) -> Packages:
    """Ask an interpreter what it has; None is the one that runs this."""
    if not python:
        return Packages(sys.executable, **_installed(DISTRIBUTIONS, RUNNERS))
    ask = f"print(json.dumps({_installed.__name__}({DISTRIBUTIONS!r}, {RUNNERS!r})))"
    parts = (
        "from __future__ import annotations",
        "import json",
        inspect.getsource(_installed),
        ask,
    )
    answer = output_of([python, "-c", "\n".join(parts)])
    try:
        told = json.loads(answer.stdout)
        return Packages(python, dict(told["versions"]), dict(told["modules"]))
    except (ValueError, TypeError, KeyError):
        told = answer.stderr.strip().splitlines() or [f"no answer within {SECONDS:g} s"]
        return Packages(python, problem=told[-1][:200])


def _told(packages: Packages, places: Places) -> list[Rung]:
    """Return the rungs of the packages that compile kernels."""
    environments = [str(path / "bin/python") for path in places.environments.glob(_ENVIRONMENTS)]
    help = _install("nki")
    if environments:
        help = (
            f"name an environment that has them: NKI_LAB_NEURON_PYTHON={sorted(environments)[-1]}"
        )
    names = {"nki": "NKI", "beta2": "NKI", "beta1": "NKI Beta 1 (neuronxcc.nki)"}
    generation = packages.generation
    version = packages.versions.get(
        "neuronx-cc" if generation == "beta1" else "nki", "of unknown version"
    )
    found = f"{names[generation]} {version}" if generation else "no NKI package"
    if generation == "beta2":
        found += ", which runs kernels on no NumPy arrays"
        help = "install nki 0.3 or newer"
    found += f", {packages.python}"
    if packages.problem:
        found, help = (
            f"{packages.python} does not answer: {packages.problem}",
            "name a Python that can be started in NKI_LAB_NEURON_PYTHON",
        )
    rungs = [Rung("Neuron packages", generation in ("nki", "beta1"), found, help)]
    others = [f"{n} {v}" for n, v in packages.versions.items() if n not in (*RUNNERS, "nki")]
    if others:
        rungs.append(Rung("beside them", True, ", ".join(others)))
    return rungs


def _install(distribution: str) -> str:
    where = f"from the Neuron package index ({_SETUP})"
    return f"install {distribution} {where}, or name an environment in NKI_LAB_NEURON_PYTHON"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


# -- tools -----------------------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What a tool printed, and its exit code; None for one that did not end in time, or could not be started."""

    stdout: str
    stderr: str
    code: int | None


def output_of(command: Sequence[str], seconds: float = SECONDS) -> Answer:
    """Run a tool to its end, and end it and its children where that takes too long."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Answer("", str(error), None)
    try:
        stdout, stderr = process.communicate(timeout=seconds)
        return Answer(stdout, stderr, process.returncode)
    except BaseException as error:
        # Its children hold the pipes, and are in a session of their own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return Answer("", "", None)
    finally:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
