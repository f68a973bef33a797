"""The table of what is shown where: complete, and its tests exist."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.official.pages import ELSEWHERE, WITHOUT, rows
from tests.public.sdk.clone import SAMPLES_VARIABLE, SDK_VARIABLE, root

ROOT = Path(__file__).parents[2]
SDK, SAMPLES = root(SDK_VARIABLE), root(SAMPLES_VARIABLE)
#: Of nki-samples, what is tested or a tutorial; `src/nki_samples/reference` is reached through the tests.
PLACES = (
    "test/unit/test_*.py",
    "test/integration/*/",
    "src/nki_samples/tutorials/*/",
    "contributed/*.py",
)


def test_every_test_shows_something_and_every_page_has_a_reason_or_a_test() -> None:
    shown = {page for page, _, _ in rows()}
    assert not shown & set(WITHOUT)
    tests = {place.partition("::") for _, _, place in rows() if "::" in place}
    for file, _, name in tests:
        assert f"def {name}(" in (ROOT / file).read_text("utf-8")
    for path in (ROOT / "tests/official").glob("test_*.py"):
        if path.name != "test_pages.py":
            for line in path.read_text("utf-8").splitlines():
                name = line.removeprefix("def ").partition("(")[0]
                file = f"tests/official/{path.name}"
                assert not line.startswith("def test_") or (file, "::", name) in tests


@pytest.mark.parametrize("page", ELSEWHERE)
def test_an_instruction_has_cases_where_the_table_says(page: str) -> None:
    instruction, file = ELSEWHERE[page]
    family = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    names = [str(case).partition("-")[0] for case in family.CASES]
    assert instruction.removeprefix("nisa.") in names


@pytest.mark.skipif(SDK is None, reason=f"{SDK_VARIABLE} names no aws-neuron-sdk")
def test_every_page_of_the_documentation_is_in_the_table() -> None:
    nki = Path(SDK or "", "nki")
    pages = {
        path.relative_to(nki).as_posix()
        for pattern in ("**/*.rst", "examples/**/*.py", "test/*.py", "api/nki/[il]*/*.py")
        for path in nki.glob(pattern)
    }
    documented = {page for page in pages if page.split("/")[0] not in ("library", "_templates")}
    told = {page for page, _, _ in rows()} | set(WITHOUT)
    assert sorted(documented - told) == []
    assert sorted(page for page in told - documented if not page.startswith("samples:")) == []


@pytest.mark.skipif(SAMPLES is None, reason=f"{SAMPLES_VARIABLE} names no nki-samples")
def test_every_sample_is_in_the_table() -> None:
    clone = Path(SAMPLES or "")
    found = {
        f"samples:{path.relative_to(clone).as_posix()}"
        for pattern in PLACES
        for path in clone.glob(pattern.rstrip("/"))
        if path.is_dir() == pattern.endswith("/")
    }
    told = {page for page, _, _ in rows()} | set(WITHOUT)
    assert sorted(found - told) == []
    assert sorted(page for page in told - found if page.startswith("samples:")) == []
