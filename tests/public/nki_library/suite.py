"""Finds the files of nki-library's suite, and runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from nki_lab.errors import RawEnum

ROOT_VARIABLE = "NKI_LIBRARY_ROOT"
#: Commits with which the causes of failures were found -> the version of NKI of their kernels.
COMMITS = {
    "d2ad3a579498d1888aa8740af97fd325dd5f2740": "0.3",
    "ddbca35eaa3a3b5201b530c2015fdb24f7aba2c7": "0.3",  # the tag 2.29, where the kernels of MLP can be imported
    "181b205a45d08f60d07123d674b35782f72a04bc": "0.2",  # the tag 2.28
}
_OURS = Path(__file__).parents[3]
TESTS = "test/integration/nkilib"


@dataclass(frozen=True)
class Run:
    """One file of the suite on one chip: its configurations with MX, or all others."""

    file: str
    target: str
    is_mx: bool = False

    def __str__(self) -> str:
        return f"{self.file.removesuffix('.py')}-{self.target}{'-mx' if self.is_mx else ''}"


@dataclass(frozen=True)
class Outcome:
    """How one configuration ended.

    Attributes:
        outcome: "passed", "failed", "skipped" by their harness, or "slow".
        message: of the failure or of the skip.
    """

    name: str
    outcome: str
    seconds: float
    message: str


def root() -> Path | None:
    """Return the clone, if the environment names one."""
    named = os.environ.get(ROOT_VARIABLE)
    return Path(named).resolve() if named else None


def commit(clone: Path) -> str:
    """Return the commit that is checked out."""
    command = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def runs(clone: Path, target: str = "trn2") -> list[Run]:
    """Return what there is to run: all files with tests on a chip, and on trn3 those with MX, which only it has."""
    found = []
    for file in sorted((clone / TESTS).rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "def test_" in text:
            name = str(file.relative_to(clone / TESTS))
            found.append(Run(name, target))
            if "mx" in text.lower():
                found.append(Run(name, "trn3", is_mx=True))
    return found


def outcomes(clone: Path, run: Run, pick: int = 2, seed: int | None = None) -> list[Outcome]:
    """Run one file of the suite in a process of its own; the clone stays as it is.

    Args:
        pick: configurations of each test function.
        seed: draws them by chance, of any size; without it they are of the smaller half.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "outcomes.jsonl")
        command = [sys.executable, "-m", "pytest", str(clone / TESTS / run.file)]
        command += ["-q", "-c", str(clone / "test/pytest.ini"), "--rootdir", str(clone)]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly"]
        command += ["-o", f"artifacts_dir={folder}", "--output-directory", f"{folder}/out"]
        command += ["--test-mode", "simulation", "--platform-target", run.target]
        command += ["-p", "tests.public.nki_library.plugin", "--outcomes", str(report)]
        command += ["--pick", str(pick), "--nki-target", run.target]
        # Their kernels give dge_mode as integers.
        version = COMMITS.get(commit(clone), "0.3")
        command += ["--nki-version", version, "--nki-allow", RawEnum.code]
        command += ["--draw", str(seed)] if seed is not None else []
        if run.is_mx:  # their generator of MX weights takes minutes, the kernels seconds
            command += ["--mx", "--time-limit", "300"]
        if not any(e.name == "nki_lab" for e in entry_points(group="pytest11")):
            command += ["-p", "nki_lab.cli.pytest_plugin"]
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(clone),
            capture_output=True,
            text=True,
        )
        if done.returncode == 5 or (done.returncode == 0 and not report.exists()):
            return []  # no test for this chip
        if (
            done.returncode not in (0, 1, 2) or not report.exists()
        ):  # 2: the file cannot be imported
            raise RuntimeError(f"{run} did not run:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        lines = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    return [Outcome(x["name"], x["outcome"], x["seconds"], x["message"]) for x in lines]


def environment(clone: Path) -> dict[str, str]:
    path = [str(_OURS), str(clone / "src"), str(clone)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "NEURON_PYTHONHASHSEED": "0",  # what their harness seeds random configurations with
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
