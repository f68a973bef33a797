"""Makes folders with the files of one commit of a clone."""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.public.sdk.clone import SAMPLES_VARIABLE, SDK_VARIABLE, root

KERNELS_VARIABLE = "NKI_KERNELS_ROOT"


@dataclass(frozen=True)
class Tree:
    """Files of one commit.

    Attributes:
        name: of the suite.
        variable: environment variable that names the clone, or the folder of clones.
        commit: of the clone.
        folder: of the repository whose files are meant.
        clone: name of the clone in a folder of clones.
    """

    name: str
    variable: str
    commit: str
    folder: str = "."
    clone: str = ""

    @functools.cached_property
    def path(self) -> Path | None:
        """The folder of the files, made when it is first asked for; None without a clone."""
        named = root(self.variable)
        if named is None:
            return None
        clone = named / self.clone
        if (clone / "repo/objects").is_dir():  # a git directory without a work tree
            clone = clone / "repo"
        return _archived(clone, self.commit, self.folder) if clone.is_dir() else None


@functools.cache
def _archived(clone: Path, commit: str, folder: str) -> Path:
    target = Path(tempfile.mkdtemp(dir=_session_folder()))
    command = ["git", "-c", "safe.directory=*", "-C", str(clone), "archive", commit]
    command.append("*.py" if folder == "." else f"{folder}/*.py")  # clones may lack large files
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(target)], input=archive, check=True)
    return target / folder


@functools.cache
def _session_folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="beta1-")
    _KEPT.append(folder)
    return folder.name


_KEPT: list[tempfile.TemporaryDirectory[str]] = []  # removed when the process ends

SDK_2_26 = Tree("sdk 2.26", SDK_VARIABLE, "0521004c", "general/nki")
SDK_2025 = Tree("sdk 2025-10", SDK_VARIABLE, "1db4d74e", "nki")
SDK_2_29 = Tree("sdk 2.29", SDK_VARIABLE, "539a73c5", "nki")
SAMPLES = Tree("samples 2025-12", SAMPLES_VARIABLE, "fc5c69f")
FIRST_SAMPLES = Tree("samples 2.20", SAMPLES_VARIABLE, "5d97201")
DOCUMENTATION = (SDK_2_26, SDK_2025, SDK_2_29)


def environment(*folders: Path) -> dict[str, str]:
    """Return the variables of a process that runs published code with ours."""
    path = [str(Path(__file__).parents[3]), *map(str, folders)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
