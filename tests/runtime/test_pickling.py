"""Kernels go to other processes by their name, as functions do; runs, profiles and compiled kernels by value."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from types import ModuleType

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.errors import AddressOutOfRange, KernelArgument, KernelErrors, NkiError, UnknownName
from nki_lab.runtime import jit
from nki_lab.runtime.jit import KernelFunction
from tests.runtime import sent_kernels as sent

X = np.random.default_rng(5).standard_normal((16, 24)).astype(np.float32)


@pytest.fixture(autouse=True, scope="module")
def _a_main_module_as_python_makes_it() -> Iterator[None]:
    """Take away the `__main__` that an IPython of other tests has put in its place: workers begin with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", ModuleType("__main__"))
        patch.setattr(sys.modules["__main__"], "__spec__", None)
        yield


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Return a worker that begins with nothing of this process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
        yield workers


def in_pool(pool, function, *args):
    return pool.submit(function, *args).result(timeout=120)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (sent.scaled, 3 * X),
        (sent.negated, -X),
        (sent.Layer(5.0).forward, 5 * X),
        (sent.Layer.half, X / 2),
    ],
    ids=["decorated", "of a function", "method", "static method"],
)
def test_a_worker_runs_a_kernel(pool, kernel, expected):
    np.testing.assert_array_equal(in_pool(pool, sent.called, kernel, X), expected)


def test_a_pool_of_multiprocessing_maps_a_kernel():
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        results = workers.map(sent.scaled, [X, 2 * X])
    np.testing.assert_array_equal(results, [3 * X, 6 * X])


def test_a_kernel_comes_back_as_itself_with_its_choices():
    again = pickle.loads(pickle.dumps(sent.scaled))
    assert again.func is sent.scaled.func
    edges = [("second", "first")]
    chosen = jit(sent.scaled, debug=True)
    chosen = chosen[2].with_schedule(edges)
    again = pickle.loads(pickle.dumps(chosen))
    assert (again.launched_on, again.debug, again.schedule) == ((2,), True, chosen.schedule)
    assert (sent.scaled.launched_on, sent.scaled.debug) == ((), False)


def test_copies_stay_in_their_process():
    @jit
    def local(x):
        return x

    for kernel in (local, sent.scaled):
        assert copy.copy(kernel).func is kernel.func
        assert copy.deepcopy({"kernel": kernel})["kernel"] is kernel


def test_what_has_no_name_is_refused_where_it_is_sent(pool):
    @jit
    def local(x):
        return x

    with pytest.raises(pickle.PicklingError, match="it is defined inside a function"):
        pickle.dumps(local)
    other = jit(sent.plain)
    assert pickle.loads(pickle.dumps(other)).func is sent.plain
    shadowed = KernelFunction(type(sent.plain)(sent.plain.__code__, vars(sent)))
    shadowed.func.__qualname__ = "scaled"
    shadowed.func.__module__ = sent.__name__
    with pytest.raises(pickle.PicklingError, match="another object"):
        pickle.dumps(shadowed)


def test_a_kernel_that_the_worker_does_not_have_is_told_by_its_error(pool, monkeypatch):
    """A notebook's kernels are in `__main__`, which a worker begins anew."""
    main = sys.modules["__main__"]
    function = type(sent.plain)(sent.plain.__code__, vars(sent), "cell_kernel")
    function.__module__, function.__qualname__ = "__main__", "cell_kernel"
    kernel = KernelFunction(function)
    monkeypatch.setattr(main, "cell_kernel", kernel, raising=False)
    for use in (sent.called, sent.launched, sent.compiled):
        with pytest.raises(KernelArgument) as raised:
            in_pool(pool, use, kernel, X)
        assert "`cell_kernel` in __main__" in raised.value.message
        assert "in a file" in raised.value.help
    np.testing.assert_array_equal(in_pool(pool, sent.called, sent.scaled, X), 3 * X)


