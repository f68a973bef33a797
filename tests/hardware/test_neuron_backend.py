"""A kernel runs on a device by `backend="neuron"`, on stand-ins of the official tools and packages."""

import json
import os
import pickle
import shutil
import time

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from nki_lab import language as nl
from nki_lab.api import nki
from nki_lab.api.install import aliases
from nki_lab.backends import neuron
from nki_lab.errors import (
    DeviceBusy,
    DeviceOutOfBounds,
    DeviceTimedOut,
    NoDevice,
    PackageMissing,
    ProcessDied,
    ToolchainError,
)
from nki_lab.hardware.runner import bench_percentiles
from nki_lab.source import keep_lines
from tests.cli.conftest import Command, command, write  # noqa: F401
from tests.hardware.standins import Machine
from tests.magics.notebook import Notebook, bare, notebook, shell  # noqa: F401

X = np.random.default_rng(21).standard_normal((128, 24)).astype(np.float32)
Y = np.random.default_rng(22).standard_normal((128, 24)).astype(np.float32)
ERROR = 1e-3  # of the values of the stand-in


def tripled(tile):
    return nl.multiply(tile, 3.0)


@nki.jit
def scaled_sum(x, y, shift=0.5):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.add(tripled(nl.load(x)), nl.load(y)), shift))
    nl.store(y, nl.multiply(nl.load(y), 2.0))
    return out


EXPECTED = 3 * X + Y + 0.5


def settled(machine, monkeypatch):
    """Let this process use a machine, and keep its runs there."""
    monkeypatch.delenv("NKI_LAB_RUNNER_PYTHON", raising=False)  # of another machine
    machine.install(monkeypatch)
    monkeypatch.setenv("NKI_LAB_DEVICE_RUNS", str(machine.root / "runs"))
    neuron._latest.clear()
    return machine


@pytest.fixture(scope="module")
def patched():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def machine(tmp_path_factory, patched):
    """Make a machine with nki 0.6, whose values and times differ from the model's."""
    machine = Machine(tmp_path_factory.mktemp("machine"), ls="instance")
    machine.change(value_error=ERROR, time_ratios={"vector": 1.5})
    return settled(machine, patched)


@pytest.fixture(autouse=True)
def nothing_planted(request):
    yield
    if "machine" in request.fixturenames:
        request.getfixturevalue("machine").plant("")


@pytest.fixture(scope="module")
def both(machine):
    """One run on both, and what it printed."""
    y = Y.copy()
    result = nki_lab.run(scaled_sum, X, y, backend="both", core=2, iters=30, warmup=4)
    return result, y


def test_values_are_those_of_the_device(both, machine):
    result, y = both
    assert result.origin == "measured on trn2, core 2"
    np.testing.assert_allclose(result.value, EXPECTED, 2 * ERROR)
    assert np.abs(result.value - EXPECTED).max() > ERROR  # and not the simulator's
    np.testing.assert_allclose(result.modelled.value, EXPECTED, 1e-5)
    assert result.modelled.origin == "modelled"
    np.testing.assert_array_equal(y, 2 * Y)  # what the kernel writes into its inputs
    (note,) = result.run.notes
    worst = np.unravel_index(np.abs(result.value - result.modelled.value).argmax(), X.shape)
    assert f"at {[*map(int, worst)]} " in note and "max rel error 0.001 at" in note


