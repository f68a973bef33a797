"""What do all tests share?  Seeded numbers, repeatable hypothesis runs, and two plugins."""

import os
import zlib

import hypothesis
import numpy as np
import pytest

pytest_plugins = ("tests.golden", "tests.chromium")

# Tests compare single instructions: BLAS threads would only fight over the cores with xdist.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

hypothesis.settings.register_profile("nki_lab", derandomize=True, deadline=None)
hypothesis.settings.load_profile("nki_lab")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator seeded by the test's name: the same numbers in every run and order."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cells that nbval collects, so that `-m "not notebook"` leaves them out."""
    for item in items:
        if item.path.suffix == ".ipynb":
            item.add_marker("notebook")
