"""Tests that the wheel, built from the source archive, brings a package and an extension that work."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import nki_lab

ROOT = Path(__file__).parents[2]
EXTENSION = "share/jupyter/labextensions/nki-lab"
SERVER = "etc/jupyter/jupyter_server_config.d/nki_lab.json"
SETTINGS = "etc/jupyter/labconfig/default_setting_overrides.d/nki_lab.json"

#: Runs a command of a clean installation and returns what it prints.
Installed = Callable[..., str]

pytestmark = pytest.mark.slow


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command away from this folder and its environment; return what it prints."""
    kept = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")}
    outcome = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout
    return outcome.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source archive, and from nothing but that the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.thorough
def test_the_wheel_holds_the_package_and_the_built_extension_once(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    data = f"nki_lab-{nki_lab.__version__}.data/data/{EXTENSION}"
    committed = ROOT / "nki_lab" / "labextension"
    built = {f.relative_to(committed).as_posix() for f in committed.rglob("*") if f.is_file()}

    assert {f"{data}/{name}" for name in built | {"install.json"}} <= set(names)
    assert {data.replace(EXTENSION, file) for file in (SERVER, SETTINGS)} <= set(names)
    assert [name for name in names if "labextension/" in name] == []
    packages = {name.partition("/")[0] for name in names}
    assert packages == {"nki_lab"} | {f"nki_lab-{nki_lab.__version__}.{k}" for k in ("data", "dist-info")}  # fmt: skip
    modules = {f.relative_to(ROOT).as_posix() for f in (ROOT / "nki_lab").rglob("*.py")}
    assert modules | {"nki_lab/py.typed"} <= set(names)


@pytest.mark.thorough
def test_the_wheel_holds_notebooks_and_exercises_but_nothing_that_is_for_authors(wheel: Path):
    workshop = ROOT / "workshop"
    wanted = [f for kind in ("*.ipynb", "*.svg", "problems.py") for f in workshop.rglob(kind)]
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if n.startswith("nki_lab/workshop/")}
    assert packed == {f"nki_lab/{f.relative_to(ROOT).as_posix()}" for f in wanted}


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel with nothing but pip, and return a function that runs its commands.

    No Node.js: nothing but the environment and the system's basic commands are on PATH.
    """
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    bin = folder / "env" / "bin"
    wanted = f"nki-lab[validate,workshop] @ {wheel.as_uri()}"
    run(bin / "pip", "install", "--quiet", "--no-compile", wanted, cwd=folder)
    here = {"PATH": f"{bin}:/usr/bin:/bin", "HOME": str(folder), "JUPYTER_CONFIG_DIR": str(folder)}
    return lambda tool, *words: run(bin / tool, *words, cwd=folder, **here)


@pytest.mark.thorough
def test_pip_alone_enables_the_extension(alone: Installed) -> None:
    listed = alone("jupyter", "labextension", "list")
    (line,) = [line for line in listed.splitlines() if "nki-lab" in line]
    assert f"nki-lab v{nki_lab.__version__}" in line
    assert "enabled" in line
    assert "OK" in line

    listed = alone("jupyter", "server", "extension", "list")
    # In colours: which they are does not matter here.
    lines = [line for line in listed.splitlines() if line.strip().startswith("nki_lab.server")]
    (enabled, checked) = lines
    assert "enabled" in enabled
    assert nki_lab.__version__ in checked and "OK" in checked

    doctor = alone("nki-lab", "doctor")
    assert "FAILED" not in doctor
    assert str(ROOT) not in doctor


@pytest.mark.thorough
def test_the_workshop_is_copied_fit_for_a_class_and_valid(alone: Installed) -> None:
    copied = alone("nki-lab", "workshop", "lessons", "--copy-only")
    assert "files copied to lessons" in copied
    checked = alone("nki-lab", "workshop", "lessons", "--check")
    assert "FAILED" not in checked
    assert str(ROOT) not in checked
    validated = alone("nki-lab", "validate", "--lax", "lessons/00_setup.ipynb")
    assert " passed in " in validated
    assert "failed" not in validated
    listed = "import pathlib; print({p.suffix for p in pathlib.Path('lessons').rglob('[!.]*.*')})"
    assert alone("python", "-c", listed).strip() in ("{'.ipynb', '.svg'}", "{'.svg', '.ipynb'}")
    asked = "from nki_lab.exercises import statement; print(statement('01.2'))"
    assert alone("python", "-c", asked).startswith("01.2 Any number of rows\n")
