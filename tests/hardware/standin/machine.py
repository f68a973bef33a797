"""The machine that stand-ins run on: its devices, what has been planted on it, and who uses its cores.

Only the standard library is imported, so that a tool starts at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn


def forget_choices() -> None:
    """Forget what a notebook has chosen: it is not for the simulator in here."""
    for name in [
        name for name in os.environ if name.startswith("NKI_LAB_") and name != "NKI_LAB_NKI"
    ]:
        del os.environ[name]
    os.environ["NKI_LAB_PROGRESS"] = "none"


class Machine:
    """Read the machine that a test has made."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self._held: list[Any] = []

    def __getitem__(self, name: str) -> Any:
        return json.loads((self.root / "machine.json").read_text("utf-8"))[name]

    @property
    def contract(self) -> dict[str, Any]:
        return json.loads((self.root / "contract.json").read_text("utf-8"))

    @property
    def chip(self) -> dict[str, Any]:
        return self.contract["chips"][self["chip"]]

    @property
    def cores(self) -> int:
        """The logical cores of all devices."""
        return self["devices"] * self.chip["cores"] // self["lnc"]

    def told(self, tool: str, arguments: list[str]) -> None:
        """Note a call, with the variables that it sees."""
        seen = {k: v for k, v in os.environ.items() if k.startswith(("NEURON", "NKI", "XLA"))}
        call = {"tool": tool, "arguments": arguments, "environment": seen, "pid": os.getpid()}
        with open(self.root / "calls.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(call) + "\n")

    # -- cores -------------------------------------------------------------------------------------------------------

    def _file(self, core: int) -> Path:
        return self.root / "cores" / f"nc{core}"

    def user_of(self, core: int) -> dict[str, Any] | None:
        """Return the process that holds a core; one that has ended holds none."""
        for planted in self["busy"]:
            if core in planted["cores"]:
                return planted
        with open(self._file(core), "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                return json.loads(file.read())
        return None

    def initialise(self, tool: str = "") -> list[int]:
        """Do what the runtime does when it starts: take the cores, which stay taken until the process ends."""
        if self._held:
            return [core for core, _ in self._held]
        self.stage("init", tool)
        if not self["devices"]:
            self.fail("no-device", tool)
        wanted = self._wanted()
        for core in wanted:
            taken = None if self.user_of(core) is None else core
            file = open(self._file(core), "a+", encoding="utf-8")  # noqa: SIM115
            try:
                if taken is not None:
                    raise BlockingIOError
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._held = []
                self.fail("busy", tool, {"nc1-nc1": f"nc{wanted[0]}-nc{wanted[-1]}"})
            file.truncate(0)
            file.write(json.dumps({"pid": os.getpid(), "command": " ".join(sys.orig_argv)}))
            file.flush()
            self._held.append((core, file))
        return wanted

    def _wanted(self) -> list[int]:
        visible, number = (
            os.environ.get(f"NEURON_RT_{n}", "") for n in ("VISIBLE_CORES", "NUM_CORES")
        )
        if visible:
            spans = [part.partition("-") for part in visible.split(",")]
            wanted = [c for a, _, b in spans for c in range(int(a), int(b or a) + 1)]
        elif number:
            free = [core for core in range(self.cores) if self.user_of(core) is None]
            wanted = free[: int(number)] or list(range(int(number)))
        else:
            wanted = list(range(self.cores))
        if max(wanted) >= self.cores:
            self.fail("more-cores", "")
        return wanted

    # -- faults ------------------------------------------------------------------------------------------------------

    def stage(self, stage: str, tool: str = "", flags: list[str] = ()) -> None:  # type: ignore[assignment]
        """Let the fault occur that is planted for this stage, if one is."""
        fault = self["fault"]
        if not fault or fault["stage"] != stage or (fault["tool"] or tool) != tool:
            return
        if fault["with_flag"] and fault["with_flag"] not in flags:
            return
        if fault["times"] is not None:
            document = json.loads((self.root / "machine.json").read_text("utf-8"))
            document["fault"]["times"] -= 1
            if document["fault"]["times"] < 0:
                return
            (self.root / "machine.json").write_text(json.dumps(document), "utf-8")
        if fault["name"] == "hang":
            time.sleep(600)
        if fault["name"] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        self.fail(fault["name"], tool)

    def fail(self, name: str, tool: str, instead: dict[str, str] | None = None) -> NoReturn:
        """Print a message of the contract, and raise its exception, or end the tool."""
        message = self.contract["messages"][name]
        texts = [*message["lines"], message.get("error", "")]
        for old, new in (instead or {}).items():
            texts = [text.replace(old, new) for text in texts]
        lines, error = texts[:-1], texts[-1] or texts[-2]
        if tool:
            raise SystemExit(_printed([*lines, *([error] if error not in lines else [])]))
        is_python = message.get("raises") in ("ModuleNotFoundError", "OSError", "TypeError")
        if not is_python:
            _printed(lines)
        raise _exception(message.get("raises", "RuntimeError"))(error)


def _printed(lines: list[str]) -> int:
    print(*lines, sep="\n", file=sys.stderr, flush=True)
    return 1


class NrtError(RuntimeError):
    """The error of the runtime, with the name and number of its status."""


def _exception(name: str) -> type[Exception]:
    kinds = (ModuleNotFoundError, OSError, RuntimeError, TypeError, NrtError)
    return next(kind for kind in kinds if kind.__name__ == name)
