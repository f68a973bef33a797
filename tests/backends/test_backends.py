"""A backend is one class: every door runs kernels on it, and what it cannot do is an error that says so."""

import re

import numpy as np
import pytest

import nki_lab
from nki_lab import language as nl
from nki_lab.api import nki
from nki_lab.backends import BACKENDS, Backend, Run, backend_named
from nki_lab.choices import BACKEND
from nki_lab.errors import ToolchainError, UnknownOption, UsageError
from nki_lab.ir.program.nodes import Finding
from nki_lab.profiler.profile import Profile
from tests.cli.conftest import Command, command, write  # noqa: F401
from tests.magics.notebook import Notebook, bare, notebook, shell  # noqa: F401

X = np.random.default_rng(11).standard_normal((128, 8)).astype(np.float32)
MODULE = """\
import nki
import nki.language as nl


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out
"""


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out


@pytest.fixture
def device(tmp_path):
    """Register a backend that returns outputs, and a profile from a file; it multiplies its input by -2."""
    measured = nki_lab.run(doubled, X).profile
    assert measured.is_simulation
    file = measured.save(tmp_path / "measured.json")
    file.write_text(re.sub(r'("is_simulation": ?)true', r"\1false", file.read_text()))

    class Measured(Run):
        def profile(self) -> Profile:
            return Profile.load(file)

    class Device(Backend):
        name = "device"
        runs = 0

        def run(self, compiled, arrays, choices, retrace):
            self.runs += 1
            assert retrace is None or retrace.source.text == compiled.source.text
            return Measured(self.name, [-2 * arrays[0]], origin="measured on trn0, core 5")

    yield BACKENDS["device"]
    del BACKENDS["device"]
    BACKEND.offer(BACKENDS, backend_named)


def negative(value):
    np.testing.assert_array_equal(value, -2 * X)
    return True


def test_calls_of_python_run_on_it(device, tmp_path):
    with nki_lab.use(backend="device"):
        assert negative(doubled(X))
        assert negative(doubled.compile(X)(X))
        # What asks for the simulator by name gets it.
        np.testing.assert_array_equal(nki.simulate(doubled)(X), 2 * X)
        np.testing.assert_array_equal(nki_lab.run(doubled, X, backend="simulator").value, 2 * X)
    assert negative(nki_lab.run(doubled, X, backend="device").value)
    assert device.runs == 3
    file = doubled.compile(X).save(tmp_path / "doubled.nkic")
    with nki_lab.use(backend="device"):
        assert negative(nki_lab.load(file)(X))


def test_the_environment_chooses_it(device, monkeypatch):
    monkeypatch.setenv("NKI_LAB_BACKEND", "device")
    assert negative(doubled(X))
    monkeypatch.setenv("NKI_SIMULATOR", "0")
    assert negative(doubled(X))


def test_a_cell_runs_on_it(device, notebook: Notebook):  # noqa: F811
    notebook.shell.push({"x": X})
    shown = notebook.good(f'%%nki --run "doubled(x)" --backend device\n{MODULE}')
    assert negative(notebook["doubled_result"].value)
    assert "measured" in shown and "modelled" not in shown.splitlines()[0]


def test_a_command_runs_on_it(device, command: Command, write):  # noqa: F811
    write("doubled.py", MODULE)
    outcome = command(
        "run", "doubled.py:doubled", "--input", "x=randn:128x8", "--backend", "device"
    )
    assert outcome.exit_code == 0, outcome.output
    assert device.runs == 1 and "measured" in outcome.output


def test_a_result_has_what_the_backend_gives(device):
    result = nki_lab.run(doubled, X, backend="device")
    assert not result.profile.is_simulation and result.findings == ()
    assert result.origin == "measured on trn0, core 5" and result.modelled is None
    assert nki_lab.run(doubled, X).origin == "modelled"
    assert result.roofline() and result.lines()
    assert "measured" in repr(result).splitlines()[0]
    result.show().save_html  # noqa: B018
    assert "backend='simulator'" in result.steps.problem
    for ask in (lambda: result.execution, result.benchmark):
        with pytest.raises(ToolchainError, match="the backend `device` does not tell which"):
            ask()


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda: nki_lab.run(doubled, X, debug=True), "a debug run"),
        (lambda: nki_lab.launch(doubled, 2, (X,)), "running 2 ranks"),
        (lambda: nki_lab.step(doubled, X), "going through a run step by step"),
        (lambda: nki_lab.benchmark(doubled, X), "modelling the time of calls"),
    ],
    ids=["debug", "ranks", "step", "benchmark"],
)
def test_what_only_the_simulator_can_do_says_so(device, ask, what):
    with (
        nki_lab.use(backend="device"),
        pytest.raises(
            ToolchainError, match=f"^error.*{what} is not supported by the backend `device`"
        ),
    ):
        ask()


