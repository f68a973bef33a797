"""Each message of the official tools that a run meets ends it with the error that it means, and frees the device."""

import json
import subprocess

import numpy as np
import pytest

import nki_lab
from nki_lab import errors
from nki_lab import language as nl
from nki_lab.api import nki
from tests.hardware.standins import Machine, contract

RUNS = [
    name
    for name, message in contract()["messages"].items()
    if message["stage"] not in ("capture", "view")
]
PROFILES = [
    name for name, message in contract()["messages"].items()
    if message["stage"] in ("capture", "view") and "with_flag" not in message and "tool" not in message
]  # fmt: skip
X = np.random.default_rng(41).standard_normal((128, 24)).astype(np.float32)


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Make a machine whose runs are kept in its folder."""
    machine = Machine(tmp_path_factory.mktemp("machine"), ls="instance", runner="")
    with pytest.MonkeyPatch.context() as patch:
        machine.install(patch)
        patch.setenv("NKI_LAB_DEVICE_RUNS", str(machine.root / "runs"))
        yield machine


def users(machine):
    rows = json.loads(
        subprocess.run(["neuron-ls", "-j"], capture_output=True, env=machine.environ).stdout
    )
    return [user for row in rows for user in row["neuron_processes"]]


@pytest.mark.thorough
@pytest.mark.parametrize("name", RUNS)
def test_a_message_ends_a_run_with_its_error(machine, name):
    machine.plant(name)
    message = contract()["messages"][name]
    with pytest.raises(errors.ToolchainError) as raised:
        nki_lab.run(doubled, X, backend="neuron")
    assert type(raised.value).__name__ == message["becomes"]
    told = [*message["lines"], message.get("error", "")]
    assert any(line and line[:100] in note for line in told for note in raised.value.notes)
    assert users(machine) == []
    machine.plant("")


@pytest.mark.thorough
@pytest.mark.parametrize("name", PROFILES)
def test_a_message_ends_a_capture_with_its_error(machine, name):
    machine.plant("")
    result = nki_lab.run(doubled, X, backend="neuron")
    machine.plant(name)
    with pytest.raises(errors.ToolchainError) as raised:
        assert result.profile
    assert type(raised.value).__name__ == contract()["messages"][name]["becomes"]
    assert users(machine) == []
    machine.plant("")
