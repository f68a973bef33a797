"""Tests that the code passes ruff, mypy and the import contracts: what `make check` runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
COMMANDS = ["ruff check .", "ruff format --check .", "mypy", "lint-imports --no-logo"]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_code_passes(command: str) -> None:
    tool, *words = command.split()
    outcome = subprocess.run(
        [BIN / tool, *words],
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert outcome.returncode == 0, f"{command}\n{outcome.stdout}"
