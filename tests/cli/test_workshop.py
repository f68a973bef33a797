"""Tests that `nki-lab workshop` copies the notebooks, and never loses what a learner wrote."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from nki_lab.cli import class_check, lab
from nki_lab.cli import workshop_files as files
from nki_lab.cli.notebook_file import Executed
from nki_lab.cli.workshop_files import copy_workshop
from nki_lab.errors import UsageError
from nki_lab.exercises.catalog import workshop_folder
from nki_lab.explain.doctor import Examination
from tests.cli.conftest import Command

PARTS = ("lesson", "problems", "solutions", "wrong")
OWN, NEWER = "my answer", "a better question"


def notebook(path: Path, source: str, output: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cell = {"cell_type": "code", "source": [source], "metadata": {}, "outputs": [output]}
    path.write_text(json.dumps({"cells": [cell], "nbformat": 4}))


def source_of(path: Path) -> str:
    return "".join(json.loads(path.read_text())["cells"][0]["source"])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a folder as the workshop's is."""
    folder = tmp_path / "source"
    for name in ("00.ipynb", "01.ipynb", "solutions/01.ipynb"):
        notebook(folder / name, f"first {name}")
    lesson = folder / "lessons" / "01"
    lesson.mkdir(parents=True)
    (folder / "pictures").mkdir()
    (folder / "pictures" / "a.svg").write_text("<svg/>")
    for name in ("generate.py", "AUTHORS.md", *(f"lessons/01/{part}.py" for part in PARTS)):
        (folder / name).write_text("")
    return folder


def names(folder: Path) -> list[str]:
    found = [f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file()]
    return sorted(name for name in found if not name.startswith("."))


@pytest.fixture
def target(tmp_path: Path, source: Path) -> Path:
    """Return a first copy."""
    copy_workshop(source, tmp_path / "mine")
    return tmp_path / "mine"


def test_a_learner_gets_notebooks_and_pictures(source: Path, target: Path):
    assert names(target) == ["00.ipynb", "01.ipynb", "pictures/a.svg"]
    again = copy_workshop(source, target)
    assert again == files.Copied()
    copy_workshop(source, target, solutions=True)
    assert names(target) == ["00.ipynb", "01.ipynb", "pictures/a.svg", "solutions/01.ipynb"]


@pytest.mark.parametrize("update", [False, True])
def test_what_a_learner_wrote_is_kept(source: Path, target: Path, update: bool):
    notebook(target / "01.ipynb", OWN)
    notebook(target / "notes.ipynb", "mine alone")
    assert copy_workshop(source, target, update=update).own == [Path("01.ipynb")]
    notebook(source / "01.ipynb", NEWER)
    copied = copy_workshop(source, target, update=update)
    assert copied.kept == [Path("01.ipynb")]
    assert source_of(target / "01.ipynb") == OWN
    assert source_of(target / "notes.ipynb") == "mine alone"
    assert copied.beside == ([Path("01.new.ipynb")] if update else [])
    if update:
        assert source_of(target / "01.new.ipynb") == NEWER
        notebook(target / "01.new.ipynb", "also mine")
        copy_workshop(source, target, update=True)
        assert source_of(target / "01.new.ipynb") == "also mine"


def test_running_a_notebook_is_no_change_and_a_newer_one_is_taken_when_asked(source, target):
    notebook(target / "01.ipynb", "first 01.ipynb", output="4")
    notebook(source / "01.ipynb", NEWER)
    copied = copy_workshop(source, target)
    assert (copied.older, copied.own, copied.kept) == ([Path("01.ipynb")], [], [])
    assert source_of(target / "01.ipynb") == "first 01.ipynb"
    assert copy_workshop(source, target, update=True).updated == [Path("01.ipynb")]
    assert source_of(target / "01.ipynb") == NEWER
    assert copy_workshop(source, target, update=True) == files.Copied()


@pytest.mark.parametrize("text", [None, "{", "[]", '{"files": 3}'])
def test_without_a_readable_list_all_that_differs_is_the_learners(source, target, text):
    listed = target / ".nki_lab_workshop.json"
    listed.unlink() if text is None else listed.write_text(text)
    notebook(source / "01.ipynb", NEWER)
    assert copy_workshop(source, target, update=True).kept == [Path("01.ipynb")]
    assert source_of(target / "01.ipynb") == "first 01.ipynb"


def test_damaged_notebooks_and_links_are_the_learners_too(source: Path, target: Path, tmp_path):
    (target / "00.ipynb").write_text("{")
    (target / "01.ipynb").unlink()
    (target / "01.ipynb").symlink_to(tmp_path / "nowhere")
    assert copy_workshop(source, target, update=True).own == [Path("00.ipynb"), Path("01.ipynb")]
    assert (target / "00.ipynb").read_text() == "{"
    assert (target / "01.ipynb").is_symlink()