def test_a_run_without_a_profile_says_so():
    run = Run("device", [X])
    with pytest.raises(ToolchainError, match="the backend `device` has no profile of this run"):
        run.profile()


def test_a_result_without_a_profile_can_be_looked_at(device, monkeypatch):
    monkeypatch.setattr(type(device), "run", lambda self, *_: Run(self.name, [-2 * X]))
    result = nki_lab.run(doubled, X, backend="device")
    assert negative(result.value)
    assert repr(result) == "doubled: the backend `device` has no profile of this run"


def test_cells_and_commands_show_a_run_without_times(device, monkeypatch, command, write, notebook):  # noqa: F811
    finding = Finding("hazard", "the device was warm")
    monkeypatch.setattr(
        type(device), "run", lambda self, *_: Run(self.name, [-2 * X], findings=[finding])
    )
    told = "doubled on trn3: the backend `device` has no profile of this run"
    notebook.shell.push({"x": X})
    cell = f"%%nki --run doubled(x) --backend device --check='-2 * x' {{}}\n{MODULE}"
    shown = notebook.good(cell.format(""))
    assert f"{told}; in `doubled_result`" in shown and "hazard: the device was warm" in shown
    assert negative(notebook["doubled_result"].value)
    asked = notebook.bad(cell.format("--analyse stalls"))
    assert "NKI500" in asked.text
    write("doubled.py", MODULE)
    arguments = ("doubled.py:doubled", "--input", "x=randn:128x8", "--backend", "device")
    outcome = command("run", *arguments)
    assert outcome.exit_code == 0 and outcome.stdout.strip() == told
    assert "hazard: the device was warm" in outcome.stderr
    outcome = command("run", *arguments, "--show", "report")
    assert outcome.exit_code == 1 and "has no profile of this run" in outcome.stderr


def test_an_unknown_backend_is_answered_with_those_there_are(notebook: Notebook):  # noqa: F811
    with pytest.raises(UnknownOption, match=r"(?s)unknown backend `simulater`.*`simulator`"):
        nki_lab.run(doubled, X, backend="simulater")
    with pytest.raises(UnknownOption, match=r"(?s)unknown backend `gpu`.*backends: simulator"):
        nki_lab.run(doubled, X, backend="gpu")
    assert "unknown backend `gpu`" in notebook.bad(f"%%nki --backend gpu\n{MODULE}").text


def test_a_backend_says_which_chip_before_anything_is_compiled(device, monkeypatch):
    def chip(self, asked, options):
        if asked != "trn3":
            raise ToolchainError(f"there is no {asked} here", help="ask for trn3")
        return "trn2"

    monkeypatch.setattr(type(device), "chip", chip)
    assert nki_lab.run(doubled, X, backend="device").kernel.target.name == "trn2"
    with pytest.raises(ToolchainError, match="there is no trn1 here"):
        nki_lab.run(doubled, X, backend="device", target="trn1")
    assert nki_lab.run(doubled, X, target="trn1").kernel.target.name == "trn1"


def test_two_backends_at_once_are_compared(device, monkeypatch):
    def run(self, compiled, arrays, choices, retrace):
        both = Run(self.name, [-2 * arrays[0]], origin="measured on trn0, core 5")
        both.other = BACKENDS["simulator"].run(compiled, arrays, choices, retrace)
        return both

    monkeypatch.setattr(type(device), "run", run)
    result = nki_lab.run(doubled, X, backend="device")
    assert negative(result.value)
    np.testing.assert_array_equal(result.modelled.value, 2 * X)
    assert result.modelled.profile.is_simulation and result.modelled.origin == "modelled"


def test_times_that_a_backend_measures_are_its_benchmark(device, monkeypatch):
    class Timed(Run):
        def benchmark(self):
            return "7 us"

    monkeypatch.setattr(type(device), "run", lambda self, *_: Timed(self.name, [-2 * X]))
    assert nki_lab.benchmark(doubled, X, backend="device") == "7 us"
    assert nki_lab.run(doubled, X, backend="device").benchmark() == "7 us"


def test_a_result_is_compared_with_another(device):
    first, second = nki_lab.run(doubled, X), nki_lab.run(doubled, X, backend="device")
    assert second.compare(first) == nki_lab.compare(first, second)
    assert second.compare(first.profile).first_ns == first.profile.total_ns
    with pytest.raises(UsageError, match=r"(?s)ran on one backend.*backend='both'"):
        second.compare()
