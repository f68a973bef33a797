"""Tests that every way to run a kernel gives the same answer to the same mistake, once for its place."""

import os
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab import NkiWarning
from nki_lab.api import isa as nisa
from nki_lab.errors import NkiError, RawEnum, RemovedLoop, UnknownOption
from nki_lab.runtime import jit, launch, run, simulate, step
from nki_lab.session.reading import parse_line
from nki_lab.session.request import session

X = np.random.default_rng(5).standard_normal((32, 6)).astype(np.float32)


def stored(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


def dge(x):
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=t, src=x, dge_mode=2)
    return stored(t)


def engine(x):
    t = nl.load(x)
    nisa.tensor_copy(dst=t, src=t, engine=5)
    return stored(t)


def reduce_cmd(x):
    t = nl.load(x)
    total = nl.ndarray((32, 1), nl.float32)
    nisa.activation(dst=t, data=t, op=nl.copy, reduce_op=nl.add, reduce_res=total, reduce_cmd=3)
    return stored(t)


def oob_mode(x):
    t = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=t, src=x, oob_mode=0)
    return stored(t)


RAW = [dge, engine, reduce_cmd, oob_mode]


def older_loop(x):
    t = nl.load(x)
    for _ in nl.dynamic_range(2):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    return stored(t)


def unwritten(x):
    t = nl.ndarray(x.shape, x.dtype)
    t2 = nl.load(x)
    nisa.tensor_tensor(dst=t2, data1=t2, data2=t, op=nl.add)
    return stored(t2)


def zipped(x):
    t = nl.load(x)
    for k, value in zip((0, 1), (1.0, 2.0)):  # noqa: B905
        nisa.memset(dst=t[:, k : k + 1], value=value)
    return stored(t)


def _session(kernel: Callable) -> list:
    with session(parse_line("%%nki", "")) as runs:
        kernel(X)
    return [runs[-1]]


