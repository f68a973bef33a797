"""Tests of what runs kernels of the older dialect: modes of nki.jit, baremetal, benchmark, profile, simulate_kernel."""

import json

import numpy as np
import pytest

import nki_lab
from nki_lab.api import nki as today
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.errors import (
    KernelArgument,
    MixedDialects,
    NotModelled,
    UnknownName,
    UnknownTarget,
    WrongCall,
)
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.load import load

rng = np.random.default_rng(6)
A, B = (rng.standard_normal((128, 24)).astype(np.float32) for _ in range(2))


def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) + nl.load(b))
    return out


def add_into(a, b, out):
    """Write the sum into an argument, as kernels did before 2.22."""
    i = nl.program_id(0) * 64 + nl.arange(64)[:, None]
    j = nl.arange(24)[None, :]
    nl.store(out[i, j], nl.load(a[i, j]) + nl.load(b[i, j]))


def modelled_us():
    return nki_lab.run(nki.jit(add), A, B).profile.total_ns / 1000


@pytest.mark.parametrize(
    "mode", ["auto", "jax", "torchxla", "baremetal", "benchmark", "simulation", "trace"]
)
def test_every_mode_computes_the_same(mode):
    np.testing.assert_array_equal(nki.jit(mode=mode)(add)(A, B), A + B)
    np.testing.assert_array_equal(nki.jit(add, mode)(A, B), A + B)


def test_an_unknown_mode_or_argument_is_an_error_that_names_it():
    with pytest.raises(KernelArgument, match=r"mode='simulate'\): there is no such mode") as caught:
        nki.jit(mode="simulate")
    assert "`simulation`" in caught.value.help
    for decorator in (nki.jit, nki.baremetal, nki.benchmark, nki.trace):
        with pytest.raises(KernelArgument, match="has no argument `iterations`"):
            decorator(iterations=3)(add)
    kernel = nki.jit(
        kernel_return=True, experimental_flags="x", show_compiler_tb=True, debug_kernel=True
    )(add)
    np.testing.assert_array_equal(kernel(A, B), A + B)


def test_platform_target_chooses_the_chip():
    assert nki_lab.run(nki.jit(platform_target="trn2")(add), A, B).compiled.target.name == "trn2"
    with pytest.raises(UnknownTarget, match="trn9"):
        nki.jit(platform_target="trn9")(add)


def test_simulate_kernel_takes_functions_kernels_and_grids_and_writes_outputs_by_argument():
    np.testing.assert_array_equal(nki.simulate_kernel(add, A, b=B), A + B)
    np.testing.assert_array_equal(nki.simulate_kernel(nki.trace(add), A, B), A + B)
    out = np.zeros_like(A)
    assert nki.simulate_kernel(nki.jit(add_into)[2], A, B, out) is None
    np.testing.assert_array_equal(out, A + B)


def test_a_benchmark_takes_the_description_of_a_tensor():
    @nki.benchmark
    def kernel(a, b):
        assert a.shape == (128, 24) and a.dtype is nl.bfloat16
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a) + nl.load(b))
        return out

    spec = nki.typing.tensor[[128, 24], nl.bfloat16]
    out = kernel(spec, b=nki.typing.mutable_tensor[(128, 24), "float32"])
    np.testing.assert_array_equal(out, np.zeros((128, 24)))
    assert kernel.benchmark_result.nc_latency.microseconds > 0
    with pytest.raises(KernelArgument, match="class 'tensor', without a shape and an element type"):
        kernel(nki.typing.tensor[128, 24], B)


def test_tensors_of_torch_go_in_and_come_out():
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    result = nki.jit(add)(a, b)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), A + B)
    out = torch.zeros(128, 24)
    nki.jit(add_into)[2](a, b, out)
    np.testing.assert_array_equal(out.numpy(), A + B)


# -- benchmark -------------------------------------------------------------------------------------------------------


def test_a_benchmark_has_the_modelled_latency_in_microseconds(capsys):
    kernel = nki.benchmark(warmup=2, iters=5)(add)
    np.testing.assert_array_equal(kernel(A, B), A + B)
    latency = kernel.benchmark_result.nc_latency
    assert {latency.get_latency_percentile(p) for p in (0, 1, 10, 25, 50, 90, 99, 100)} == {modelled_us()}  # fmt: skip
    assert "nki.benchmark add: " in (printed := capsys.readouterr().out)
    assert "modelled for trn2 by nki_lab; nothing was measured" in printed
    with pytest.raises(KernelArgument, match=r"get_latency_percentile\(95\)"):
        latency.get_latency_percentile(95)


