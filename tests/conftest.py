"""What all tests share: seeded numbers, repeatable hypothesis runs, and two plugins."""

import importlib
import os
import zlib
from collections.abc import Iterator
from typing import Any

import hypothesis
import numpy as np
import pytest

from nki_lab import progress
from tests.thorough import THOROUGH

pytest_plugins = ("tests.golden", "tests.chromium")

# Tests compare single instructions: BLAS threads would only fight over the cores with xdist.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# Nothing of an earlier run may be found, and nothing is left on the computer.
os.environ.setdefault("NKI_LAB_PROGRESS", "none")

hypothesis.settings.register_profile("nki_lab", derandomize=True, deadline=None)
hypothesis.settings.load_profile("nki_lab")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator seeded by the test's name: the same numbers in every run and order."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def nki_0_6(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold kernels to NKI 0.6, the last version with a parser and with loops over nl.dynamic_range."""
    monkeypatch.setenv("NKI_LAB_NKI", "0.6")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cells that nbval collects, so that `-m "not notebook"` leaves them out; put files with long tests first.

    The last files are short then, and no worker waits minutes for another.
    """
    long = set()
    for item in items:
        if item.path.suffix == ".ipynb":
            item.add_marker("notebook")
        if item.get_closest_marker("thorough") and not THOROUGH:
            item.add_marker(pytest.mark.skip("left to thorough runs: NKI_LAB_THOROUGH=1"))
        if item.get_closest_marker("slow") or item.get_closest_marker("browser"):
            long.add(item.path)
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(autouse=True)
def _no_display_stays() -> Iterator[None]:
    """Take away the display of progress that a command run in this process has set, as its end would."""
    yield
    progress.listen(None)


@pytest.fixture(autouse=True, scope="session")
def _every_program_reads_back() -> Iterator[None]:
    """Write each compiled program as text, read it back, and write it again: the texts must be the same."""
    from nki_lab.ir.text.printer import print_kernel
    from nki_lab.isa import registry
    from nki_lab.isa.reading import read_kernel

    jit = importlib.import_module("nki_lab.runtime.jit")
    compile_kernel = jit.compile_kernel

    def checked(*args: Any, **kwargs: Any) -> Any:
        compiled = compile_kernel(*args, **kwargs)
        for kernel in (compiled.kernel, *compiled.others):
            known = all(i.definition.name in registry for i in kernel.instructions)
            if len(kernel.instructions) <= _READ_BACK_MAX and known:
                text = print_kernel(kernel, comments=False)
                assert print_kernel(read_kernel(text), comments=False) == text
        return compiled

    # No error may point at it, as none points at what it stands for.
    checked.__code__ = checked.__code__.replace(co_filename="<nki_lab tests>")
    jit.compile_kernel = checked
    yield
    jit.compile_kernel = compile_kernel


# Longer programs repeat what shorter ones say, and reading takes longer than compiling.
_READ_BACK_MAX = 300
