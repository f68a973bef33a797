"""What there is to run a kernel on a device is found without starting the runtime, and without importing a package."""

import time
from pathlib import Path

import pytest

from nki_lab.errors import NoDevice, PackageMissing
from nki_lab.explain import doctor
from nki_lab.explain.doctor import examine
from nki_lab.hardware import probe as probing
from nki_lab.hardware.probe import Places, User, output_of, probe
from tests.hardware.standins import Machine, contract


def places(machine: Machine) -> Places:
    return Places(
        machine.sys, machine.dev, machine.root / "no tools", machine.root / "no environments"
    )


def rung(report, name):
    return {rung.name: rung for rung in report.rungs}[name]


@pytest.mark.parametrize(
    ("chip", "variant"),
    [("inf2", "fields"), ("trn1", "instance"), ("trn2", "wrapper"), ("trn3", "fields")],
)
def test_devices_are_read_from_what_neuron_ls_prints(tmp_path, monkeypatch, chip, variant):
    machine = Machine(tmp_path, chip=chip, ls=variant, devices=2, generation="", runner="").install(
        monkeypatch
    )
    monkeypatch.setenv("NKI_LAB_NEURON_PYTHON", "/bin/false")
    machine.occupy(pid=17, command="python other.py", cores=(1,))
    report = probe(places(machine))
    facts = contract()["chips"][chip]
    each = facts["cores"] // facts["lnc"]
    assert [device.cores for device in report.devices] == [
        tuple(range(each)),
        tuple(range(each, 2 * each)),
    ]
    assert report.lnc == facts["lnc"]
    assert report.chip == {"inf2": "trn1"}.get(chip, chip)
    assert report.users == (User(17, "python other.py"),)
    assert rung(report, "neuron-ls").text == (
        f"2 devices, {2 * each} logical cores (LNC {facts['lnc']}), used by process 17 (python other.py)"
    )
    assert not report.is_usable
    assert not machine.calls("import")


@pytest.mark.parametrize(
    ("generation", "found", "text"),
    [
        ("nki-0.6", "nki", "NKI 0.6.0"),
        ("nki-0.2", "beta2", "NKI 0.2.0, which runs kernels on no NumPy arrays"),
        ("beta1", "beta1", "NKI Beta 1 (neuronxcc.nki) 2.21.18209"),
        ("", "", "no NKI package"),
    ],
)
def test_generations_are_told_apart_and_nothing_is_imported(
    tmp_path, monkeypatch, generation, found, text
):
    runner = "nrtpy" if generation == "beta1" else ""
    machine = Machine(tmp_path, generation=generation, runner=runner).install(monkeypatch)
    machine.plant("hang", stage="import")  # whoever imports the package waits ten minutes
    start = time.perf_counter()
    report = probe(places(machine))
    assert time.perf_counter() - start < 5
    assert report.packages.generation == found
    assert rung(report, "Neuron packages").text == f"{text}, {machine.python}"
    assert report.runner.runner == runner
    assert report.is_usable is (found in ("nki", "beta1"))
    if report.is_usable:
        assert report.require() is report
    else:
        with pytest.raises(PackageMissing, match=r"do not run kernels|no NKI package"):
            report.require()


def test_nothing_is_there(tmp_path, monkeypatch):
    machine = Machine(
        tmp_path, "", devices=0, ls="", tools=(), runner="", has_devices=False
    ).install(monkeypatch)
    monkeypatch.delenv("NKI_LAB_NEURON_PYTHON")
    monkeypatch.setattr(
        probing.subprocess, "Popen", None
    )  # nothing is started where nothing is there
    start = time.perf_counter()
    report = probe(places(machine))
    assert time.perf_counter() - start < 1
    with pytest.raises(NoDevice) as error:
        report.require()
    assert (
        error.value.help
        == "run it with --backend simulator; on a Trainium or Inferentia2 instance, install aws-neuronx-tools;"
        " it is looked for on PATH and in /opt/aws/neuron/bin"
    )
    assert "neuron-ls: not installed" in error.value.notes
    assert report.chip == ""
    environment = tmp_path / "no environments" / "aws_neuronx_venv_pytorch_2_9"
    environment.mkdir(parents=True)
    help = rung(probe(places(machine)), "Neuron packages").help
    assert (
        help == f"name an environment that has them: NKI_LAB_NEURON_PYTHON={environment}/bin/python"
    )


def test_a_driver_without_tools_is_seen(tmp_path, monkeypatch):
    machine = Machine(tmp_path, "", ls="", tools=(), runner="", chip="trn1").install(monkeypatch)
    report = probe(places(machine))
    assert [device.cores for device in report.devices] == [(0, 1)]
    assert (report.chip, rung(report, "device files").text, rung(report, "driver").text) == (
        "trn1", "neuron0", "version 2.23.0",
    )  # fmt: skip
    assert rung(report, "neuron-explorer").help == "install aws-neuronx-tools"


