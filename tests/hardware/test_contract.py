"""What the official tools and packages do, asked of the stand-ins, and with `-m neuron` of the real ones.

A machine with a device holds the stand-ins to the truth: there, each of these tests runs a second time.
"""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml

from nki_lab.choices import Choices
from nki_lab.hardware.probe import probe
from nki_lab.profiler.schema import TABLES
from tests.hardware.standins import Machine, contract

KERNEL = """\
import numpy as np
import nki
import nki.language as nl


@nki.jit
def scaled_sum(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.multiply(nl.load(a), 3.0), nl.load(b)))
    return out


a = np.random.default_rng(5).standard_normal((128, 24)).astype(np.float32)
b = np.random.default_rng(6).standard_normal((128, 24)).astype(np.float32)
np.save("a.npy", a)
np.save("b.npy", b)
np.save("out.npy", scaled_sum(a, b))
"""
RUNNER = """\
import numpy as np
from nrtpy import NrtpyModel, NrtpyTensor

model = NrtpyModel.load_from_neff("art/kernel.neff")
inputs = {name: NrtpyTensor.from_numpy(np.load(f"{name}.npy"), name=name) for name in model.input_tensors_info}
[(name, output)] = model(inputs=inputs).items()
np.save("ran.npy", output.numpy().view(np.float32))
stats = model.benchmark(inputs=inputs, warmup_iter=2, benchmark_iter=10)
print(name, stats.min_ms <= stats.mean_ms <= stats.max_ms, 0 < stats.mean_ms < 1)
"""
DEBUG = {"NKI_DEBUG_INFO": "True", "NEURON_FRAMEWORK_DEBUG": "1"}


