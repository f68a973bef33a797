"""After many cells, only what a name or a live view holds is alive."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import weakref

import numpy as np
import pytest

from nki_lab.backends import simulated
from nki_lab.compiler.program import CompiledKernel
from nki_lab.exercises.catalog import lesson_folders
from nki_lab.runtime import Result
from nki_lab.runtime.recording import record
from nki_lab.simulator import Program
from nki_lab.widgets.open_views import open_views
from tests.magics.notebook import Notebook, cell

pytestmark = pytest.mark.notebook
DOUBLE = "def double(a):\n    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
DOUBLE += "    nl.store(out, nl.multiply(nl.load(a), {factor}))\n    return out\n"
ENDLESS = "def endless(x):\n    while True:\n        nl.load(x)\n"
ROW = """def row(a, index):
    out = nl.ndarray((1, 24), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, a.ap([[24, 1], [1, 24]], scalar_offset=nl.load(index), indirect_dim=0))
    return out
"""
KINDS = (Result, Program, CompiledKernel)


def living() -> dict[str, int]:
    """Return how many runs, programs and kernels are alive, whoever holds them."""
    gc.unfreeze()
    gc.collect()
    objects = gc.get_objects()
    return {kind.__name__: sum(type(o) is kind for o in objects) for kind in KINDS}


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[np.ndarray]]:
    """Return weak references to the results of all runs; NumPy's arrays are not known to the collector."""
    born: list[weakref.ref[np.ndarray]] = []

    def noted(result: Result) -> None:
        born.extend(map(weakref.ref, result.outputs))
        record(result)

    monkeypatch.setattr("nki_lab.runtime.compiled.record", noted)
    return born


@pytest.fixture
def started(notebook: Notebook) -> tuple[Notebook, dict[str, int]]:
    """Return a notebook, and what is alive before its first run."""
    simulated._free.clear()  # those of other tests would make room for what is counted here
    return notebook, living()


