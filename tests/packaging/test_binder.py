"""Tests that Binder would build the repository, and that the workshop runs in what it builds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "workshop" / "solutions" / "01_first_kernel.ipynb"


def test_the_requirements_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = project["dependencies"] + project["optional-dependencies"]["profile"]
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == sorted(expected)


@pytest.mark.slow
@pytest.mark.thorough
def test_binder_builds_it_and_runs_the_workshop() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone, and Binder builds from one")
    python = (ROOT / "binder" / "runtime.txt").read_text().strip().replace("-", "")
    this = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if python != this and shutil.which(python) is None:
        pytest.skip(f"Binder would use {python}, which is not on PATH")
    replay = [sys.executable, ROOT / "binder" / "replay.py", NOTEBOOK]
    outcome = subprocess.run(replay, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    for done in ("workshop --check: ", f"execute {NOTEBOOK.name}: ", "dev container: "):
        assert done in outcome.stdout


def test_the_scripts_can_be_run() -> None:
    for name in ("postBuild", "start"):
        assert os.access(ROOT / "binder" / name, os.X_OK)


def test_start_runs_what_it_is_given_in_the_workshop_with_one_thread() -> None:
    words = ["bash", "-c", 'echo "$OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $0 ${PWD##*/}"', "a b"]
    outcome = subprocess.run([ROOT / "binder" / "start", *words], capture_output=True, text=True)
    assert outcome.stdout == "1 1 a b workshop\n"


def test_the_dev_container_installs_extras_that_exist() -> None:
    made = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    [extras] = re.findall(r"'\.\[([\w,]+)\]'", made["postCreateCommand"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    binder = (ROOT / "binder" / "runtime.txt").read_text().strip().replace("-", ":")
    assert made["image"].endswith(binder)