class Site:
    """A machine with the tools: made of stand-ins, or real."""

    def __init__(self, folder: Path, machine: Machine | None) -> None:
        self.folder, self.machine = folder, machine
        choices = Choices.current()
        self.python = (
            machine.python if machine else choices.neuron_python or shutil.which("python3")
        )
        self.runner_python = machine.runner_python if machine else choices.runner_python
        self.profiler = (
            "neuron-explorer" if machine or shutil.which("neuron-explorer") else "neuron-profile"
        )

    def call(self, *words: object, **more: str) -> subprocess.CompletedProcess:
        environ = self.machine.environ if self.machine else dict(os.environ)
        return subprocess.run(
            [str(word) for word in words], env=environ | {"NEURON_RT_VISIBLE_CORES": "0"} | more, cwd=self.folder,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    def view(self, kind: str, *words: str) -> str:
        """Export the profile, and return what was printed."""
        done = self.call(
            self.profiler, "view", "-n", "art/kernel.neff", "-s", "profile_exec_2.ntff", "--output-format", kind, *words
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(
    scope="module", params=["stand-ins", pytest.param("real", marks=pytest.mark.neuron)]
)
def site(request, tmp_path_factory) -> Site:
    """Compile, run and capture a kernel."""
    folder = tmp_path_factory.mktemp("site")
    if request.param == "real":
        report = probe()
        if not report.is_usable or report.packages.generation != "nki":
            pytest.skip(
                "no Neuron device, or no nki 0.3 or newer: nki-lab doctor says what is missing"
            )
        site = Site(folder, None)
    else:
        site = Site(folder, Machine(folder / "machine"))
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "runner.py").write_text(RUNNER)
    ran = site.call(site.python, "kernel.py", NKI_ARTIFACTS_DIR="art", **DEBUG)
    assert ran.returncode == 0, ran.stderr
    captured = site.call(
        site.profiler, "capture", "-n", "art/kernel.neff", "-s", "profile.ntff", "--profile-nth-exec=2",
        "--enable-dge-notifs", "--save-output", "a", "a.npy", "b", "b.npy",
    )  # fmt: skip
    assert captured.returncode == 0, captured.stderr
    site.captured = captured.stdout
    return site


def test_a_kernel_runs_standalone_on_arrays(site):
    a, b, out = (np.load(site.folder / f"{name}.npy") for name in ("a", "b", "out"))
    assert np.abs(out - (3 * a + b)).max() < 1e-5


def test_a_neff_is_a_header_and_a_tar(site):
    about = contract()["neff"]
    content = (site.folder / "art" / contract()["nki-0.6"]["neff"]).read_bytes()
    header = struct.unpack(about["header"], content[: about["header_size"]])
    assert header[1] == about["header_size"]
    assert content[about["header_size"] :][:2] == b"\x1f\x8b"


def test_an_execution_is_named_in_the_name_of_its_capture(site):
    suffix = contract()["capture"]["nth_suffix"].format(n=2)
    assert {path.name for path in site.folder.glob("*.ntff")} == {f"profile{suffix}.ntff"}
    name, file = site.captured.split('saved output "')[-1].split('"')[::2][:2]
    assert site.captured.splitlines()[-1] == contract()["capture"]["saved"].format(
        name=name, file=file
    )
    raw = np.frombuffer((site.folder / file).read_bytes(), np.float32)
    assert np.array_equal(raw.reshape(128, 24), np.load(site.folder / "out.npy"))


def test_neuron_ls_prints_the_documented_fields(site):
    rows = json.loads(site.call("neuron-ls", "--json-output").stdout)
    rows = rows["neuron_devices"] if isinstance(rows, dict) else rows
    fields = set(contract()["neuron-ls"]["device"]) - {"logical_neuroncore_config"}
    for row in rows:
        assert fields <= row.keys()
        assert row["neuron_processes"] == []  # what ran before has ended, and holds nothing


def test_a_summary_holds_metrics_of_the_schema_in_seconds(site):
    [(key, metrics)] = json.loads(site.view("summary-json")).items()
    assert key.startswith("n_")
    assert len(metrics.keys() & TABLES["Summary"].keys()) > 20
    assert 0 < metrics["total_time"] < 1e-2
    assert all(
        0 <= metrics[name] <= 1 for name in metrics if name.endswith("_engine_active_time_percent")
    )


@pytest.mark.thorough
def test_a_summary_goes_to_a_file_or_is_refused(site):
    refused = site.call(
        site.profiler, "view", "-n", "art/kernel.neff", "-s", "profile_exec_2.ntff", "--output-format", "summary-json",
        "--output-file", "summary.json",
    )  # fmt: skip
    assert refused.returncode or (site.folder / "summary.json").exists()


def test_the_older_json_holds_instructions_with_lines(site):
    site.view("json", "--output-file", "profile.json")
    document = json.loads((site.folder / "profile.json").read_text())
    about = contract()["view"]["json"]
    assert document["instruction"]
    for row in document["instruction"]:
        assert row.keys() >= set(about["instruction"])
    assert {"kernel.py:9", "kernel.py:10"} & {
        row["nki_source_location"].rpartition("/")[2] for row in document["instruction"]
    }
    assert document["dma"]
    assert {name for row in document["dma"] for name in row} >= set(about["dma"])


@pytest.mark.thorough
def test_parquet_lies_in_a_folder_for_each_name(site):
    folder = contract()["view"]["parquet"]["folder"].format(name="mine")
    site.view("parquet", "--data-path", "data", "--display-name", "mine", "--ingest-only")
    tables = {
        path.stem.partition("_")[0] for path in (site.folder / "data" / folder).glob("*.parquet")
    }
    assert {"Instruction", "Summary", "Metadata"} <= tables


@pytest.mark.thorough
def test_a_runner_loads_a_neff_by_the_names_of_its_parameters(site):
    if not site.runner_python:
        pytest.skip("NKI_LAB_RUNNER_PYTHON names no interpreter with nrtpy")
    done = site.call(site.runner_python, "runner.py")
    assert done.stdout == "output_0 True True\n", done.stderr
    assert np.array_equal(np.load(site.folder / "ran.npy"), np.load(site.folder / "out.npy"))


@pytest.mark.thorough
def test_the_schema_is_ours(site):
    """Drift of the schema shows here: tables or columns that we have and the tool has not, or of another type."""
    told = site.call("neuron-explorer", "--show-profile-schema")
    schemas = yaml.safe_load(told.stdout)["components"]["schemas"]
    kinds = {
        "int64": "integer",
        "int32": "integer",
        "float": "number",
        "string": "string",
        "bool": "boolean",
    }
    for table, fields in TABLES.items():
        assert table in schemas
        properties = schemas[table]["properties"]
        for field in fields.values():
            assert properties[field.name]["type"] == kinds[field.type], f"{table}.{field.name}"


@pytest.mark.thorough
def test_a_process_holds_its_cores_until_it_ends(site):
    (site.folder / "holds.py").write_text(
        KERNEL + "print('ran', flush=True)\nimport sys\nsys.stdin.read()\n"
    )
    environ = site.machine.environ if site.machine else dict(os.environ)
    holder = subprocess.Popen(
        [str(site.python), "holds.py"], cwd=site.folder, env=environ | {"NEURON_RT_VISIBLE_CORES": "0"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while holder.stdout.readline() not in ("ran\n", ""):
            pass
        users = [
            u["pid"]
            for row in json.loads(site.call("neuron-ls", "-j").stdout)
            for u in row["neuron_processes"]
        ]
        assert users == [holder.pid]
        second = site.call(site.python, "kernel.py")
        assert second.returncode
        assert "NRT:nrt_allocate_neuron_cores" in second.stderr
        assert "NeuronCore(s) not available - Requested:nc0-nc0" in second.stderr
    finally:
        holder.communicate()
    assert site.call(site.python, "kernel.py").returncode == 0


@pytest.mark.thorough
def test_a_logical_core_of_another_size_is_refused(site):
    refused = site.call(site.python, "kernel.py", NEURON_LOGICAL_NC_CONFIG="2")
    assert refused.returncode
