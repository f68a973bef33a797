"""Tests that the workflow that `nki-lab validate --github-actions` prints does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook, new_output
from typer.testing import CliRunner

from nki_lab.cli.main import app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def job() -> dict[str, Any]:
    outcome = CliRunner().invoke(app, ["validate", "--github-actions"])
    assert outcome.exit_code == 0
    return yaml.safe_load(outcome.output)["jobs"]["validate"]


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_it_installs_extras_that_exist_on_a_python_that_fits(job: dict[str, Any]):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name, extras = re.fullmatch(r"([\w-]+)\[([\w,]+)\]", job["env"]["NKI_LAB"]).groups()
    assert name == project["name"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    [python] = [s["with"]["python-version"] for s in job["steps"] if "python" in s.get("uses", "")]
    assert f">={python}" == project["requires-python"]
    assert commands(job)[0] == 'python -m pip install "$NKI_LAB"'
    assert all(
        re.fullmatch(r"actions/[a-z-]+@v\d+", s["uses"]) for s in job["steps"] if "uses" in s
    )


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.thorough
def test_its_commands_fail_a_stale_notebook_and_keep_a_report(job: dict[str, Any], tmp_path: Path):
    for name, stored in (("good", "4\n"), ("stale", "5\n")):
        cell = new_code_cell("print(2 + 2)", execution_count=1)
        cell.outputs = [new_output("stream", name="stdout", text=stored)]
        nbformat.write(new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")
    tool = tmp_path / "bin" / "nki-lab"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m nki_lab "$@"\n')
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {k: str(v) for k, v in job["env"].items()}
    environment |= {"PATH": path, "PYTHONPATH": str(ROOT)}
    script = "\n".join(["set -e", *commands(job)[1:]])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True
    )
    assert done.returncode == 1, done.stdout.decode() + done.stderr.decode()
    keep = job["steps"][-1]
    assert keep["if"] == "always()"
    report = ET.parse(tmp_path / keep["with"]["path"])
    failed = [case.get("classname") for case in report.iter("testcase") if len(case)]
    assert failed == ["stale.ipynb"]
    assert len(list(report.iter("testcase"))) == 2
