"""The doctor: checks that this installation works, and says what is missing."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab import __version__
from nki_lab.choices import Choices
from nki_lab.errors import NkiError
from nki_lab.hardware.probe import probe
from nki_lab.source import text_of

_DISTRIBUTION = "nki-lab"
_EXTENSION = "nki-lab"
_PYTHON = (3, 11)
_PACKAGE = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Check:
    """One thing that was examined.

    Attributes:
        name: what it is.
        ok: True when it is as it should be, None when it is only worth knowing.
        found: what was found.
        help: what to do about it.
    """

    name: str
    ok: bool | None
    found: str
    help: str = ""


@dataclass(frozen=True)
class Examination:
    """Everything that was examined."""

    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """Checks that keep nki_lab from working."""
        return tuple(check for check in self.checks if check.ok is False)

    def text(self) -> str:
        """Return one line per check, and what to do where something is missing."""
        marks = {True: "ok", False: "FAILED", None: "note"}
        lines = []
        for check in self.checks:
            lines.append(f"{marks[check.ok]:<7} {check.name:<20} {check.found}")
            if check.help and not check.ok:
                lines.append(f"{'':<8}help: {check.help}")
        return text_of(lines)

    def require(self) -> None:
        """Raise an error that names what failed."""
        if self.failed:
            names = ", ".join(check.name for check in self.failed)
            raise NkiError(f"not fit to work: {names}", help=self.failed[0].help)


def examine(extra: tuple[Check, ...] = ()) -> Examination:
    """Examine Python, packages, the JupyterLab extension, the target, the simulator, and what there is of a device.

    Args:
        extra: what only the caller can see, such as the kind of IPython kernel.
    """
    checks = [_python(), *_packages(), *extra, _extension(), _official(), _target(), _simulator()]
    return Examination((*checks, *_device()))


def install_command(requirement: str) -> str:
    """Return the command that installs a package for this Python, and for no other one."""
    return f"{sys.executable} -m pip install '{requirement}'"


def _python() -> Check:
    wanted = ".".join(map(str, _PYTHON))
    return Check(
        "Python",
        sys.version_info >= _PYTHON,
        f"{platform.python_version()}, {sys.executable}",
        f"nki_lab needs Python {wanted} or newer",
    )


def _packages() -> Iterator[Check]:
    yield Check("nki_lab", True, __version__)
    try:
        wanted = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield Check("installation", None, "not installed with pip; found on the import path")
        return
    for requirement in wanted:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            yield Check(name, True, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Check(name, False, "not installed", install_command(requirement))


def _extension() -> Check:
    name = "JupyterLab extension"
    try:
        from jupyter_core.paths import jupyter_config_path, jupyter_path
    except ImportError:
        return Check(name, None, "Jupyter is not installed", install_command("jupyterlab"))
    for folder in map(Path, jupyter_path("labextensions")):
        try:
            package = json.loads((folder / _EXTENSION / "package.json").read_text("utf-8"))
            if any(_disables(Path(config)) for config in jupyter_config_path()):
                switch_on = f"jupyter labextension enable {_EXTENSION}"
                return Check(name, None, f"{package['version']}, disabled", switch_on)
            return Check(name, True, f"{package['version']}, enabled")
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError) as error:
            return Check(name, False, f"damaged: {type(error).__name__}", "install nki-lab again")
    return Check(
        name,
        None,
        "not installed; cells are not highlighted",
        "install nki_lab with pip, which brings it, instead of using it from its folder",
    )


def _disables(config: Path) -> bool:
    """Return whether a folder of Jupyter's configuration switches the extension off."""
    try:
        page = json.loads((config / "labconfig" / "page_config.json").read_text("utf-8"))
        return bool(page.get("disabledExtensions", {}).get(_EXTENSION))
    except (OSError, ValueError, AttributeError):
        return False


def _official() -> Check:
    spec = find_spec("nki")
    if spec is None or spec.origin is None or spec.origin.startswith(_PACKAGE):
        return Check("import nki", True, "is nki_lab, in %%nki cells and commands")
    return Check("import nki", None, "is the official package outside %%nki cells")


def _target() -> Check:
    try:
        target = Choices.current().chip
    except NkiError as error:
        return Check("target", False, error.message, error.help)
    return Check("target", True, f"{target.name} ({target.core_name})")


def _simulator() -> Check:
    from nki_lab.runtime import run

    left = np.arange(128 * 4, dtype=np.float32).reshape(128, 4)
    right = left[::-1].copy()
    try:
        result = run(_KERNEL, left, right, target="trn2", backend="simulator")
        right_values = np.array_equal(result.outputs[0], left + right)
        time_ns = result.profile.total_ns
    except Exception as error:
        return Check("simulator", False, f"{type(error).__name__}: {error}", "please report this")
    if not right_values or time_ns <= 0:
        return Check("simulator", False, "a small kernel gives wrong values", "please report this")
    return Check("simulator", True, f"a small kernel gives the right values ({time_ns:,} ns)")


def _device() -> Iterator[Check]:
    """Look for a device and what runs kernels on it: most machines have none, so nothing of it is a failure."""
    try:
        report = probe()
    except NkiError as error:
        yield Check("device", None, error.message, error.help)
        return
    help = (
        "" if report.is_usable else "kernels run on the simulator; --backend neuron needs a device"
    )
    names = ", ".join(f"{report.chip or 'device'} {device.number}" for device in report.devices)
    yield Check("device", True if report.is_usable else None, names or "none was found", help)
    # Where nothing is there, nobody wants to know what to install for it.
    is_for_neuron = any(rung.found for rung in report.rungs)
    for rung in report.rungs:
        help = rung.help if is_for_neuron else ""
        yield Check(f"- {rung.name}", True if rung.found else None, rung.text, help)


def _sum(a: Any, b: Any) -> Any:
    import nki_lab.language as nl

    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(result, nl.add(nl.load(a), nl.load(b)))
    return result


_KERNEL = _sum