def test_a_benchmark_of_a_grid_is_found_at_the_kernel():
    kernel = nki.benchmark(add_into)
    with pytest.raises(NotModelled, match="has not been called"):
        kernel.benchmark_result  # noqa: B018
    kernel[2](A, B, np.zeros_like(A))
    assert kernel.benchmark_result.nc_latency.microseconds > 1
    by_run = nki.benchmark(add)
    nki_lab.run(by_run, A, B)
    assert by_run.benchmark_result.nc_latency.microseconds == modelled_us()


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_profile_writes_program_and_profiles_where_the_official_files_are(tmp_path, capsys):
    """The names are those that nki-samples' test of nki.profile expects (test/unit/test_neuron_profile.py)."""
    folder = tmp_path / "new"
    asked = {"save_neff_name": "k.neff", "save_trace_name": "run.ntff", "profile_nth": 10, "num_execs": 20}  # fmt: skip
    kernel = nki.profile(working_directory=str(folder), **asked)(add)
    np.testing.assert_array_equal(kernel(A, B), A + B)
    assert {p.name for p in folder.iterdir()} == {
        "k.neff", "run_exec_10.ntff", "run_exec_20.ntff", "json_reports",
    }  # fmt: skip
    np.testing.assert_array_equal(load(folder / "k.neff")(A, B), A + B)
    assert Profile.load(folder / "run_exec_20.ntff").total_ns / 1000 == modelled_us()
    reports = sorted((folder / "json_reports").iterdir())
    assert len(reports) == 2
    assert json.loads(reports[0].read_text())["modelled_by"] == "nki_lab"
    assert "no NEFF was made, and nothing was measured" in capsys.readouterr().out
    with pytest.raises(KernelArgument, match=r"already has k\.neff, run_exec_10"):
        kernel(A, B)
    nki.profile(working_directory=str(folder), overwrite=True, **asked)(add)(A, B)


@pytest.mark.parametrize("given", [{}, {"working_directory": "profiles"}], ids=str)
def test_a_profile_needs_an_absolute_folder(given):
    with pytest.raises(KernelArgument, match="working_directory=, an absolute path"):
        nki.profile(**given)
    with pytest.raises(KernelArgument, match="working_directory="):
        nki.profile(add)


def test_baremetal_saves_what_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kernel = nki.baremetal(save_neff_name="file.neff", save_trace_name="profile.ntff")(add)
    np.testing.assert_array_equal(kernel(A, B), A + B)
    assert Profile.load(tmp_path / "profile.ntff").total_ns / 1000 == modelled_us()
    with pytest.raises(KernelArgument, match=r"must be called 'file\.neff'"):
        nki.baremetal(save_neff_name="add.neff", save_trace_name="profile.ntff")(add)(A, B)
    nki.baremetal(artifacts_dir=str(tmp_path / "artifacts"))(add)(A, B)
    assert (tmp_path / "artifacts" / "file.neff").exists()
    with pytest.raises(KernelArgument, match="is not empty"):
        nki.baremetal(artifacts_dir=str(tmp_path / "artifacts"))(add)(A, B)


# -- bad input -------------------------------------------------------------------------------------------------------


def test_kernels_of_the_two_dialects_do_not_fit_each_others_runners():
    def modern(a, b):
        return today.language.load(a)

    for give in (nki.jit, nki.baremetal, nki.benchmark, nki.trace, nki.simulate_kernel):
        with pytest.raises(MixedDialects, match="`modern` is written in today's NKI"):
            give(modern)
    for give in (today.jit, today.simulate):
        with pytest.raises(MixedDialects, match="`add` is written in the older dialect"):
            give(add)
    with pytest.raises(MixedDialects, match="dialect nki is asked for"):
        nki_lab.run(add, A, B, dialect="nki")
    with pytest.raises(MixedDialects, match="dialect beta1 is asked for"):
        nki_lab.run(modern, A, B, nki="beta1")
    np.testing.assert_array_equal(nki_lab.run(add, A, B, nki="beta1").value, A + B)
    with pytest.raises(MixedDialects, match=r"version 0\.5 is asked for"):
        nki_lab.run(add, A, B, nki="0.5")
    with nki_lab.use(nki="0.5"):  # of kernels that do not say it themselves
        np.testing.assert_array_equal(nki.jit(add)(A, B), A + B)


def test_names_that_cannot_be_used_say_why():
    class Mine(nki.FrameworkKernel):
        pass

    with pytest.raises(NotModelled, match="Mine: it writes a kernel into a framework's HLO"):
        Mine(func_name="add", func=add, grid=(1,))
    with pytest.raises(UnknownName, match=r"neuronxcc\.nki has no `jitt`"):
        nki.jitt  # noqa: B018
    with pytest.raises(UnknownName, match=r"neuronxcc\.nki\.language has no `sinn`") as caught:
        nl.sinn  # noqa: B018
    assert "`sin`" in caught.value.help
    with pytest.raises(NotModelled, match="number that the kernel computes while it runs"):
        nki.typing.scalar(True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: nl.exp(t, maks=None), r"nl\.exp: there is no parameter `maks`"),
        (lambda t: nl.add(t), r"nl\.add: missing 1 required positional argument: 'y'"),
        (lambda t: nl.exp(t, nl.float32), r"nl\.exp: takes 1 positional argument but 2"),
        (lambda t: nl.affine_range(2, unroll=2), r"nl\.affine_range: there is no parameter `unroll`"),
    ],
)  # fmt: skip
def test_an_argument_that_no_page_lists_is_an_error_that_names_it(call, message):
    def kernel(a):
        call(nl.load(a))

    with pytest.raises(WrongCall, match=message):
        nki.jit(kernel)(A)


def test_keywords_that_public_kernels_give_are_taken():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, lazy_initialization=True)
        for _ in nl.affine_range(1, precise_schedule=True):
            t = nl.multiply(nl.load(a, name="first"), 2.0, max_free_vec_size=8)
            nl.store(out, t)
        return out

    np.testing.assert_array_equal(nki.jit(kernel)(A), A * 2)
