"""The stand-in of the package `nki` 0.6: kernels run standalone on NumPy arrays."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import nki_lab
from nki_lab.dialects import NKI
from tests.hardware.standin import device
from tests.hardware.standin.machine import Machine

# Read when the package is imported, as the official one does.
_ARTIFACTS = os.environ.get("NKI_ARTIFACTS_DIR", "")


class Kernel:
    """A kernel that is compiled and executed when it is called."""

    def __init__(self, machine: Machine, function: Callable[..., Any], lnc: int = 1) -> None:
        self.machine, self.function, self.lnc = machine, function, lnc
        self.__name__ = function.__name__
        self.ours = nki_lab.jit(function)

    def __getitem__(self, lnc: int) -> Kernel:
        return Kernel(self.machine, self.function, lnc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        machine = self.machine
        if any(isinstance(value, list) for value in (*args, *kwargs.values())):
            machine.fail("lists", "")
        arrays = [a for a in (*args, *kwargs.values()) if isinstance(a, np.ndarray)]
        if not arrays:
            raise RuntimeError(f"{self.__name__}: no arrays among the arguments")
        folder = Path(_ARTIFACTS or tempfile.mkdtemp(prefix="nki"))
        neff = device.compile_kernel(
            machine, self.ours[self.lnc], args, kwargs, folder / machine.contract["nki-0.6"]["neff"]
        )
        try:
            machine.initialise()
            if int(os.environ.get("NEURON_LOGICAL_NC_CONFIG") or self.lnc) != self.lnc:
                machine.fail("lnc", "")
            program = device.Program(machine, neff)
            inputs = program.kernel.inputs(*args, **kwargs)
            execution = program.run(dict(zip(program.inputs, inputs, strict=True)))
        finally:
            if not _ARTIFACTS:
                shutil.rmtree(folder, ignore_errors=True)
        for array, written in zip(arrays, execution.written, strict=False):
            if array.shape == written.shape and array.flags.writeable:
                array[...] = written
        return execution.outputs[0] if len(execution.outputs) == 1 else tuple(execution.outputs)


def become(name: str, machine: Machine) -> None:
    """Make a module the package: its names, and its modules, which are those of nki_lab."""
    machine.stage("import")
    package = sys.modules[name]
    contract = machine.contract["nki-0.6"]

    def jit(fn: Any = None, **keywords: Any) -> Any:
        if set(keywords) & set(contract["refused"]):
            machine.fail("platform-target", "")
        if set(keywords) & set(contract["ignored"]):
            warnings.warn("nki.jit ignores mode", DeprecationWarning, stacklevel=2)
        return (lambda f: Kernel(machine, f)) if fn is None else Kernel(machine, fn)

    def simulate(kernel: Any) -> Any:
        return nki_lab.simulate(getattr(kernel, "ours", kernel))

    vars(package).update(jit=jit, simulate=simulate)
    put_modules(package, name, NKI.modules)


def put_modules(package: Any, name: str, modules: Any) -> None:
    """Give a package the modules of nki_lab under their official names."""
    for official, home in modules.items():
        if official != name and official.startswith(f"{name}."):
            sys.modules[official] = module = import_module(home)
            parent, _, last = official.rpartition(".")
            if parent == name:
                setattr(package, last, module)
