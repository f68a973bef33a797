"""Tests that code on the documentation's pages does what the page says (NKI_SDK_ROOT names a clone of aws-
neuron-sdk)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.public.sdk import api_docs, deep_dives, get_started, guides, migration
from tests.public.sdk.cases import Case, check, fails
from tests.public.sdk.clone import SDK_VARIABLE, official_names, root
from tests.public.sdk.pages import Block, blocks

CLONE = root(SDK_VARIABLE)
pytestmark = pytest.mark.skipif(CLONE is None, reason=f"{SDK_VARIABLE} names no aws-neuron-sdk")
PARTS = (api_docs, deep_dives, get_started, guides, migration)
CASES = [case for part in PARTS for case in part.CASES]
FRAGMENTS = {page: table for part in PARTS for page, table in part.FRAGMENTS.items()}
RUNS = [
    pytest.param(case, target, id=f"{case}-{target}") for case in CASES for target in case.targets
]
LISTED = [(page, number) for page, table in FRAGMENTS.items() for number in table]


def block_of(page: str, number: int) -> Block:
    """Return one block of a page, which must still be there."""
    found = blocks(Path(CLONE or "", "nki"), page)
    assert number in found, f"{page} has changed: it has the blocks {sorted(found)}"
    return found[number]


@pytest.mark.parametrize(("case", "target"), RUNS)
def test_a_block_gives_what_the_page_says(case: Case, target: str, rng) -> None:
    page, _, number = case.block.partition("#")
    with official_names():
        check(case, block_of(page, int(number)), target, rng)


@pytest.mark.parametrize(("page", "number"), LISTED)
def test_a_listed_fragment_cannot_run(page: str, number: int) -> None:
    if "JAX" in FRAGMENTS[page][number] and importlib.util.find_spec("jax"):
        pytest.skip("JAX is installed; kernels of its programs are another package's")
    with official_names():
        assert fails(block_of(page, number)), "it runs: give it a case"


def test_every_block_is_run_or_listed() -> None:
    nki = Path(CLONE or "", "nki")
    shown = {
        (page, number)
        for path in (*nki.rglob("*.rst"), *nki.joinpath("api").rglob("*.py"))
        if (page := path.relative_to(nki).as_posix()).partition("/")[0] != "library"
        for number in blocks(nki, page)
    }
    if importlib.util.find_spec("torch") is None:
        pytest.skip("blocks with PyTorch have no case")
    run = {(page, int(number)) for case in CASES for page, _, number in [case.block.partition("#")]}
    assert sorted(shown - run - set(LISTED)) == []
    assert sorted(run & set(LISTED)) == []