def test_the_child_has_its_variables_before_it_imports(both, machine):
    described = both[0].run.folder.described
    told = described["environment"]
    assert told["NEURON_RT_VISIBLE_CORES"] == "2" and told["NEURON_LOGICAL_NC_CONFIG"] == "1"
    assert told["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2" and "NKI_SIMULATOR" not in told
    assert described["versions"]["nki"] == "0.6.0" and described["neff"].endswith("kernel.neff")
    assert "neuron" not in " ".join(os.environ).lower().replace("nki_lab_neuron_python", "")


def test_times_are_measured_and_lie_beside_the_model(both):
    result, _ = both
    profile = result.profile
    assert not profile.is_simulation and profile.origin.startswith(
        "measured on trn2.3xlarge, core 2"
    )
    compared = result.compare()
    engines = {row.name: (row.first_ns, row.second_ns) for row in compared.engines}
    modelled, measured = engines["vector"]
    assert measured == pytest.approx(1.5 * modelled, rel=0.02)
    assert any("tripled(nl.load(x))" in row.name for row in compared.lines)  # lines of the author
    assert "measured on trn2" in repr(result).splitlines()[0]
    assert result.profile is profile  # captured once


def test_a_benchmark_asks_neuron_bench(both, machine):
    result, _ = both
    timed = result.benchmark()
    assert (timed.source, timed.iterations, timed.warmup) == ("neuron-bench", 30, 4)
    assert timed.latency_ns == pytest.approx(result.profile.total_ns, rel=0.2)
    assert "measured on trn2, core 2 by neuron-bench" in repr(timed)
    (call,) = machine.calls("neuron-bench")
    assert "--warmup=4" in call["arguments"] and "--work=30" in call["arguments"]


def test_a_second_run_loads_what_the_first_has_compiled(both, machine):
    result = nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron", core=2)
    np.testing.assert_allclose(result.value, both[0].value, 1e-6)
    request = (result.run.folder.path / "request.json").read_text()
    assert '"loaded"' in request and '"nrtpy"' in request
    assert result.run.folder.described["neff"] == os.path.join("artifacts", "kernel.neff")
    again = pickle.loads(pickle.dumps(result))
    assert again.origin == result.origin and again.run.folder.path == result.run.folder.path


def test_one_that_hangs_is_ended(both, machine):
    machine.plant("hang", stage="import")
    start = time.monotonic()
    with (
        pytest.raises(DeviceTimedOut, match=r"was ended after 1\.5 seconds"),
        nki_lab.choices.inside(timeout=1.5),
    ):
        nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron")
    assert time.monotonic() - start < 15


@pytest.mark.thorough
def test_an_index_out_of_bounds_offers_the_simulator(both, machine, capfd):
    machine.plant("oob")  # and the core is free: what hung has ended
    with pytest.raises(DeviceOutOfBounds, match=r"(?s)simulator.*names the line") as caught:
        nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron")
    assert "def scaled_sum" in str(caught.value) and "what was sent and printed is in" in str(
        caught.value
    )
    printed = capfd.readouterr().err
    assert "out-of-bound access" in printed  # streamed to the cell


CELL = """\
%%nki --run "doubled(x)" --backend both --core 1 --check "2 * x" --rtol 0.01 --show timeline
@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out
"""


def test_a_cell_shows_both(both, notebook: Notebook, monkeypatch):  # noqa: F811
    # A profile that was captured before: to capture one takes two more processes.
    monkeypatch.setattr(neuron.profiler, "capture", lambda *_: (both[0].profile, ()))
    notebook.shell.push({"x": X})
    shown = notebook.good(CELL)
    assert "measured on trn2.3xlarge, core 2; in `doubled_result`" in shown
    assert "the result: device against simulator: max abs error" in shown
    assert "doubled on trn2, modelled" in shown  # beside what was measured
    result = notebook["doubled_result"]
    assert result.origin == "measured on trn2, core 1" and result.modelled is not None
    (name, (_, text)), *_ = result.run._call.files.sources.items()
    lines = text.splitlines()
    assert lines[2] == "def doubled(x):" and lines[:2] == ["", ""]  # as in the cell
    assert (result.run.folder.path / name).read_text() == text


@pytest.mark.thorough
def test_who_holds_the_core_is_told(both, machine):
    machine.occupy(pid=4711, command="python train.py", cores=(0, 1, 2, 3))
    try:
        with pytest.raises(DeviceBusy, match=r"cores are held by process 4711 \(python train.py\)"):
            nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron")
    finally:
        machine.change(busy=[])
    machine.plant("killed")
    with pytest.raises(ProcessDied, match="SIGKILL"):
        nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron")


@pytest.mark.thorough
def test_notifications_that_overflow_are_left_out(both, machine):
    result = nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron", core=2)
    machine.plant("overflow")
    assert result.profile.total_ns and any(
        "notifications overflowed" in f.message for f in result.findings
    )


def test_a_chip_that_is_not_there_and_a_core_that_is_not_there(machine, monkeypatch):
    with pytest.raises(ToolchainError, match="to be compiled for trn1, and the device is trn2"):
        nki_lab.run(scaled_sum, X, Y, backend="neuron", target="trn1")
    with pytest.raises(NoDevice, match="there is no core 9: the devices have 0, 1, 2, 3"):
        nki_lab.run(scaled_sum, X, Y, backend="neuron", core=9)
    with pytest.raises(
        ToolchainError, match="running 2 ranks is not supported by the backend `neuron`"
    ):
        nki_lab.launch(scaled_sum, 2, (X, Y), backend="neuron")
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "1,2-3")
    with pytest.raises(NoDevice, match="core 0 is not one of NEURON_RT_VISIBLE_CORES=1,2-3"):
        nki_lab.run(scaled_sum, X, Y, backend="neuron")
    assert neuron._toolchain(nki_lab.choices.Choices.current().replace(core=3)).chip == "trn2"


