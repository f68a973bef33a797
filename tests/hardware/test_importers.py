"""Captures: NEFF and NTFF are paired, the official tool that is there decodes them, and its export is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nki_lab import load_profile
from nki_lab.errors import BadFile, ToolchainError
from nki_lab.hardware import importers
from nki_lab.hardware.neff import read_neff as read_program
from nki_lab.hardware.probe import Places
from nki_lab.profiler.formats.profile_json import to_json
from nki_lab.profiler.profile import Profile
from tests.hardware.standin.files import read_neff, write_neff, write_ntff
from tests.hardware.standins import Machine, contract
from tests.thorough import first
from tests.views.runs import added

from . import neffs


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a NEFF and the NTFF that was captured of it, and another NEFF."""
    folder = tmp_path_factory.mktemp("capture")
    run = added()
    run.compiled.save(folder / "add.nkic")
    program = (folder / "add.nkic").read_bytes()
    (folder / "add.nkic").unlink()
    neff = write_neff(folder / "z.neff", program, run.compiled, contract())
    content = to_json(_measured()).encode()
    write_ntff(folder / "profile.ntff", read_neff(neff, contract())[1], content, contract())
    neffs.write_neff(folder / "another.neff")
    return folder


def _measured() -> Profile:
    modelled = added().profile
    tables = {name: modelled.table(name) for name in ("Instruction", "DmaPacketAggregated", "Flow")}
    about = dict(next(modelled.records("Metadata")).items()) | {"instance_type": "trn2.3xlarge"}
    kept = {name: [value] for name, value in about.items() if value is not None}
    kept["is_simulation"] = [False]
    tables["Metadata"] = kept
    return Profile.from_tables(modelled.target, tables, is_simulation=False, name="add")


@pytest.mark.parametrize("tool", first(importers.TOOLS))
def test_a_capture_is_decoded_by_the_tool_that_is_there(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    machine = Machine(tmp_path / "machine", tools=(tool,), ls="", runner="").install(monkeypatch)
    p = load_profile(capture)
    wanted = _measured()
    for name in ("start_ts", "end_ts"):
        assert p.numbers("Instruction", name).tolist() == wanted.numbers("Instruction", name).tolist()  # fmt: skip
    assert p.origin.startswith("measured on trn2.3xlarge")
    arguments = machine.calls(tool)[-1]["arguments"]
    assert arguments[:5] == ["view", "-n", str(capture / "z.neff"), "-s", str(capture / "profile.ntff")]  # fmt: skip
    assert sorted(file.name for file in capture.iterdir()) == ["another.neff", "profile.ntff", "z.neff"]  # fmt: skip


@pytest.mark.parametrize("name", ["none.ntff", "x" * 5000, "a\0b", ""])
def test_a_name_of_nothing_is_one_sentence(name: str) -> None:
    with pytest.raises(BadFile) as error:
        load_profile(name)
    assert "\n" not in error.value.message
    with pytest.raises(BadFile, match=r"no file|not a file"):
        read_program(name)


def test_without_a_tool_the_command_to_run_is_named(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(importers, "_PLACES", Places(tools=capture))
    with pytest.raises(ToolchainError, match="neither is installed here") as error:
        load_profile(capture / "profile.ntff")
    command = "neuron-explorer view -n z.neff -s profile.ntff --output-format json --output-file profile.json"
    assert command in error.value.help


def test_a_program_that_was_not_captured_is_refused_before_a_tool_is_called(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importers, "output_of", None)
    with pytest.raises(BadFile, match=r"profile\.ntff was not captured of another\.neff"):
        load_profile(capture / "profile.ntff", neff=capture / "another.neff")
    with pytest.raises(BadFile, match="is not a NEFF"):
        load_profile(capture / "profile.ntff", neff=capture / "profile.ntff")
    shutil.copy(capture / "profile.ntff", tmp_path)
    with pytest.raises(BadFile, match=r"not in its folder\n"):
        load_profile(tmp_path / "profile.ntff")
    shutil.copy(capture / "another.neff", tmp_path)
    with pytest.raises(BadFile, match=r"not in its folder; it was not captured of another\.neff"):
        load_profile(tmp_path)
    shutil.copy(capture / "profile.ntff", tmp_path / "profile_exec_2.ntff")
    with pytest.raises(BadFile, match="holds 2 captures"):
        load_profile(tmp_path)
    with pytest.raises(BadFile, match="a compiled program, and no profile") as error:
        load_profile(capture / "z.neff")
    assert "neuron-explorer capture -n z.neff -s profile.ntff" in error.value.help