def test_an_empty_list_is_no_device(tmp_path, monkeypatch):
    machine = Machine(tmp_path, "", ls="empty", has_devices=False, runner="").install(monkeypatch)
    report = probe(places(machine))
    assert report.devices == ()
    assert "its driver is not loaded" in rung(report, "neuron-ls").help


def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path, monkeypatch):
    monkeypatch.setattr(probing, "SECONDS", 0.3)
    machine = Machine(tmp_path, "", runner="").install(monkeypatch)
    alive = tmp_path / "alive"
    (machine.bin / "neuron-ls").write_text(f"#!/bin/sh\n(sleep 1; touch '{alive}') &\nwait\n")
    monkeypatch.setattr(probing.output_of, "__defaults__", (0.3,))
    start = time.perf_counter()
    report = probe(places(machine))
    assert time.perf_counter() - start < 2
    assert rung(report, "neuron-ls").text == "gave no answer within 0.3 s"
    time.sleep(max(0, 1.2 - (time.perf_counter() - start)))
    assert not alive.exists()


def test_an_interpreter_that_does_not_start_is_told(tmp_path, monkeypatch):
    machine = Machine(tmp_path, "", runner="").install(monkeypatch)
    monkeypatch.setenv("NKI_LAB_NEURON_PYTHON", "/no/python")
    text = rung(probe(places(machine)), "Neuron packages").text
    assert text == "/no/python does not answer: [Errno 2] No such file or directory: '/no/python'"
    assert output_of(["/no/python"]).code is None


def test_the_doctor_shows_each_rung_and_fails_for_none(tmp_path, monkeypatch):
    machine = Machine(tmp_path).install(monkeypatch)
    checks = {check.name: check for check in examine().checks}
    assert checks["device"].found == "trn2 0"
    assert checks["- Neuron packages"].ok is True
    assert [c for c in checks.values() if c.ok is False] == []
    (machine.bin / "neuron-ls").unlink()
    checks = {check.name: check for check in doctor._device()}
    assert checks["device"].ok is None
    assert checks["- neuron-ls"].help.startswith("install aws-neuronx-tools")
    assert not any(check.ok is False for check in checks.values())


def test_the_doctor_tells_no_one_without_a_device_what_to_install(tmp_path, monkeypatch):
    machine = Machine(tmp_path, "", devices=0, ls="", tools=(), runner="", has_devices=False)
    machine.install(monkeypatch)
    monkeypatch.delenv("NKI_LAB_NEURON_PYTHON")
    monkeypatch.setattr(doctor, "probe", lambda: probe(places(machine)))
    device, *rungs = doctor._device()
    assert (device.ok, device.found) == (None, "none was found")
    assert {(rung.ok, rung.help) for rung in rungs} == {(None, "")}
    assert [rung.name for rung in rungs][:3] == ["- neuron-ls", "- device files", "- driver"]


def test_what_neuron_ls_says_is_explained(tmp_path, monkeypatch):
    machine = Machine(tmp_path, "", runner="", has_devices=False, tools=()).install(monkeypatch)
    monkeypatch.setenv("NKI_LAB_NEURON_PYTHON", "/bin/false")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "2-3")
    machine.plant("no-device", stage="ls")
    report = probe(places(machine))
    assert rung(report, "neuron-ls").text == "no Neuron device is available"
    assert rung(report, "neuron-ls").help.startswith("load the driver: sudo modprobe neuron")
    assert "NEURON_RT_VISIBLE_CORES=2-3" in rung(report, "environment").text
    (machine.bin / "neuron-ls").write_text("#!/bin/sh\necho '{\"neuron_devices\": [{}]}'\n")
    assert rung(probe(places(machine)), "neuron-ls").text.startswith("cannot be read")


@pytest.mark.parametrize(
    "text",
    ["null", "3", '"x"', "[1]", '[{"neuron_device": "x"}]', '[{"neuron_device": 0, "nc_count": 1e12}]',
     '[{"neuron_device": 0, "neuroncore_ids": "ab"}]', '[{"neuron_device": 0, "nc_count": Infinity}]',
     '[{"neuron_device": 0, "nc_count": 2, "neuron_processes": 5}]', "[" * 100_000, "no JSON", "\x00"],
)  # fmt: skip
def test_whatever_neuron_ls_prints_the_probe_says_that_it_cannot_be_read(monkeypatch, text):
    answer = probing.Answer(text, "", 0)
    monkeypatch.setattr(probing, "output_of", lambda *_: answer)
    told, devices = probing._neuron_ls(Path("neuron-ls"), Places())
    assert (told.found, devices) == (False, ())
    assert told.text.startswith("cannot be read") and len(told.text) < 250