def test_a_script_sends_its_own_kernels(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import multiprocessing
            from concurrent.futures import ProcessPoolExecutor
            import numpy as np
            import nki_lab.language as nl
            from nki_lab.runtime import jit

            @jit
            def doubled(x):
                out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
                nl.store(out, nl.multiply(nl.load(x), 2.0))
                return out

            if __name__ == "__main__":
                with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                    print(pool.submit(doubled, np.full((2, 3), 4, np.float32)).result().sum())
            """
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip() == "48.0", done.stderr


def test_cloudpickle_sends_what_has_no_name():
    cloudpickle = pytest.importorskip("cloudpickle")

    @jit
    def local(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 7.0))
        return out

    again = cloudpickle.loads(cloudpickle.dumps(local))
    np.testing.assert_array_equal(again(X), 7 * X)
    assert again.source.text == local.source.text
    assert cloudpickle.loads(cloudpickle.dumps(sent.scaled)).func is sent.scaled.func


@pytest.mark.parametrize("kernel", [sent.scaled, sent.Layer.half])
def test_a_run_comes_back_by_value(pool, kernel):
    here, there = sent.launched(kernel, X), in_pool(pool, sent.launched, kernel, X)
    np.testing.assert_array_equal(there.value, here.value)
    assert there.value is there.outputs[0]
    assert repr(there) == repr(here)
    assert there.profile.table("Instruction").keys() == here.profile.table("Instruction").keys()
    assert there.profile.summary == here.profile.summary
    assert there.steps.at(2).operands[0].name == here.steps.at(2).operands[0].name
    assert there.findings == here.findings
    assert str(there.what_if("free-loads")) == str(here.what_if("free-loads"))
    assert there.show().page()
    text, total, count, output = in_pool(pool, sent.looked_at, here)
    assert (text, total, count) == (repr(here), here.profile.total_ns, len(here.steps.order))
    np.testing.assert_array_equal(output, here.outputs[0])


def test_a_run_of_two_cores_with_device_loops_comes_back():
    from tests.runtime.test_lifetimes import launch, looped, on_two_cores

    for kernel in (on_two_cores, looped):
        here = launch(kernel)
        there = pickle.loads(pickle.dumps(here))
        assert (repr(there), len(there.others)) == (repr(here), len(here.others))
        assert list(there.execution.order) == list(here.execution.order)
        np.testing.assert_array_equal(there.outputs[0], here.outputs[0])


def test_findings_come_back_with_their_lines():
    @jit
    def unwritten(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf))
        return out

    here = unwritten.launch(X)
    there = pickle.loads(pickle.dumps(here))
    assert here.findings
    shown = [[(f.kind, f.message, str(_span(f))) for f in r.findings] for r in (here, there)]
    assert shown[0] == shown[1]


def _span(finding):
    from nki_lab.source import Span

    return Span.of(finding.stack[0])


def test_a_profile_comes_back_by_value(pool):
    here, there = sent.profile_of(sent.scaled, X), in_pool(pool, sent.profile_of, sent.scaled, X)
    # Which lines the author's loops ran is read by tracing; all else is the same.
    assert there.summary == here.summary
    assert pickle.loads(pickle.dumps(here)) == here
    assert there.critical_path().total_ns == here.critical_path().total_ns


def test_a_compiled_kernel_comes_back_by_value(pool):
    there = in_pool(pool, sent.compiled, sent.scaled, X)
    np.testing.assert_array_equal(there(X), 3 * X)
    np.testing.assert_array_equal(in_pool(pool, sent.called, there, 2 * X), 6 * X)


def test_errors_come_back_as_they_are(pool):
    with pytest.raises(AddressOutOfRange) as here:
        sent.row(X, np.array([[99]], np.int32))
    with pytest.raises(AddressOutOfRange) as there:
        in_pool(pool, sent.called, sent.row, X, np.array([[99]], np.int32))
    assert str(there.value) == str(here.value)
    with pytest.raises((UnknownName, KernelErrors)) as refused:
        in_pool(pool, sent.called, sent.refused, X)
    assert "`unknown_name` is not defined" in str(refused.value)


def test_every_kind_of_error_can_be_sent():
    from nki_lab.errors import error_classes
    from nki_lab.errors.nki_error import _sent

    for kind in error_classes():
        kept = {"message": "what", "stack": (), "help": "mend", "notes": ("a",), "blame": None}
        again = pickle.loads(pickle.dumps(_sent(kind, ("what",), kept)))
        assert (type(again), again.message, again.help, again.notes) == (
            kind,
            "what",
            "mend",
            ("a",),
        )


def test_what_the_authors_code_raises_can_be_sent():
    @jit
    def raising(x):
        raise ValueError("not today")

    with pytest.raises(NkiError) as raised:
        raising(X)
    again = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(again, NkiError)
    assert str(again) == str(raised.value)


_WITH_ALIASES = """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    import numpy as np
    import nki_lab

    if __name__ == "__main__":
        {names}
        import kernels_by_alias as kernels
        x = np.full((2, 3), 4, np.float32)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("{method}")) as pool:
            run = lambda f, *args: pool.submit(f, *args).result(timeout=100)
            print(run(kernels.doubled, x).sum(), run(kernels.Layer(3.0).forward, x).sum())
            print(run(kernels.doubled[2], x).sum())
    """
_BY_ALIAS = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def doubled(x):
        import nki.isa  # again, where the kernel runs
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), 2.0))
        return out

    class Layer:
        def __init__(self, factor):
            self.factor = factor

        @nki.jit
        def forward(self, x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.multiply(nl.load(x), self.factor))
            return out
    """


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("names", ["nki_lab.install()", "nki_lab.aliases()"])
def test_a_kernel_whose_module_imports_nki(tmp_path, method, names):
    """The worker has the names that the process had which sent the kernel."""
    (tmp_path / "kernels_by_alias.py").write_text(textwrap.dedent(_BY_ALIAS))
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(_WITH_ALIASES.format(names=names, method=method)))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.split() == ["48.0", "72.0", "48.0"], done.stderr


@pytest.mark.parametrize(
    ("name", "fault"),
    [("misses_one", "import no_such_package"), ("divides", "1 / 0"), ("no_python", "def")],
)
def test_a_module_that_the_worker_cannot_import_is_told_by_an_error(
    pool, monkeypatch, tmp_path, name, fault
):
    text = "from tests.runtime.sent_kernels import plain\nfrom nki_lab.runtime import jit\n"
    module = ModuleType(name)
    exec("def kernel(x):\n    return x", vars(module))
    source = tmp_path / f"{name}.py"
    source.write_text(f"{text}{fault}\n")
    monkeypatch.setitem(sys.modules, name, module)
    module.kernel.__module__ = name
    kernel = KernelFunction(module.kernel)
    in_pool(pool, sys.path.insert, 0, str(tmp_path))
    with pytest.raises(
        KernelArgument, match=rf"no kernel `kernel` in {name}, whose import ends with"
    ):
        in_pool(pool, sent.called, kernel, X)
    np.testing.assert_array_equal(in_pool(pool, sent.called, sent.scaled, X), 3 * X)
