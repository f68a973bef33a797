"""Checks whether a class could begin on this machine.

What the doctor examines, and beside it what a class needs: the kernel that notebooks get, JupyterLab that starts and
answers, a folder that can be written, memory, and one notebook of the workshop that runs.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from nki_lab.choices import PROGRESS
from nki_lab.cli.lab import jupyter_command
from nki_lab.cli.workshop_files import SOLUTIONS, copy_workshop
from nki_lab.errors import NkiError
from nki_lab.exercises.catalog import workshop_folder
from nki_lab.explain.doctor import Check, Examination, examine, install_command

#: The notebook that is run: short, with kernels, checks and solved exercises.
NOTEBOOK = Path(SOLUTIONS) / "01_first_kernel.ipynb"
#: What a learner needs: JupyterLab takes some 140 MiB, a kernel 50 to 300 MiB by what it runs; a copy of the notebooks.
MEMORY_BYTES, DISK_BYTES = 2**29, 100 * 2**20
_PACKAGES = ("jupyterlab", "notebook", "nbclient")
_PORT = 8888
_SECONDS = 60


def examine_for_class(folder: Path) -> Examination:
    """Examine this installation and machine for a class whose notebooks will lie in `folder`."""
    checks = [Check("install with", None, install_command("nki-lab[workshop]"))]
    checks += [*_packages(), _kernel(), _folder(folder), _disk(folder), _memory(), _cores()]
    return examine((*checks, _port(), _server(), _notebook()))


def _packages() -> Iterator[Check]:
    for name in _PACKAGES:
        try:
            yield Check(name, True, metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Check(name, False, "not installed", install_command(name))


def _kernel() -> Check:
    """Look at the kernel that notebooks are run by: often it is that of another environment."""
    if find_spec("jupyter_client") is None:
        return Check("notebook kernel", False, "none", install_command("ipykernel"))
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        python = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return Check("notebook kernel", False, "no python3", install_command("ipykernel"))
    # A name without a path is this Python: Jupyter replaces it when it starts the kernel.
    is_this_python = (
        os.sep not in python or Path(python).resolve() == Path(sys.executable).resolve()
    )
    outcome = f"python3 runs {sys.executable if is_this_python else python}"
    help = f"nki_lab is not installed there: {python} -m pip install 'nki-lab[workshop]'"
    return Check("notebook kernel", is_this_python, outcome, help)


def _folder(folder: Path) -> Check:
    name = "folder"
    there = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=there):
            return Check(name, True, f"{there.resolve()} can be written")
    except OSError as error:
        help = "name a folder of yours: nki-lab workshop --check DIR"
        return Check(name, False, f"{there.resolve()}: {error.strerror}", help)


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(_existing(folder)).free
    return Check("disk", free > DISK_BYTES, f"{free / 2**30:.1f} GiB free", "make room")


def _memory() -> Check:
    free = available_memory()
    if free is None:
        return Check("memory", None, "this system does not say how much is free")
    needed = f"a learner with JupyterLab and one kernel needs {MEMORY_BYTES / 2**30:.1f} GiB"
    outcome = f"{free / 2**30:.1f} GiB free; {needed}"
    return Check(
        "memory", free >= MEMORY_BYTES or None, outcome, "close other programs and kernels"
    )


def available_memory() -> int | None:
    """Return the bytes that programs here may still take, of the machine or its container."""
    limits = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(int(line.split()[1]) * 1024)
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        limits.append(limit - int((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no container, or no limit
        pass
    return min(limits, default=None)


def _cores() -> Check:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Check("cores", None, str(count))


def _port() -> Check:
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", _PORT))
    except OSError as error:
        outcome = f"{_PORT} on 127.0.0.1: {error.strerror}; JupyterLab takes the next one"
        return Check("port", None, outcome)
    return Check("port", True, f"{_PORT} on 127.0.0.1 is free")


def _server() -> Check:
    """Start JupyterLab without a browser, and ask whether it is there."""
    name = "JupyterLab"
    if find_spec("jupyterlab") is None:
        return Check(name, False, "not installed", install_command("jupyterlab"))
    token = secrets.token_hex(16)
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        options = ["--no-browser", f"--port={port}", f"--IdentityProvider.token={token}"]
        start = time.monotonic()
        with (Path(folder) / "log").open("w+") as log:
            process = subprocess.Popen(
                jupyter_command(Path(folder), options), stdout=log, stderr=subprocess.STDOUT
            )
            try:
                if _answers(process, f"http://127.0.0.1:{port}/lab?token={token}"):
                    return Check(name, True, f"answers after {time.monotonic() - start:.0f} s")
                log.seek(0)
                last = (log.read().strip().splitlines() or ["no message"])[-1]
            finally:
                process.terminate()
                process.wait()
    return Check(name, False, "does not start", last)


def _answers(process: subprocess.Popen[bytes], address: str) -> bool:
    # Settings for a proxy are not for this machine itself.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with opener.open(address, timeout=5) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False
        except OSError:
            time.sleep(0.2)
    return False


def _notebook() -> Check:
    """Run a notebook of the workshop, in a copy that is thrown away."""
    if find_spec("nbclient") is None:
        return Check("workshop", False, "nbclient is not installed", install_command("nbclient"))
    from nki_lab.cli import notebook_file

    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            copied = copy_workshop(workshop_folder(), Path(folder), solutions=True)
            os.environ[PROGRESS.env] = "none"  # it is not the user who solves them
            executed = notebook_file.execute(Path(folder) / NOTEBOOK, _SECONDS)
    except NkiError as error:
        return Check("workshop", False, error.message.splitlines()[0], "please report this")
    count = sum(path.suffix == ".ipynb" and len(path.parts) == 1 for path in copied.new)
    ran = f"{executed.cells} cells of {NOTEBOOK.name} ran in {time.monotonic() - start:.0f} s"
    return Check("workshop", True, f"{count} notebooks; {ran}")
