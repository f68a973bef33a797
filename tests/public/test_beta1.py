"""Tests that published code of the older dialect runs unchanged (tests/public/beta1 says how to run them)."""

from __future__ import annotations

import pytest

from tests.public.beta1 import contributed, suites, tutorials, user_kernels
from tests.public.beta1.__main__ import outcome_of
from tests.public.beta1.exceptions import surprises
from tests.public.beta1.kernels import Placed
from tests.public.beta1.trees import Tree

PUBLISHED = list(suites.published())
KERNELS = tutorials.cases() + contributed.cases() + user_kernels.cases()
skip = pytest.mark.skipif(not PUBLISHED and not KERNELS, reason="the environment names no clone")


@skip
@pytest.mark.slow
@pytest.mark.parametrize(("tree", "file"), PUBLISHED, ids=lambda x: getattr(x, "name", x))
def test_published_tests_pass_except_the_known_ones(tree: Tree, file: str) -> None:
    assert surprises(f"{tree.name} tests", suites.outcomes(tree, file)) == []


@skip
@pytest.mark.slow
@pytest.mark.parametrize("case", KERNELS, ids=str)
def test_published_kernels_give_what_numpy_gives(case: Placed) -> None:
    assert surprises(case.tree.name, [outcome_of(case)]) == []
