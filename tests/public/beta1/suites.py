"""Runs the suites that are published as tests, each in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.public.beta1.trees import DOCUMENTATION, FIRST_SAMPLES, SAMPLES, Tree, environment
from tests.public.nki_library.suite import Outcome

#: Tests of nki-samples that ask for a device, or for its tools, instead of a result.
_ON_DEVICE = re.compile(r"_perf\b|_perf\[|test_neuron_profile")


def published() -> Iterator[tuple[Tree, str]]:
    """Return every suite and file: "" is a whole folder of unittest files."""
    for tree in DOCUMENTATION:
        if tree.path is not None:
            yield tree, ""
    for tree in (SAMPLES, FIRST_SAMPLES):
        if tree.path is not None:
            for file in sorted((tree.path / "test/unit").glob("test_*.py")):
                yield tree, file.name


def outcomes(tree: Tree, file: str = "", before: tuple[str, ...] = ()) -> list[Outcome]:
    """Run the tests of a commit of the documentation, or one file of the unit tests of nki-samples.

    Args:
        tree, file: what is run.
        before: words of Python's command line that stand before the module that runs it.
    """
    assert tree.path is not None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report")
        if tree in DOCUMENTATION:
            command = ["-m", "tests.public.beta1.unittests", str(tree.path / "test"), str(report)]
            # nki_known_issues.rst up to 2.26: "custom data types ... simulate in fp32 precision".
            narrow = {} if "2.29" in tree.name else {"NKI_PRECISE_FP": "0"}
            _run([*before, *command], folder, report, variables=narrow)
            lines = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
            return [Outcome(x["name"], x["outcome"], x["seconds"], x["message"]) for x in lines]
        command = ["-m", "pytest", str(tree.path / "test/unit" / file), f"--junitxml={report}"]
        command += ["-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        command += ["-p", "tests.public.beta1.plugin", f"--rootdir={tree.path}"]
        if tree is SAMPLES:
            command += ["--simulation-only"]
        _run([*before, *command], folder, report, tree.path / "src")
        return list(_of_junit(report))


def _run(
    command: list[str],
    folder: str,
    report: Path,
    *path: Path,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**environment(*path), **variables},
        capture_output=True,
        text=True,
    )
    if not report.exists():
        raise RuntimeError(f"{command} did not run:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


def _of_junit(report: Path) -> Iterator[Outcome]:
    for test in ElementTree.parse(report).iter("testcase"):
        name = f"{test.get('classname', '').rpartition('.')[2]}.{test.get('name')}"
        wrong = next((c for c in test if c.tag in ("failure", "error")), None)
        told = "" if wrong is None else f"{wrong.get('message')}\n{wrong.text}"
        if not _ON_DEVICE.search(name):
            outcome = "passed" if wrong is None else "failed"
            yield Outcome(name, outcome, float(test.get("time", 0)), told)
