"""Tests that a terminal shows how far long work is, and that programs never read any of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.long_kernel import LONG

ROOT = Path(__file__).parents[2]
COMMAND = ("run", "long.py", "--input", "a=ones:128x8", "--arg", "passes=250_000", "--json")

pytestmark = pytest.mark.slow


def run(folder: Path, stderr: int) -> subprocess.CompletedProcess[bytes]:
    (folder / "long.py").write_text(LONG)
    return subprocess.run(
        [sys.executable, "-m", "nki_lab", *COMMAND],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=120,
    )


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no terminals to be had")
def test_a_terminal_shows_how_far_work_is(tmp_path: Path):
    terminal, end = os.openpty()
    shown: list[bytes] = []

    def read() -> None:  # a terminal that nobody reads is soon full
        with suppress(OSError):  # its other end is closed
            while part := os.read(terminal, 1 << 12):
                shown.append(part)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    done = run(tmp_path, end)
    os.close(end)
    reader.join(30)
    os.close(terminal)
    assert "long: simulating" in b"".join(shown).decode()
    assert json.loads(done.stdout)["kernel"] == "long"


@pytest.mark.thorough
def test_a_file_gets_nothing_of_it(tmp_path: Path):
    done = run(tmp_path, subprocess.PIPE)
    assert done.stderr == b""
    assert json.loads(done.stdout)["kernel"] == "long"