#: Each way runs a kernel and returns its Results, where it has some.
DOORS = {
    "run": lambda k: [run(k, X)],
    "kernel(x)": lambda k: k(X) is None or [],
    "nki.simulate": lambda k: simulate(k.func)(X) is None or [],
    "compile": lambda k: k.compile(X)(X) is None or [],
    "launch": lambda k: launch(k, 1, [(X,)]),
    "step": lambda k: step(k, X) is None or [],
    "benchmark": lambda k: [nki_lab.benchmark(k, X)],
    "debug": lambda k: jit(k.func, debug=True)(X) is None or [],
    "cell": lambda k: _session(k),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kernel", RAW)
def test_a_raw_integer_for_a_member_is_an_error_through_every_door(kernel, door):
    with pytest.raises(RawEnum, match=r"refused since NKI 0\.3") as caught:
        DOORS[door](jit(kernel))
    assert "NKI 0.2 was the last version that took it" in str(caught.value)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kernel", RAW)
def test_an_older_kernel_is_allowed_through_every_door(kernel, door, monkeypatch):
    monkeypatch.setenv("NKI_LAB_ALLOW", "NKI206")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        results = DOORS[door](jit(kernel))
    findings = [f.message for r in results for f in r.findings] + [str(w.message) for w in told]
    if door != "step":  # its view has them
        assert any("a raw value of" in text for text in findings)


def test_what_is_allowed_can_be_said_to_each_python_door():
    expected = X
    for given in (
        run(dge, X, allow="NKI206").value,
        launch(dge, 1, [(X,)], allow="NKI206")[0].value,
        jit(dge, allow="NKI206")(X),
        jit(allow="NKI206")(dge)(X),
        simulate(jit(dge, allow="NKI206"))(X),
    ):
        assert np.array_equal(given, expected)
    assert nki_lab.benchmark(dge, X, allow="NKI206").latency_ns > 0
    assert step(dge, X, allow="NKI206").order.size
    with pytest.raises(RawEnum):  # and stays nowhere
        jit(dge)(X)


def test_allowing_what_no_older_nki_allowed_is_an_error(monkeypatch):
    with pytest.raises(UnknownOption, match="`NKI203` cannot be allowed"):
        run(dge, X, allow="NKI203")
    monkeypatch.setenv("NKI_LAB_ALLOW", "NKI2O6")
    with pytest.raises(UnknownOption, match="did you mean `NKI206`"):
        jit(dge)(X)


def test_allowed_kernels_are_errors_under_strict():
    with pytest.raises(RawEnum):
        run(dge, X, allow="NKI206", strict=True)


@pytest.mark.parametrize("door", DOORS)
def test_what_a_version_takes_and_another_refuses_is_so_through_every_door(door, monkeypatch):
    monkeypatch.setenv("NKI_LAB_NKI", "0.7")
    with pytest.raises(RemovedLoop, match=r"(?s)refused since NKI 0\.7.*NKI 0\.6 was the last"):
        DOORS[door](jit(older_loop))
    monkeypatch.setenv("NKI_LAB_NKI", "0.5")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DOORS[door](jit(older_loop))


WARNED = [
    (older_loop, "nl.dynamic_range is deprecated", "for _ in nl.dynamic_range(2):"),
    (unwritten, "were never written", "nisa.tensor_tensor(dst=t2"),
    (zipped, "its parser does not", "in zip("),
]


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize(("kernel", "words", "line"), WARNED)
@pytest.mark.parametrize("door", ["kernel(x)", "nki.simulate", "compile"])
def test_each_finding_is_a_warning_at_the_authors_line(kernel, words, line, door):
    with pytest.warns(NkiWarning) as told:
        DOORS[door](jit(kernel))
    warning = next(w for w in told if w.category is NkiWarning)
    assert warning.filename == __file__
    with open(__file__, encoding="utf-8") as file:
        assert line in file.read().splitlines()[warning.lineno - 1]
    assert words in str(warning.message)


@pytest.mark.usefixtures("nki_0_6")
def test_a_benchmark_has_findings_and_warns_of_serious_ones():
    with pytest.warns(NkiWarning, match="were never written"):
        nki_lab.benchmark(unwritten, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        timed = nki_lab.benchmark(older_loop, X)
    assert "deprecation" in {f.kind for f in timed.findings}


@pytest.mark.usefixtures("nki_0_6")
def test_a_finding_is_told_once_for_its_place():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        kernel = jit(older_loop)
        for _ in range(5):
            kernel(X)
            kernel.compile(X)(X)
            simulate(older_loop)(X)
    assert len([w for w in told if w.category is NkiWarning]) == 1


def test_a_finding_with_other_numbers_is_the_same_finding():
    def logs(x):
        t = nl.load(x)
        nisa.activation(dst=t, data=t, op=nl.log)
        return stored(t)

    kernel = jit(logs)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for count in (1, 5, 170):
            x = np.ones((32, 6), np.float32)
            x.flat[:count] = -1
            kernel(x)
    assert len(told) == 1
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kernel(x)
        kernel(x)
    assert len(told) == 2


def test_findings_of_one_line_that_differ_in_numbers_are_all_told():
    def two(x):
        tile1 = nl.ndarray(x.shape, x.dtype)
        tile2 = nl.ndarray(x.shape, x.dtype)
        t = nl.load(x)
        nisa.tensor_tensor(dst=t, data1=tile1, data2=tile2, op=nl.add)
        return stored(t)

    kernel = jit(two)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        kernel(X)
        kernel(X)
    texts = [str(w.message) for w in told]
    assert [text.split("`")[1] for text in texts] == ["tile1", "tile2"]


@pytest.mark.usefixtures("nki_0_6")
def test_whoever_shows_findings_is_not_warned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {f.kind for f in run(older_loop, X).findings} >= {"deprecation"}
        with session(parse_line("%%nki", "")) as runs:
            jit(older_loop)(X)
        assert runs[-1].findings


@pytest.mark.usefixtures("nki_0_6")
def test_warnings_can_be_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", NkiWarning)
        with pytest.raises(NkiWarning, match="deprecated"):
            jit(older_loop)(X)


# -- the chip and the cores -------------------------------------------------------------------------------------------


@pytest.fixture
def nothing_chosen(monkeypatch):
    from nki_lab.choices import forget_choices

    monkeypatch.setenv(
        "NEURON_PLATFORM_TARGET_OVERRIDE", "trn3"
    )  # what is put back is what there was
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    forget_choices()
    yield
    forget_choices()


def chip(**choices) -> str:
    return run(zipped, X, **choices).kernel.target.name


@pytest.mark.usefixtures("nothing_chosen")
class TestChosen:
    def test_a_plain_call_holds_from_now_on(self):
        nki_lab.use_target("trn1")
        assert chip() == "trn1"
        assert chip(target="trn2") == "trn2"
        nki_lab.use_target("gen3")
        assert chip() == "trn2"
        assert os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2"

    def test_a_block_ends(self):
        with nki_lab.use_target("trn1"):
            assert chip() == "trn1"
            with nki_lab.use_target("trn2"):
                assert chip() == "trn2"
            assert chip() == "trn1"
        assert chip() == "trn3"
        assert "NEURON_PLATFORM_TARGET_OVERRIDE" not in os.environ

    def test_a_block_ends_in_what_was_chosen_before_and_inside(self):
        nki_lab.use_target("trn1")
        with nki_lab.use_target("trn2"):
            assert chip() == "trn2"
        assert chip() == "trn1"

    def test_a_function_may_be_decorated_and_a_choice_used_again(self):
        choice = nki_lab.use_target("trn2")

        @nki_lab.use_target("trn1")
        def decorated(depth=2):
            return [chip()] + (decorated(depth - 1) if depth else [])

        assert decorated() == ["trn1"] * 3
        assert chip() == "trn2"
        for _ in range(2):
            with choice, choice:
                assert chip() == "trn2"
            assert chip() == "trn3"

    def test_a_wrong_name_is_told_by_the_call(self):
        with pytest.raises(NkiError, match="trn0"):
            nki_lab.use_target("trn0")
        assert chip() == "trn3"

    def test_none_changes_nothing(self):
        nki_lab.use_target(None)
        with nki_lab.use_target(None):
            assert chip() == "trn3"

    def test_the_environment_set_later_wins(self, monkeypatch):
        nki_lab.use_target("trn1")
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
        assert chip() == "trn2"

    def test_cores_likewise(self):
        def kernel(x):
            counts.append((nl.num_programs(), nl.program_ndim()))
            return stored(nl.load(x))

        counts: list[tuple[int, int]] = []
        k = jit(kernel)
        k(X)
        with nki_lab.use_cores(2):
            k(X)
            k[1](X)
        k(X)
        nki_lab.use_cores(1)
        k(X)
        assert counts == [(1, 0), (2, 1), (2, 1), (1, 1), (1, 0), (1, 1)]
        with pytest.raises(NkiError, match="1 or 2 cores"):
            nki_lab.use_cores(3)


@pytest.mark.parametrize(("launched", "axes"), [(None, 0), (1, 1), (2, 1), ((2,), 1)])
def test_axes_of_the_grid(launched, axes):
    """NKI's page of program_ndim: the number of axes, 0 where there is no grid."""

    def kernel(x):
        found.append(nl.program_ndim())
        return stored(nl.load(x))

    found: list[int] = []
    k = jit(kernel)
    (k if launched is None else k[launched])(X)
    assert set(found) == {axes}


@pytest.mark.parametrize(
    "make",
    [
        lambda: nl.ndarray((4, 4), None),
        lambda: nl.ndarray((4, 4), dtype=None, buffer=nl.shared_hbm),
        lambda: nl.zeros((4, 4), None),
        lambda: nl.ones((4, 4), None),
        lambda: nl.full((4, 4), 2, None),
        lambda: nl.rand((4, 4), None),
        lambda: nl.shared_identity_matrix(4, dtype=None),
    ],
)
@pytest.mark.parametrize("door", ["run", "kernel(x)", "nki.simulate"])
def test_a_tensor_has_a_dtype(make, door):
    def kernel(x):
        make()
        return stored(nl.load(x))

    with pytest.raises(NkiError, match="dtype None is not an NKI dtype"):
        DOORS[door](jit(kernel))


def test_none_is_the_dtype_of_the_other_tensor_where_there_is_one():
    def kernel(x):
        assert nl.zeros_like(x, dtype=None).dtype is nl.float32
        assert nl.empty_like(x, None).dtype is nl.float32
        return stored(nl.add(nl.load(x, dtype=None), 1.0, dtype=None))

    assert np.array_equal(jit(kernel)(X), X + 1)


def test_the_text_of_a_result_has_its_findings():
    def unwritten(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=out, src=tile)
        return out

    result = nki_lab.run(unwritten, np.ones((4, 8), np.float32))
    assert "elements of src = `tile`" in str(result) and "never written" in str(result)
