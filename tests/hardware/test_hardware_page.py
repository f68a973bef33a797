"""Every command of docs/hardware.md does on stand-ins what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from nki_lab.backends import neuron
from nki_lab.choices import Choices
from nki_lab.cli.main import app
from nki_lab.errors import ToolchainError
from nki_lab.targets import get_target
from tests.cli.conftest import Command, command  # noqa: F401
from tests.hardware.standins import Machine

PAGE = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def commands(language: str) -> list[str]:
    return [line for block in blocks(language) for line in block.splitlines()]


#: What the output of a command has, in the order of the page; of one that prints nothing, the file that it leaves.
SAID = {
    "nki-lab doctor": ["neuron-ls", "trn2"],
    "--backend both": ["the result: device against simulator: max abs error"],
    "--show report": ["measured on trn2.3xlarge, core 1"],
    "--bench": ["neuron-bench"],
    "-o exp.parquet": ["measured on trn2.3xlarge", "profile written to exp.parquet"],
    "cp ": [],
    "neuron-explorer capture": [],
    "neuron-explorer view": [],
    "profile exp.json": ["measured on trn2"],
    "profile exp.parquet": ["measured on trn2.3xlarge"],
    "-o modelled.json": ["modelled from public documents"],
    "compare": ["measured / modelled, ", "scalar ACTIVATE", "1.50"],
    "calibrate": ["overlay written to mine.toml", "scalar_fixed_latency_ns"],
    "trn2+mine.toml": ["scaled_exp on trn2+mine.toml: "],
}


def test_what_the_page_installs_is_what_the_official_pages_name() -> None:
    for line in commands("bash"):
        first = line.split()[0]
        assert first in ("python3.11", "pip", "export", "~/runner/bin/pip"), line
    text = "\n".join(commands("bash"))
    for name in (
        "/opt/aws/neuron/bin",
        "aws_neuronx_venv_pytorch_2_9",
        "nrtpy",
    ):
        assert name in text


@pytest.mark.thorough
def test_every_command_does_what_the_page_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,  # noqa: F811
) -> None:
    machine = Machine(tmp_path / "machine", ls="instance")
    machine.change(time_ratios={"scalar": 1.5}, value_error=1e-3)
    machine.install(monkeypatch)
    monkeypatch.setenv("NKI_LAB_DEVICE_RUNS", str(tmp_path / "first"))
    neuron._latest.clear()
    Path("exp.py").write_text(blocks("python")[0], "utf-8")
    told = dict(SAID)
    for line in commands("sh"):
        words = shlex.split(line)
        if words[0] == "export":
            monkeypatch.setenv(*words[1].split("=", 1))
            neuron._latest.clear()
            continue
        if words[0] == "nki-lab":
            done = command(*words[1:])
            output, code = done.output, done.exit_code
        else:
            ended = subprocess.run(
                line, shell=True, env=machine.environ, capture_output=True, text=True
            )
            output, code = ended.stdout + ended.stderr, ended.returncode
        assert code == 0, (line, output)
        for key in [key for key in told if key in line]:
            for part in told.pop(key):
                assert part in output, (line, part, output)
    assert told == {}


@pytest.mark.parametrize("line", [line for line in commands("sh") if line.startswith("nki-lab")])
def test_every_option_of_the_page_exists(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").touch()
    name, *words = shlex.split(line)[1:]
    made = get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]
    assert made.info_name == name


def test_what_only_a_device_confirms_is_asked_with_commands_of_the_page() -> None:
    rows = PAGE.split("## What only a device can confirm")[1].splitlines()
    asked = [part for row in rows for part in re.findall(r"`(nki-lab [^`]*)`", row)]
    known = [re.sub(r" -o \S+| --warmup .*", "", line) for line in commands("sh")]
    assert len(asked) >= 6 and [line for line in asked if line not in known] == []


def test_an_overlay_of_the_devices_chip_is_taken_and_of_another_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Machine(tmp_path / "machine", ls="instance").install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text("[constants]\ndma_start_ns = 812\n")
    device = neuron.Neuron()
    assert device.chip("trn2+mine.toml", Choices.current()) is get_target("trn2+mine.toml")
    with pytest.raises(
        ToolchainError, match=r"compiled for trn1\+mine.toml, and the device is trn2"
    ):
        device.chip("trn1+mine.toml", Choices.current())
