"""Tests the configurations of kernels, and the kinds of dependencies that came with them (NKI 0.7)."""

import pickle
import warnings

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.api.compiler import AddressRotation, CompileConfig, SpecializationConfig
from nki_lab.errors import InstructionError, KernelArgument, NestedConfiguration, NotModelled

X = np.array([[1.0, -2.0, 3.0]], np.float32)
PREFETCH = CompileConfig(prefetch_auto=True)


def pair(inner, outer):
    """Return a kernel decorated with `outer` that calls one decorated with `inner`."""

    @nki.jit(**inner)
    def double(t):
        nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)

    @nki.jit(**outer)
    def kernel(x):
        t, out = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        double(t)
        nl.store(out, t)
        return out

    return kernel


SAME = [
    ({}, {}),
    ({}, {"compile_config": PREFETCH}),
    ({"compile_config": PREFETCH}, {"compile_config": CompileConfig(prefetch_auto=True)}),
    ({"compile_config": CompileConfig()}, {}),
    ({"specialization_config": SpecializationConfig()}, {"compile_config": PREFETCH}),
]


@pytest.mark.parametrize(("inner", "outer"), SAME)
def test_kernels_of_one_configuration_are_one_kernel(inner, outer):
    result = nki_lab.run(pair(inner, outer), X)
    assert np.array_equal(result.outputs[0], 2 * X)
    assert not [f for f in result.findings if "configuration" in f.message]


DIFFERENT = [
    ({"compile_config": PREFETCH}, {}),
    ({"compile_config": PREFETCH}, {"compile_config": CompileConfig(prefetch_auto=True, barrier_check=True)}),
    ({"compile_config": CompileConfig(address_rotation=AddressRotation.DISABLE)}, {"compile_config": PREFETCH}),
]  # fmt: skip


@pytest.mark.parametrize(("inner", "outer"), DIFFERENT)
def test_a_nested_kernel_of_another_configuration(inner, outer):
    with pytest.raises(
        NestedConfiguration, match=r"(?s)kernel `double`.*allow_nested_config_override"
    ):
        pair(inner, outer)(X)
    allowed = SpecializationConfig(allow_nested_config_override=True)
    result = nki_lab.run(pair(inner, {**outer, "specialization_config": allowed}), X)
    assert np.array_equal(result.outputs[0], 2 * X)
    (finding,) = [f for f in result.findings if "configuration" in f.message]
    assert finding.kind == "portability" and "runs under that of its caller" in finding.message
    assert "<" not in finding.message, "members have their names, as they are written"


def test_the_inner_kernel_alone_has_its_configuration():
    @nki.jit(compile_config=PREFETCH)
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        return out

    assert kernel.configuration.compile == PREFETCH
    assert kernel[1].configuration.compile == PREFETCH
    assert np.array_equal(nki.simulate(kernel)(X), X)
    assert pickle.loads(pickle.dumps(PREFETCH)) == PREFETCH


CHOSEN = [
    (CompileConfig(), []),
    (CompileConfig(nki_alloc_fallback=False), ["nki_alloc_fallback"]),
    (CompileConfig(address_rotation=AddressRotation.ENABLE), ["address_rotation"]),
    (CompileConfig(non_ssa_legalization=False), ["non_ssa_legalization"]),
    (CompileConfig(dead_code_elim=True, prefetch_auto=True), ["dead_code_elim", "prefetch_auto"]),
    (CompileConfig(barrier_check=True), ["barrier_check"]),
]