def added(before: dict[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in living().items()}


def alive(arrays: list[weakref.ref[np.ndarray]]) -> int:
    return sum(array() is not None for array in arrays)


def test_a_cell_that_runs_again_replaces_its_run(started, arrays):
    notebook, before = started
    text = cell("--run 'double(a)' --check 'a * 2' --show none", DOUBLE.format(factor=2.0))
    for _ in range(15):
        notebook.good(text)
    assert added(before) == {"Result": 1, "Program": 1, "CompiledKernel": 1}
    assert (len(arrays), alive(arrays)) == (15, 1)
    notebook.good("del double_result, _nki, double")
    assert added(before) == dict.fromkeys(before, 0)
    assert not alive(arrays)


@pytest.mark.thorough
def test_different_cells_leave_what_their_names_hold(started, arrays):
    notebook, before = started
    for n in range(15):
        text = DOUBLE.replace("double", f"times{n % 5}").format(factor=float(n + 2))
        notebook.good(cell(f"--run 'times{n % 5}(a)' --show report", text))
    assert added(before) == {"Result": 5, "Program": 5, "CompiledKernel": 5}
    assert (len(arrays), alive(arrays)) == (15, 5)
    assert len(simulated._free) == 5


@pytest.mark.thorough
def test_calls_whose_results_nobody_keeps_leave_their_kernel(started, arrays):
    notebook, before = started
    notebook.good(cell("", DOUBLE.format(factor=2.0)))
    for _ in range(15):
        notebook.good("b = double(a)")
    assert added(before) == {"Result": 0, "Program": 1, "CompiledKernel": 0}
    assert (len(arrays), alive(arrays)) == (15, 1), "b"
    notebook.good("del double")
    assert added(before) == dict.fromkeys(before, 0)


@pytest.mark.thorough
def test_cells_that_fail_leave_nothing(started, arrays):
    notebook, before = started
    notebook.good("rows = np.array([[400]], np.int32)")
    failing = (
        cell("--run 'row(a, rows)' --show none", ROW),  # while it runs
        cell("--run 'double(a, a)' --show none", DOUBLE.format(factor=2.0)),  # its arguments
        cell(
            "--run 'double(a)' --show none", DOUBLE.format(factor="unknown")
        ),  # while it is traced
        cell(
            "--run 'double(a)' --check 'a * 3' --show none", DOUBLE.format(factor=2.0)
        ),  # its result
    )
    for _ in range(4):
        for text in failing:
            notebook.bad(text)
            assert sys.last_value is not None
    # The last run that came to an end is kept by its names, the last error by IPython.
    assert added(before) == {"Result": 1, "Program": 1, "CompiledKernel": 1}
    assert alive(arrays) == 1
    notebook.bad(failing[0])
    notebook.good("del double_result, _nki, double")
    assert added(before) == dict.fromkeys(before, 0)
    assert not alive(arrays)


@pytest.mark.thorough
def test_cells_that_are_stopped_leave_nothing(started, arrays):
    notebook, before = started
    text = DOUBLE.format(factor=2.0) + "import os, signal\n"
    stopped = "    os.kill(os.getpid(), signal.SIGINT)\n    return out\n"
    for _ in range(5):
        notebook.bad(cell("--timeout 0.05 --run 'endless(a)' --show none", ENDLESS))
        outcome = notebook.run(
            cell("--run 'double(a)' --show none", text.replace("    return out\n", stopped))
        )
        assert isinstance(outcome.error, KeyboardInterrupt)
        del outcome
    assert added(before) == dict.fromkeys(before, 0)
    assert not alive(arrays)


@pytest.mark.thorough
def test_checks_of_exercises_leave_nothing(started, arrays):
    notebook, before = started
    solutions = lesson_folders()["01_first_kernel"] / "solutions.py"
    notebook.good(f"from nki_lab.exercises import check\n%run {solutions}")
    notebook.good("%nki_target trn2")
    for _ in range(5):
        notebook.good("check('01.2', add_rows)")
        assert notebook.run("check('01.2', scaled_sum)").code, "it takes 128 rows at most"
    assert len(arrays) > 25
    counts = added(before)
    assert (counts["Result"], counts["CompiledKernel"]) == (0, 0)
    assert counts["Program"] <= simulated.KEPT, "those of the module's kernels"
    assert not alive(arrays)


def test_a_live_view_keeps_its_run_until_its_cell_runs_again(started, arrays, monkeypatch):
    notebook, before = started
    runs = itertools.count()
    where = {"cell": ("first", "0")}
    monkeypatch.setattr(open_views, "where", lambda: where["cell"])

    def in_cell(name: str, text: str) -> None:
        where["cell"] = (name, str(next(runs)))
        notebook.good(text)

    shown = cell("--run 'double(a)' --show report", DOUBLE.format(factor=2.0))
    asked = "shown = double_result.show()\nwidget = shown.widget\ndel shown, widget"
    for _ in range(10):
        in_cell("first", shown)
        in_cell("second", asked)
    assert open_views.count == 1
    assert added(before)["Result"] == 1
    in_cell("first", "del double_result, _nki, double")
    assert added(before)["Result"] == 0
    assert alive(arrays) == 1, "what the view of the second cell shows"
    in_cell("second", "pass")
    assert open_views.count == 0
    assert added(before) == dict.fromkeys(before, 0)
    assert not alive(arrays)


@pytest.mark.thorough
def test_hundreds_of_different_cells_take_little_memory():
    """The resident memory of a process of its own, so that nothing of other tests is counted; the bar is 10 MB."""
    grown = subprocess.run(
        [sys.executable, "-c", MANY_CELLS], capture_output=True, text=True, check=True, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert float(grown.stdout.split()[-1]) < 10


MANY_CELLS = """
import gc, os
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

config = Config()
config.HistoryManager.hist_file = ":memory:"
shell = InteractiveShell(config=config)
CELL = '''%%nki --run "k{name}(x)" --check "x * {factor} + 1" --show none --quiet --target trn2
def k{name}(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.multiply(nl.load(a), {factor})
    nl.store(out, nl.add(tile, 1.0))
    return out
'''

def run(text):
    result = shell.run_cell(text, store_history=True)
    assert result.success, result.error_in_exec

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

run("%load_ext nki_lab")
run("import numpy as np")
run("x = np.ones((128, 512), np.float32)")
for n in range(40):
    run(CELL.format(name=n % 3, factor=float(n + 2)))
before = resident()
for n in range(300):
    run(CELL.format(name=n % 3, factor=float(n + 100)))
print((resident() - before) / 1e6)
"""
