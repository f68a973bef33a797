"""Tests that the self-test sees what is wrong."""

import json
import sys

import pytest

from nki_lab.errors import NkiError
from nki_lab.explain import doctor
from nki_lab.explain.doctor import Check, examine


def found(name: str) -> Check:
    return {check.name: check for check in examine().checks}[name]


def test_this_installation_is_fit():
    examination = examine((Check("kernel", True, "here"),))
    assert examination.failed == ()
    examination.require()
    assert "ok      kernel               here" in examination.text().splitlines()


def test_a_small_kernel_is_run():
    assert found("simulator").found.startswith("a small kernel gives the right values")


def test_the_small_kernel_runs_on_the_simulator_whatever_backend_is_chosen(monkeypatch):
    monkeypatch.setenv("NKI_LAB_BACKEND", "neuron")
    assert found("simulator").ok is True


def test_it_says_which_python_it_is_about_and_how_to_install_for_that_one(monkeypatch):
    assert found("Python").found.endswith(f", {sys.executable}")
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: ["nothing-of-this-name>=3"])
    missing = found("nothing-of-this-name")
    assert missing.ok is False
    assert missing.help == f"{sys.executable} -m pip install 'nothing-of-this-name>=3'"


def test_wrong_values_are_seen(monkeypatch: pytest.MonkeyPatch):
    def first_only(a, b):
        return doctor._sum(a, a)

    monkeypatch.setattr(doctor, "_KERNEL", first_only)
    assert found("simulator").ok is False


def test_a_target_that_does_not_exist_is_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn0")
    examination = examine()
    assert [check.name for check in examination.failed] == ["target"]
    assert "FAILED  target" in examination.text()
    with pytest.raises(NkiError, match="not fit to work: target"):
        examination.require()


def test_the_extension_is_looked_for_where_jupyter_looks(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path))
    folder = tmp_path / "labextensions" / "nki-lab"
    folder.mkdir(parents=True)
    package = folder / "package.json"
    package.write_text(json.dumps({"name": "nki-lab", "version": "9.8.7"}))
    assert found("JupyterLab extension") == Check("JupyterLab extension", True, "9.8.7, enabled")
    (tmp_path / "labconfig").mkdir()
    config = tmp_path / "labconfig" / "page_config.json"
    config.write_text(json.dumps({"disabledExtensions": {"nki-lab": True, "other": False}}))
    assert found("JupyterLab extension").found == "9.8.7, disabled"
    config.write_text(json.dumps({"disabledExtensions": {"nki-lab": False}}))
    assert found("JupyterLab extension").ok is True
    package.write_text("{")
    assert found("JupyterLab extension").ok is False