def test_a_device_that_is_not_there_is_told_at_once(tmp_path, monkeypatch, command: Command, write):  # noqa: F811
    settled(
        Machine(tmp_path / "none", generation="", ls="", tools=(), runner="", has_devices=False),
        monkeypatch,
    )
    start = time.monotonic()
    with pytest.raises(
        NoDevice,
        match=r"(?s)no Neuron device was found.*neuron-ls: not installed.*help: .*simulator; .*install",
    ):
        nki_lab.run(scaled_sum, X, Y, backend="neuron")
    assert time.monotonic() - start < 10  # less than one second on a machine of its own
    write("k.py", "import nki.language as nl\n\n\ndef k(x):\n    return x\n")
    outcome = command("run", "k.py:k", "--input", "x=randn:128x8", "--backend", "both")
    assert outcome.exit_code == 1 and "no Neuron device was found" in outcome.stderr
    monkeypatch.setenv("NKI_SIMULATOR", "0")
    with pytest.raises(NoDevice):
        scaled_sum(X, Y)
    np.testing.assert_allclose(
        nki_lab.run(scaled_sum, X, Y.copy(), backend="simulator").value, EXPECTED, 1e-5
    )


def test_reports_of_neuron_bench_are_read(tmp_path):
    report = {"runs": [{"name": "k", "latency": {"p0": 4, "p50": 5, "p99": 9.5, "page": 1}}]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert bench_percentiles(tmp_path, "p50: 7") == {0: 4.0, 50: 5.0, 99: 9.5}
    (tmp_path / "report.json").write_text("{")
    assert bench_percentiles(tmp_path, "p0: 4  p50: 7  p99: 8.5\n") == {0: 4.0, 50: 7.0, 99: 8.5}
    with pytest.raises(ToolchainError, match="told no percentiles"):
        bench_percentiles(tmp_path / "none", "NEFF loaded")


def test_folders_of_runs_and_locks(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert neuron.runs_folder(nki_lab.choices.Choices(device_runs="runs")) == tmp_path / "runs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept = neuron.runs_folder(nki_lab.choices.Choices())
    assert kept == tmp_path / "cache" / "nki_lab" / "device_runs"


def test_differences_say_what_and_where():
    expected = np.array([[1.0, np.nan, np.inf], [0.0, 4.0, -2.0]])
    assert "agree in every bit" in neuron.difference_text(expected, expected)
    found = np.array([[1.0, np.nan, 3.0], [0.5, 4.0, -2.5]])
    text = neuron.difference_text(found, expected)
    assert text.startswith(
        "1 elements are NaN or infinite on one of both, the first at [0, 2]: 3, modelled inf"
    )
    assert "max abs error 0.5 at [1, 0] (0.5, modelled 0), max rel error 0.25 at [1, 2]" in text
    empty = np.zeros((0, 3))
    assert "agree" in neuron.difference_text(empty, empty)


# -- other generations, chips and tools ------------------------------------------------------------------------------


def beta1_kernel():
    with aliases():
        scope = {}
        text = (
            "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n\n\n"
            "@nki.jit\ndef added(a, b, out):\n"
            "    nl.store(out, nl.load(a) * 2.0 + nl.load(b))\n"
        )
        keep_lines("<beta1>", text)
        exec(compile(text, "<beta1>", "exec"), scope)
    return scope["added"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("generation", "chip", "tools", "runner", "source"),
    [
        ("beta1", "trn1", ("neuron-profile",), "", "nki.benchmark"),
        ("beta1", "inf2", ("neuron-explorer", "neuron-bench"), "nrtpy", "nki.benchmark"),
        ("nki-0.6", "trn3", ("neuron-explorer",), "spike", "spike"),
        ("nki-0.6", "trn2", ("neuron-profile", "neuron-bench"), "nrtpy", "neuron-bench"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_generation_runs_times_and_profiles(
    tmp_path, monkeypatch, generation, chip, tools, runner, source
):
    there = Machine(tmp_path / "m", generation, chip, ls="instance", tools=tools, runner=runner)
    settled(there, monkeypatch)
    there.change(value_error=ERROR)
    out = np.zeros_like(X)
    if generation == "beta1":
        result = nki_lab.run(beta1_kernel(), X, Y, out, backend="neuron")
        value, expected = out, 2 * X + Y  # a kernel of output parameters returns nothing
    else:
        result = nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron")
        value, expected = result.value, EXPECTED
    np.testing.assert_allclose(value, expected, 3 * ERROR, 1e-6)
    assert result.origin.startswith("measured on ") and not result.profile.is_simulation
    assert result.profile.count("Instruction") and result.lines()
    timed = result.benchmark()
    assert timed.source == source and timed.iterations == 100
    assert timed.latency_ns == pytest.approx(result.profile.total_ns, rel=0.3)


@pytest.mark.thorough
def test_what_is_missing_is_told(tmp_path, monkeypatch):
    there = Machine(tmp_path / "m", "nki-0.6", ls="instance", tools=(), runner="")
    settled(there, monkeypatch)
    with pytest.raises(PackageMissing, match=r"written for neuronxcc\.nki.*; it has nki"):
        nki_lab.run(beta1_kernel(), X, Y, np.zeros_like(X), backend="neuron")
    result = nki_lab.run(scaled_sum, X, Y.copy(), backend="neuron")
    assert "neither neuron-explorer nor neuron-profile is installed" in repr(result)
    assert repr(result).startswith("scaled_sum: measured on trn2, core 0; ")
    with pytest.raises(ToolchainError, match="neuron-bench, nrtpy and spike are not installed"):
        result.benchmark()
    shutil.rmtree(result.run.folder.path)
    with pytest.raises(ToolchainError, match="the NEFF is not in the run folder"):
        result.benchmark()
    other = Machine(tmp_path / "old", "nki-0.2", ls="instance")
    settled(other, monkeypatch)
    with pytest.raises(
        PackageMissing, match=r"nki 0\.1 and 0\.2 do not run kernels on NumPy arrays"
    ):
        nki_lab.run(scaled_sum, X, Y, backend="neuron")


@pytest.mark.thorough
def test_two_physical_cores_and_narrow_dtypes(machine):
    @nki.jit
    def halves(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        part = nl.ds(nl.program_id(0) * (x.shape[1] // 2), x.shape[1] // 2)
        nl.store(out[:, part], nl.load(x[:, part]))
        return out

    machine.change(value_error=0.0)
    try:
        x = X.astype(ml_dtypes.bfloat16)
        for _ in range(2):  # compiled, then loaded by nrtpy, which hands bfloat16 back as bytes
            result = nki_lab.run(halves[2], x, backend="neuron")
            assert result.value.dtype == x.dtype
            np.testing.assert_array_equal(result.value.view(np.uint16), x.view(np.uint16))
            assert result.run.folder.described["environment"]["NEURON_LOGICAL_NC_CONFIG"] == "2"
    finally:
        machine.change(value_error=ERROR)


@pytest.mark.thorough
def test_prebuilt_kernels_are_timed_on_the_device(machine, command: Command):  # noqa: F811
    words = (
        "bench",
        "softmax",
        "--small",
        "--dtype",
        "float32",
        "--backend",
        "neuron",
        "--iters",
        "20",
    )
    outcome = command(*words)
    assert outcome.exit_code == 0, outcome.output
    assert "times are measured on trn2, core 0" in outcome.stdout
    modelled = command(*words[:5], "--target", "trn2")
    rows = [
        float(o.stdout.splitlines()[1].split()[4].replace(",", "")) for o in (outcome, modelled)
    ]
    assert 1.02 < rows[0] / rows[1] < 1.6  # Vector takes 1.5 times as long there
