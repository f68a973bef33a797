"""Tests that random kernels compute the same before, between and after all passes, in every order that waits allow.

`make fuzz` looks at many more of them: FUZZ_EXAMPLES says how many, FUZZ_SEED which. A failure is shown as the recipe
to make the kernel anew, `check(Recipe(...))`, and as the text of the kernel.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from tests.fuzz.kernels import KINDS, TARGETS, Recipe, Rejected, described, written
from tests.fuzz.reordered import check_orders
from tests.fuzz.stages import check_stages, check_times

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
CHUNK = 250
COUNTS: Counter[str] = Counter()
BEGIN = time.monotonic()

_SEEDS = st.integers(0, 2**24)
_STEPS = st.tuples(st.sampled_from([k for k, often in KINDS.items() for _ in range(often)]), _SEEDS)
RECIPES = st.builds(
    Recipe,
    target=st.sampled_from(list(TARGETS)),
    seed=_SEEDS,
    steps=st.lists(_STEPS, min_size=8, max_size=32).map(tuple),
)


def check(recipe: Recipe) -> None:
    """Check all there is to check of one kernel; what cannot be is counted."""
    try:
        made = written(recipe)
        note(described(recipe, made.kernel))
        last = check_stages(made)
    except Rejected as reason:
        COUNTS["rejected: " + str(reason).partition(":")[0]] += 1
        return
    check_orders(made, last, random.Random(recipe.seed))
    check_times(made, last)
    COUNTS["kernels"] += 1
    if COUNTS["kernels"] % 25 == 0:
        gc.collect()  # instructions and their forms know each other, and hold large arrays
    COUNTS.update(made.counts)


@pytest.fixture(autouse=True)
def statistics(pytestconfig):
    """In a long run tell now and then what the kernels were like so far."""
    yield
    if "FUZZ_EXAMPLES" in os.environ:
        text = ", ".join(f"{name} {count}" for name, count in sorted(COUNTS.items()))
        with pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n{COUNTS['kernels']} kernels in {time.monotonic() - BEGIN:.0f} s: {text}")


@pytest.mark.parametrize("first", range(0, EXAMPLES, CHUNK))
def test_random_kernels(first: int) -> None:
    @seed(SEED * 1_000_003 + first)
    @settings(
        max_examples=min(CHUNK, EXAMPLES - first), deadline=None, database=None, print_blob=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(RECIPES)
    def run(recipe: Recipe) -> None:
        check(recipe)

    run()
