"""A package of kernels that somebody else wrote runs as it is: from a cell, its own file, and its tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command, command  # noqa: F401
from tests.magics.notebook import Notebook, bare, notebook, shell  # noqa: F401

ROOT = Path(__file__).parents[2]
FILES = {
    "src/standlib/__init__.py": "",
    "src/standlib/core/__init__.py": "",
    "src/standlib/core/utils/__init__.py": "",
    "src/standlib/core/utils/helpers.py": """\
def div_ceil(n, d):
    return (n + d - 1) // d


def kernel_assert(condition, message):
    assert condition, message
""",
    "src/standlib/core/scale/__init__.py": "",
    "src/standlib/core/scale/scale.py": """\
import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.helpers import div_ceil, kernel_assert

P_MAX = 128


def load_rows(x: nl.ndarray, first: int, rows: int) -> nl.ndarray:
    tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[first : first + rows])
    return tile


@nki.jit
def scaled(x: nl.ndarray, factor: float = 2.0) -> nl.ndarray:
    kernel_assert(len(x.shape) == 2, "x must have two axes")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for n in range(div_ceil(x.shape[0], P_MAX)):
        first = n * P_MAX
        rows = min(P_MAX, x.shape[0] - first)
        tile = load_rows(x, first, rows)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[first : first + rows], src=tile)
    return out
""",
    "test/__init__.py": "",
    "test/conftest.py": """\
import nki.language as nl
import pytest


@pytest.fixture
def add():
    return nl.add
""",
    "test/unit/__init__.py": "",
    "test/unit/test_scale.py": """\
import numpy as np
import pytest
from standlib.core.scale.scale import scaled


@pytest.mark.parametrize("rows", [1, 130])
def test_scaled(rows, add):
    x = np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float32)
    np.testing.assert_array_equal(scaled(x, factor=-0.5), -0.5 * x)


def test_axes():
    with pytest.raises(AssertionError, match="two axes"):
        scaled(np.zeros((2, 3, 4), np.float32))
""",
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if name.startswith("standlib"):
            del sys.modules[name]


def test_from_a_cell_with_its_helpers(checkout, notebook: Notebook) -> None:  # noqa: F811
    sys.path.insert(0, str(checkout / "src"))
    notebook.good("""\
import numpy as np
from standlib.core.scale.scale import load_rows, scaled

x = np.random.default_rng(4).standard_normal((200, 24)).astype(np.float32)""")
    assert "matches" in notebook.good('%nki --run "scaled(x, 3.0)" --check "3 * x" --target trn2')
    mine = notebook.good("""\
%%nki --run "shifted(x)" --check "x[70:] + 1" --target trn2
@nki.jit
def shifted(x):
    out = nl.ndarray((130, 24), dtype=x.dtype, buffer=nl.shared_hbm)
    for first in (0, 65):
        tile = load_rows(x, 70 + first, 65)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[first : first + 65], src=tile)
    return out
""")
    assert "matches" in mine
    assert "scale.py, line 12" in mine  # of the helper's transfer


def test_from_its_own_file_with_relative_imports(checkout, command: Command) -> None:  # noqa: F811
    file = checkout / "src/standlib/core/scale/scale.py"
    call = ["run", f"{file}::scaled", "--input", "x=randn:130x40", "--target", "trn2"]
    assert "matches" in command(*call, "--check", "2 * x").stdout
    assert sys.modules["standlib.core.scale.scale"].scaled.__name__ == "scaled"


def test_its_own_tests_pass(checkout) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--nki-aliases", "--nki-target", "trn2"],
        cwd=checkout, capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{checkout / 'src'}:{ROOT}", "HOME": str(checkout)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
