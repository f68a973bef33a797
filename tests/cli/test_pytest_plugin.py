"""Tests that the options of the pytest plugin reach the kernels of a test run."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.thorough import first

TEST = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def big(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray((128, 30000), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)]
    for tile in tiles:
        nisa.memset(tile, 1.0)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    for tile in tiles:
        nisa.tensor_copy(total, tile[:, 0:1])
    nisa.dma_copy(out, total)
    return out


def test_big():
    assert (big(np.zeros((128, 1), np.float32)) == 1).all()


def test_older():
    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, dtype=x.dtype)
        nisa.dma_copy(tile, x, dge_mode=2)
        for _ in nl.dynamic_range(4):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert kernel(np.zeros((2, 2), np.float32)).sum() == 16


def test_target():
    found = []

    @nki.jit
    def kernel(x):
        found.append(nisa.get_nc_version().name)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    kernel(np.zeros((1, 1), np.float32))
    assert found == ["gen3"]
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_kernels.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    if not any(e.name == "nki_lab" for e in entry_points(group="pytest11")):
        command += [
            "-p",
            "nki_lab.cli.pytest_plugin",
        ]  # run from the sources, without an installation
    return subprocess.run(
        [*command, *options, "test_kernels.py"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), "HOME": str(folder)},
    )  # fmt: skip


def test_options_reach_kernels(tmp_path):
    done = run(
        tmp_path, "--nki-aliases", "--nki-target", "trn2", "--nki-capacity", "finding", "--nki-version", "0.6",
        "--nki-allow", "NKI206",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    # Findings are warnings in the summary of the run, at the lines of the kernels.
    assert "NkiWarning: dma_copy: dge_mode=2, a raw value" in done.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    first(
        [
            ((), "NKI206"),
            ((), "NKI120"),
            (("--nki-version", "0.6", "--nki-allow", "NKI206", "--nki-max-trips", "3"), "NKI407"),
        ]
    ),
)
def test_an_older_kernel_and_a_long_loop(tmp_path, options, code):
    done = run(tmp_path, "--nki-aliases", "-k", "test_older", *options)
    assert done.returncode == 1
    assert code in done.stdout


def test_without_capacity_the_kernel_does_not_fit(tmp_path):
    done = run(tmp_path, "--nki-aliases", "--nki-target", "trn2", "-k", "test_big")
    assert done.returncode == 1
    assert "NKI301" in done.stdout


def test_without_options_nothing_is_changed(tmp_path):
    done = run(tmp_path)
    assert done.returncode != 0
    assert "No module named 'nki'" in done.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    first(
        [
            (("--nki-target", "trn0"), "ERROR: --nki-target: there is no target `trn0`"),
            (("--nki-capacity", "no"), "ERROR: --nki-capacity: `no` is not one of error, finding"),
            (("--nki-skip", "nope"), "ERROR: --nki-skip: the pass `nope` cannot be left out"),
            (("--nki-allow", "NKI203"), "cannot be allowed"),
            (("--nki-max-trips", "0"), "above 0"),
            (("--nki-version", "0.9"), "ERROR: --nki-version: `0.9` is not one of 0.1"),
        ]
    ),
)
def test_wrong_values_are_told_before_any_test(tmp_path, options, words):
    done = run(tmp_path, *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert words in done.stdout + done.stderr


def test_conftest_files_may_import_nki(tmp_path):
    (tmp_path / "conftest.py").write_text("import nki.language\n")
    done = run(tmp_path, "--nki-aliases", "--nki-target", "trn2", "-k", "test_target")
    assert done.returncode == 0, done.stdout + done.stderr
