"""Tests that the examples in docstrings say what the code does."""

import doctest
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Optional extras: the examples of a module that needs a missing one are left out.
OPTIONAL = {"dask", "distributed", "jax", "jupyter_server", "pyarrow", "torch"}


def failed_examples(root: Path, package: str) -> dict[str, int]:
    """Run the examples of every module below `root/package`; count failures by module."""
    failures = {}
    for file in sorted((root / package).rglob("*.py")):
        if ">>> " not in file.read_text(encoding="utf-8"):
            continue
        name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        try:
            outcome = doctest.testmod(import_module(name))
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in OPTIONAL:
                raise
            continue
        if outcome.failed:
            failures[name] = outcome.failed
    return failures


def test_examples_of_the_package() -> None:
    assert failed_examples(ROOT, "nki_lab") == {}


def test_a_wrong_example_is_found(tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "examples_to_check"
    package.mkdir()
    (package / "right.py").write_text('"""\n>>> 1 + 1\n2\n"""\n')
    (package / "wrong.py").write_text('"""\n>>> 1 + 1\n3\n"""\n')
    monkeypatch.syspath_prepend(tmp_path)
    assert failed_examples(tmp_path, package.name) == {"examples_to_check.wrong": 1}
