"""Machines made of stand-ins: the official tools and packages, and devices, as they are seen from outside.

    machine = Machine(tmp_path, generation="nki-0.6", chip="trn2")
    machine.install(monkeypatch)            # PATH, and the interpreters that our settings name
    machine.plant("oob")                    # a message of contract.yaml, or "hang" or "killed"
    machine.change(value_error=1e-3, time_ratios={"vector": 1.2})

All is made from `contract.yaml`. The stand-ins run kernels on nki_lab's simulator, in their own processes: values are
right, and times are those of the model, unless a test asks for others. A process that has started the runtime holds its
cores until it ends.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TOOLS = ("neuron-ls", "neuron-explorer", "neuron-profile", "neuron-bench")
#: What can be planted beside the messages of the contract, and the stage at which it occurs.
FAULTS = {"hang": "execute", "killed": "execute"}
#: Generation -> the packages in its environment -> the module of `tests.hardware.standin` that each becomes.
PACKAGES = {
    "nki-0.6": {"nki": "nki06"},
    "nki-0.2": {"nki": "nki02"},
    "beta1": {"neuronxcc.nki": "beta1"},
    "nrtpy": {"nrtpy": "nrtpy"},
    "spike": {"spike": "nrtpy"},
    "": {},
}


@cache
def contract() -> dict[str, Any]:
    """Return contract.yaml."""
    return yaml.safe_load((Path(__file__).parent / "contract.yaml").read_text("utf-8"))


class Machine:
    """A machine with devices, tools and packages.

    Args:
        root: an empty folder for it.
        generation: "nki-0.6", "nki-0.2", "beta1", or "" for an environment without any.
        chip: "inf2", "trn1", "trn2" or "trn3".
        devices: how many.
        lnc: the logical-core configuration; that of the chip by default.
        ls: the variant of what neuron-ls prints: "fields", "instance", "wrapper", "empty"; "" for no neuron-ls.
        tools: the tools that are installed beside it.
        runner: "nrtpy" or "spike" in an environment of its own, or "".
        has_devices: whether /dev has them.

    Attributes:
        python: the interpreter of the environment with the packages.
        runner_python: that of the one with nrtpy or spike; None where there is none.
        sys, dev: folders that stand for /sys and /dev.
    """

    def __init__(
        self,
        root: Path,
        generation: str = "nki-0.6",
        chip: str = "trn2",
        devices: int = 1,
        lnc: int | None = None,
        ls: str = "fields",
        tools: tuple[str, ...] = TOOLS[1:],
        runner: str = "nrtpy",
        has_devices: bool = True,
    ) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        facts = contract()["chips"][chip]
        self._state: dict[str, Any] = {
            "generation": generation, "chip": chip, "devices": devices, "lnc": lnc or facts["lnc"],
            "ls": ls or "fields", "fault": None, "busy": [], "value_error": 0.0, "time_ratios": {}, "nan": False,
            "time_unit": "ns",
        }  # fmt: skip
        (root / "contract.json").write_text(json.dumps(contract()), "utf-8")
        self._write()
        (root / "cores").mkdir(exist_ok=True)
        self.sys, self.dev, self.bin = root / "sys", root / "dev", root / "bin"
        for folder in (self.sys, self.dev, self.bin):
            folder.mkdir(exist_ok=True)
        self.python = self._environment("venv", generation)
        self.runner_python = self._environment("venv-runner", runner) if runner else None
        for tool in (*(("neuron-ls",) if ls else ()), *tools):
            self._tool(tool)
        if has_devices:
            self._make_devices(facts)

    # -- for tests ---------------------------------------------------------------------------------------------------

    @property
    def environ(self) -> dict[str, str]:
        """What the process of a notebook on this machine has in its environment."""
        variables = {
            "PATH": f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "NKI_LAB_NEURON_PYTHON": str(self.python),
            "XDG_CACHE_HOME": str(self.root / "cache"),
        }
        if self.runner_python:
            variables["NKI_LAB_RUNNER_PYTHON"] = str(self.runner_python)
        return variables

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Machine:
        """Set the environment of this process."""
        for name, value in self.environ.items():
            monkeypatch.setenv(name, value)
        return self

    def change(self, **state: Any) -> None:
        """Change the machine: value_error, time_ratios, nan, time_unit, lnc, devices, ls."""
        assert state.keys() <= self._state.keys(), state
        self._state |= state
        self._write()

    def plant(self, name: str, stage: str = "", tool: str = "", times: int | None = None) -> None:
        """Let a message of the contract, "hang" or "killed" occur from now on, or only `times` times; "" for none."""
        if not name:
            self.change(fault=None)
            return
        message = contract()["messages"].get(name, {})
        fault = {
            "name": name,
            "stage": stage or message.get("stage") or FAULTS[name],
            "tool": tool or message.get("tool", ""),
            "with_flag": message.get("with_flag", ""),
            "times": times,
        }
        self.change(fault=fault)

    def occupy(
        self, pid: int = 113985, command: str = "python train.py", cores: tuple[int, ...] = (0,)
    ) -> None:
        """Let another process hold cores."""
        self.change(busy=[{"pid": pid, "command": command, "cores": list(cores)}])

    def calls(self, tool: str = "") -> list[dict[str, Any]]:
        """Return the calls of the tools and packages so far: tool, arguments, environment, pid."""
        path = self.root / "calls.jsonl"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        calls = [json.loads(line) for line in lines]
        return [call for call in calls if not tool or call["tool"] == tool]

    # -- making ------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        new = self.root / "machine.new"
        new.write_text(json.dumps(self._state), "utf-8")
        new.replace(self.root / "machine.json")

    def _environment(self, name: str, packages: str) -> Path:
        """Make an environment as `python -m venv` does, whose site-packages also show nki_lab to the stand-ins."""
        home = self.root / name
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = home / "lib" / version / "site-packages"
        site.mkdir(parents=True, exist_ok=True)
        (home / "bin").mkdir(exist_ok=True)
        base = Path(sys._base_executable)  # type: ignore[attr-defined]
        (home / "pyvenv.cfg").write_text(
            f"home = {base.parent}\ninclude-system-site-packages = false\n"
        )
        python = home / "bin" / "python"
        python.symlink_to(base)
        own = sysconfig.get_path("purelib")
        (site / "standin.pth").write_text(f"{own}\n{ROOT}\n")
        for distribution, release in contract()["packages"].get(packages, {}).items():
            folder = site / f"{distribution.replace('-', '_')}-{release}.dist-info"
            folder.mkdir()
            text = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {release}\n"
            (folder / "METADATA").write_text(text)
        for module, standin in PACKAGES[packages].items():
            folder = site
            for part in module.split("."):
                folder = folder / part
                folder.mkdir()
                (folder / "__init__.py").write_text("")
            (folder / "__init__.py").write_text(
                "from tests.hardware.standin.machine import Machine, forget_choices\n"
                "forget_choices()\n"
                f"from tests.hardware.standin.{standin} import become\n"
                f"become(__name__, Machine({str(self.root)!r}))\n"
            )
        return python

    def _tool(self, tool: str) -> None:
        module = {"neuron-ls": "neuron_ls"}.get(tool, "tools")
        script = self.root / f"{tool}.py"
        script.write_text(
            f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            f"from tests.hardware.standin.{module} import main\n"
            "from tests.hardware.standin.machine import Machine, forget_choices\n"
            "forget_choices()\n"
            f"main(Machine({str(self.root)!r}){'' if tool == 'neuron-ls' else f', {tool!r}'})\n"
        )
        # neuron-ls needs no packages; without them, Python starts at once.
        python = f"'{self.python}' " + ("-IS" if tool == "neuron-ls" else "-I")
        path = self.bin / tool
        path.write_text(f"#!/bin/sh\nexec {python} '{script}' \"$@\"\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def _make_devices(self, chip: dict[str, Any]) -> None:
        facts = contract()["sysfs"]
        values = {
            "core_count": chip["cores"],
            "connected_devices": "",
            "info/architecture/arch_type": chip["arch_type"],
            "info/architecture/device_name": chip["device_name"],
            "info/architecture/instance_type": chip["family"],
        }
        for number in range(self._state["devices"]):
            (self.dev / f"neuron{number}").touch()
            folder = self.sys / facts["devices"] / facts["device"].format(device=number)
            for name in facts["files"]:
                file = folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{values[name]}\n")
        others = {
            facts["product_name"]: chip["instance_type"],
            facts["driver_version"]["path"]: "2.23.0",
        }
        for name, value in others.items():
            file = self.sys / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