def test_a_keyword_that_changes_nothing_is_told_once():
    @nki.jit(mode="auto", show_compiler_tb=True)
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
        return out

    told = [(f.kind, f.message) for f in nki_lab.run(kernel, X, strict=True).findings]
    said = "kernel `kernel`: nki.jit({}=...) changes nothing here"
    assert told == [("advice", said.format(name)) for name in ("mode", "show_compiler_tb")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(X)


@pytest.mark.parametrize(("configuration", "options"), CHOSEN)
def test_an_option_that_changes_nothing_is_told_once(configuration, options):
    kernel = pair({}, {"compile_config": configuration})
    result = nki_lab.run(kernel, X)
    assert np.array_equal(result.value, 2 * X)
    told = [f for f in result.findings if "changes neither values nor times here" in f.message]
    assert [f.message.partition("CompileConfig(")[2].partition("=")[0] for f in told] == options
    assert {f.kind for f in told} <= {"unchecked"}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        kernel(X)
        nki.simulate(kernel)(X)
    assert len([w for w in warned if "changes neither" in str(w.message)]) == 2 * len(options)


WRONG = [
    (lambda: CompileConfig(address_rotation="auto"), "is not an AddressRotation"),
    (lambda: CompileConfig(prefetch_auto=1), "prefetch_auto=1 is neither True nor False"),
    (lambda: SpecializationConfig("yes"), "neither True nor False"),
    (lambda: nki.jit(compile_config={"prefetch_auto": True}), "must be a CompileConfig, found"),
    (lambda: nki.jit(specialization_config=PREFETCH), "must be a SpecializationConfig"),
]


@pytest.mark.parametrize(("make", "message"), WRONG)
def test_refused(make, message):
    with pytest.raises(KernelArgument, match=message):
        make()


@pytest.mark.parametrize(
    ("configuration", "keyword"),
    [
        ({"compile_config": PREFETCH}, "compile_config"),
        ({"specialization_config": SpecializationConfig()}, "specialization_config"),
    ],
)
def test_kernels_for_0_6_have_no_configurations(configuration, keyword):
    words = f"`{keyword}` is new in NKI 0.7, and kernel `{{}}` is written for NKI 0.6"
    for kernel, name in ((pair({}, configuration), "kernel"), (pair(configuration, {}), "double")):
        with pytest.raises(KernelArgument, match=words.format(name)):
            nki_lab.run(kernel, X, nki="0.6")


def test_prefetching_excludes_a_ring_of_ones_own(monkeypatch):
    monkeypatch.setenv("NKI_PREFETCH_RING_SIZE", "4")
    with pytest.raises(KernelArgument, match="excludes NKI_PREFETCH_RING_SIZE"):
        CompileConfig(prefetch_auto=True)
    assert not CompileConfig().prefetch_auto


def test_unknown_names_of_the_module_are_not_modelled():
    with pytest.raises(NotModelled, match=r"nki\.compiler\.skip_middle_end_transformations"):
        nki.compiler.skip_middle_end_transformations  # noqa: B018


# -- dependencies ------------------------------------------------------------------------------------------------------


def ordered(**kind):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        first = nisa.tensor_copy(dst=b, src=a, engine=nisa.engine.vector)
        second = nisa.activation(dst=a, op=nl.copy, data=b, scale=2.0)
        assert second.depends_on(first, **kind) is second
        nisa.dma_copy(dst=out, src=a)
        return out

    return nki_lab.run(kernel, X)


def test_a_dependency_is_a_wait():
    result = ordered(kind=nisa.dependency.runtime)
    assert np.array_equal(result.outputs[0], 2 * X)
    assert " after #" in result.ir["trace"]
    assert not [f for f in result.findings if f.kind == "deprecation"]


def test_a_dependency_without_a_kind_is_deprecated():
    (finding,) = [f for f in ordered().findings if f.kind == "deprecation"]
    assert "depends_on without `kind`" in finding.message
    assert "nisa.dependency.runtime" in finding.help


def test_an_order_without_a_wait_is_not_modelled():
    with pytest.raises(NotModelled, match="without a wait"):
        ordered(kind=nisa.dependency.schedule)
    with pytest.raises(InstructionError, match=r"not a member of nisa\.dependency"):
        ordered(kind="runtime")