def test_what_is_no_folder_to_write_to_is_refused(source: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot copy the workshop to .*file: File exists"):
        copy_workshop(source, tmp_path / "file")
    with pytest.raises(UsageError, match="is the workshop itself"):
        copy_workshop(source, source)


def test_the_command_copies_ours_says_so_and_opens_it(command: Command, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(lab, "run_until_stopped", lambda words: started.append(words) or 0)
    done = command("workshop", tmp_path / "w", "--no-browser")
    assert done.exit_code == 0
    count = len(files.learner_files(workshop_folder(), solutions=False))
    assert done.output == f"{count} files copied to {tmp_path / 'w'}\n"
    assert "00_setup.ipynb" in names(tmp_path / "w")
    assert f"--ServerApp.root_dir={(tmp_path / 'w').resolve()}" in started[0]
    assert started[0][-1] == "--no-browser"
    notebook(tmp_path / "w" / "00_setup.ipynb", OWN)
    done = command("workshop", tmp_path / "w", "--copy-only")
    assert done.output == "kept with your work: 00_setup.ipynb\n"
    assert len(started) == 1


def test_an_option_without_a_folder_is_jupyterlabs(command: Command, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(lab, "run_until_stopped", lambda words: started.append(words) or 0)
    origin = "--ServerApp.allow_origin=http://127.0.0.1"
    assert command("workshop", "--no-browser", origin, "--solutions").exit_code == 0
    assert command("workshop", origin).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["nki-workshop"]
    assert (tmp_path / "nki-workshop" / "solutions").is_dir()
    root = f"--ServerApp.root_dir={(tmp_path / 'nki-workshop').resolve()}"
    assert all(root in words for words in started)
    assert started[0][-2:] == ["--no-browser", origin]
    assert started[1][-1] == origin


def check(found: Examination, name: str):
    [one] = [check for check in found.checks if check.name == name]
    return one


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.notebook
def test_the_check_before_a_class_starts_what_a_class_needs(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NKI_LAB_PROGRESS", str(tmp_path / "solved.json"))
    done = command("workshop", tmp_path / "not" / "there", "--check")
    assert done.exit_code == 0, done.output
    for words in (
        f"install with         {sys.executable} -m pip install 'nki-lab[workshop]'",
        f"notebook kernel      python3 runs {sys.executable}",
        f"folder               {tmp_path} can be written",
        "JupyterLab           answers after",
        f"cells of {class_check.NOTEBOOK.name} ran in",
        "GiB free",
    ):
        assert words in done.output
    assert list(tmp_path.iterdir()) == []


def test_the_check_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(class_check, "find_spec", lambda name: None)
    monkeypatch.setattr(class_check, "available_memory", lambda: 2**28)
    for made in (class_check._kernel(), class_check._server(), class_check._notebook()):
        assert made.ok is False
        assert made.help.startswith(f"{sys.executable} -m pip install '")
    assert class_check._memory().ok is None
    assert class_check._memory().found.startswith("0.2 GiB free; a learner")
    monkeypatch.setattr(class_check, "_PACKAGES", ("no-such-package",))
    assert [made.ok for made in class_check._packages()] == [False]


def test_the_kernel_of_another_environment_is_seen(tmp_path: Path, monkeypatch):
    folder = tmp_path / "kernels" / "python3"
    folder.mkdir(parents=True)
    spec = {"argv": ["/opt/other/bin/python", "-m", "x"], "display_name": "", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    made = class_check._kernel()
    assert made.ok is False
    assert made.found == "python3 runs /opt/other/bin/python"
    assert "/opt/other/bin/python -m pip install" in made.help


def test_a_port_that_is_taken_is_noted(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(class_check, "_PORT", taken.getsockname()[1])
        assert class_check._port().ok is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_seen(tmp_path: Path):
    tmp_path.chmod(0o500)
    assert class_check._folder(tmp_path / "lessons").ok is False


def test_a_server_that_does_not_start_and_a_notebook_that_fails_are_told(tmp_path, monkeypatch):
    broken = [sys.executable, "-c", "raise SystemExit('no such option')"]
    monkeypatch.setattr(class_check, "jupyter_command", lambda root, extra: broken)
    assert (class_check._server().ok, class_check._server().help) == (False, "no such option")

    def fail(path: Path, seconds: int) -> Executed:
        failed = UsageError("cell [2] raises ValueError")
        failed.message += "\n\ntraceback"
        raise failed

    monkeypatch.setattr("nki_lab.cli.notebook_file.execute", fail)
    made = class_check._notebook()
    assert (made.ok, made.found) == (False, "cell [2] raises ValueError")
