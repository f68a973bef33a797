"""Tests that the repository is fit to publish: documented, licensed, versioned, and free of local paths."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import nki_lab

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEXT = {".cfg", ".ipynb", ".js", ".json", ".md", ".nkir", ".py", ".sh", ".toml", ".ts", ".txt"}
TEXT_NAMES = {"Makefile", "run", "start", "postBuild"}
OUR_FOLDERS = (".ci", "benchmarks", "binder", "deploy", "docs", "extension/src", "nki_lab")
OUR_FOLDERS += ("tests", "workshop")

# A home folder in a file means that it was written for one machine. Binder's user is public.
HOME = re.compile(r"/(?:home|Users)/(?!jovyan\b)\w+|/root/\w+")


def text_files() -> list[Path]:
    found = [file for folder in OUR_FOLDERS for file in (ROOT / folder).rglob("*")]
    found = [file for file in found if ".ci/out" not in file.as_posix()] + list(ROOT.glob("*"))
    return [f for f in found if f.is_file() and (f.suffix in TEXT or f.name in TEXT_NAMES)]


def opening(file: Path) -> str:
    """Return the first paragraph of a module's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n\n")[0]


@pytest.mark.parametrize("folder", ["benchmarks", "binder", "docs", "nki_lab", "tests"])
def test_every_module_opens_with_a_statement(folder: str) -> None:
    opened = {f: opening(f) for f in sorted((ROOT / folder).rglob("*.py"))}
    assert opened
    assert [str(f) for f, text in opened.items() if len(text) < 10 or "?" in text] == []


def test_no_file_names_a_machine() -> None:
    files = text_files()
    assert ROOT / "Makefile" in files
    assert Path(__file__) in files
    naming = {
        str(file.relative_to(ROOT)): match.group()
        for file in files
        if (match := re.search(f"{HOME.pattern}|{re.escape(str(ROOT))}", file.read_text("utf-8")))
    }
    assert naming == {}


def test_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert text.lstrip().startswith("Apache License\n")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_version_has_one_source_and_a_changelog_entry() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "nki_lab/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", nki_lab.__version__)
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == nki_lab.__version__


def test_all_extras_but_the_frameworks_are_in_all() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert extras["all"] == [
        f"nki-lab[{','.join(sorted(extras.keys() - {'all', 'jax', 'torch'}))}]"
    ]


def test_public_names_are_where_the_table_says() -> None:
    assert list(nki_lab._PUBLIC) == sorted(nki_lab._PUBLIC)
    for name, module in nki_lab._PUBLIC.items():
        found = import_module(module)
        is_module = module == f"nki_lab.{name}"
        assert getattr(nki_lab, name) is (found if is_module else getattr(found, name))


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'nki_lab' has no attribute 'rum'"):
        nki_lab.rum  # noqa: B018


def test_import_loads_nothing_heavy() -> None:
    heavy = "{'IPython', 'anywidget', 'dask', 'ipywidgets', 'jax', 'ml_dtypes', 'numpy', 'pandas',"
    heavy += " 'plotly', 'pyarrow', 'rich', 'torch', 'typer'}"
    report = f"import nki_lab, sys; print(sorted({heavy} & set(sys.modules)))\n"
    frameworks = "import nki_lab.torch, nki_lab.jax; from nki_lab.torch import custom_op\n"
    frameworks += "from nki_lab.jax import custom_op; print({'torch', 'jax'} & set(sys.modules))"
    outcome = subprocess.run(
        [sys.executable, "-c", report + frameworks],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert outcome.stdout == "[]\nset()\n"
