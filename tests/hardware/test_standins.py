"""The stand-ins do what the contract says, and only in their own processes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.hardware.standins import Machine, contract

KERNEL = """\
import json, sys
import numpy as np
import nki
import nki.language as nl


@nki.jit
def scaled_sum(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.multiply(nl.load(a), 3.0), nl.load(b)))
    return out


a = np.random.default_rng(5).standard_normal((128, 24)).astype(np.float32)
b = np.random.default_rng(6).standard_normal((128, 24)).astype(np.float32)
np.save("a.npy", a)
np.save("b.npy", b)
np.save("out.npy", scaled_sum(a, b))
"""


def call(machine: Machine, *words: object, folder: Path | None = None, **more: str):
    """Run a command of the machine, and return what came of it."""
    return subprocess.run(
        [str(word) for word in words],
        env=machine.environ | more,
        cwd=folder or machine.root,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run and capture a kernel on a machine with perturbed values and times."""
    machine = Machine(tmp_path_factory.mktemp("ran"))
    machine.change(value_error=1e-3, time_ratios={"vector": 2.0, "dma": 1.5})
    (machine.root / "kernel.py").write_text(KERNEL)
    run = call(
        machine,
        machine.python,
        "-I",
        "kernel.py",
        NKI_ARTIFACTS_DIR="art",
        NEURON_RT_VISIBLE_CORES="0",
    )
    assert run.returncode == 0, run.stderr
    captured = call(
        machine, "neuron-explorer", "capture", "-n", "art/kernel.neff", "-s", "profile.ntff", "--profile-nth-exec=2",
        "--save-output", "a", "a.npy", "b", "b.npy",
    )  # fmt: skip
    assert captured.returncode == 0, captured.stderr
    assert captured.stdout.splitlines()[-1] == 'saved output "output_0" as "output_0.2"'
    return machine


@pytest.mark.parametrize("variant", [*contract()["neuron-ls"]["variants"], ""])
def test_neuron_ls_prints_each_variant(tmp_path, variant):
    machine = Machine(tmp_path, ls=variant, generation="", runner="", devices=2)
    machine.occupy(pid=17, cores=(5,))
    if not variant:
        assert not (machine.bin / "neuron-ls").exists()
        return
    start = time.perf_counter()
    text = call(machine, "neuron-ls", "--json-output").stdout
    assert time.perf_counter() - start < 5
    rows = json.loads(text)
    rows = rows["neuron_devices"] if variant == "wrapper" else rows
    assert len(rows) == (0 if variant == "empty" else 2)
    for number, row in enumerate(rows):
        assert row["neuroncore_ids"] == [4 * number + core for core in range(4)]
        assert [user["pid"] for user in row["neuron_processes"]] == [17] * number


def test_values_are_those_of_the_kernel_with_the_error_that_was_asked_for(ran):
    a, b, out = (np.load(ran.root / f"{name}.npy") for name in ("a", "b", "out"))
    wanted = 3 * a + b
    error = np.abs(out - wanted) / np.maximum(np.abs(wanted), 1e-2)
    assert 5e-4 < error.max() < 2e-3
    raw = np.frombuffer((ran.root / "output_0.2").read_bytes(), np.float32).reshape(a.shape)
    assert np.array_equal(raw, out)


def test_a_capture_is_named_by_its_execution(ran):
    assert {path.name for path in ran.root.glob("*.ntff")} == {"profile_exec_2.ntff"}


def test_a_run_of_nothing_leaves_the_cores_free(ran):
    rows = json.loads(call(ran, "neuron-ls", "-j").stdout)
    assert rows[0]["neuron_processes"] == []


def test_this_process_has_no_official_package():
    found = subprocess.run(
        [sys.executable, "-c", "import importlib.util as u; print(u.find_spec('nki'))"],
        capture_output=True, text=True, check=True, env=dict(os.environ),
    )  # fmt: skip
    assert found.stdout == "None\n"
