"""What nobody holds any more is gone at once, by counting references: no circle waits for a full collection."""

from __future__ import annotations

import ast
import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.backends import simulated
from nki_lab.compiler.reuse import reuse
from nki_lab.errors import AddressOutOfRange, NkiError
from nki_lab.ir.program.nodes import Kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.runtime import jit, run
from nki_lab.runtime.recording import record_runs
from nki_lab.runtime.result import Result
from nki_lab.simulator import Program
from nki_lab.views.registry import Parts
from nki_lab.widgets.open_views import open_views
from tests.simulator.kernels import EXAMPLES

RNG = np.random.default_rng


def scaled(x, by=2.0):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), by))
    return out


def looped(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.fori_loop(0, 3, lambda i: nisa.tensor_scalar(tile, tile, nl.add, 1.0))
    nl.store(out, tile)
    return out


def with_constants(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    table = nl.shared_constant(np.full(x.shape, 0.5, np.float32))
    nl.shared_identity_matrix(16)
    nl.store(out, nl.add(nl.load(x), nl.load(table)))
    return out


def on_two_cores(x):
    core = nl.program_id(0)
    out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    mine = nl.load(x)
    other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.dma_copy(out[core], nl.add(mine, other))
    return out


def row_of(x, index):
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    pattern = [[x.shape[1], 1], [1, x.shape[1]]]
    nisa.dma_copy(out, x.ap(pattern, scalar_offset=nl.load(index), indirect_dim=0))
    return out


@pytest.fixture(autouse=True)
def _counting_alone() -> Iterator[None]:
    """Leave everything to the counting of references."""
    reuse.clear()  # kernels of other tests keep theirs
    simulated._free.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def x() -> np.ndarray:
    return RNG(3).standard_normal((16, 24)).astype(np.float32)


def launch(kernel: Callable[..., Any], *arrays: np.ndarray) -> Result:
    made = jit(kernel)
    return (made[2] if kernel is on_two_cores else made).launch(*(arrays or (x(),)), target="trn2")


def watched(result: Result) -> dict[str, weakref.ref[Any]]:
    """Return weak references to a run and all that it holds: arrays, programs, and constants in them."""
    kernel = result.compiled.kernel
    parts = {
        "result": result,
        "compiled": result.compiled,
        "programs": result.compiled.programs,
        "kernel": kernel,
        "traced": result.compiled.stages[0][1],
        **{f"input {k}": a for k, a in enumerate(result.inputs)},
        **{f"output {k}": a for k, a in enumerate(result.outputs)},
        **{s.name: s.data for s in kernel.storages if s.data is not None},
    }
    for bound in simulated._free[result.compiled.programs].values():
        for k, program in enumerate(p for cores in bound.programs for p in cores):
            arrays = program.memory.held().values()
            parts |= {f"program {k}": program}
            parts |= {f"memory {k} {n}": a for n, a in enumerate(arrays)}
    return {name: weakref.ref(part) for name, part in parts.items()}


def alive(parts: dict[str, weakref.ref[Any]]) -> list[str]:
    return [name for name, part in parts.items() if part() is not None]


LOOKS: dict[str, Callable[[Result], Any]] = {
    "nothing": lambda r: None,
    "report": repr,
    "profile": lambda r: [r.profile.table(name) for name in r.profile.table_names],
    "questions": lambda r: (
        r.critical_path(), r.stalls(), r.lines(), r.iterations(), r.roofline(), r.benchmark(),
    ),
    "advice": lambda r: (r.advice(), r.what_if("free-loads"), r.what_if()),
    "ir": lambda r: list(r.ir.values()),
    "values of a view": lambda r: (r.view_data.held(0, None, True), r.view_data.listings),
    "text and pictures": lambda r: (r.show().page(), r.show("memory", "layout").to_image("svg")),
    "a part of the time": lambda r: r.profile.between(0, 500).summary,
    "text read back": lambda r: read_kernel(r.ir["insert_waits"]),
}  # fmt: skip
ONE_CORE = {
    "steps": lambda r: (r.steps.at(0), r.view_data.steps.at(1), r.steps.view_data.profile),
    "a view of steps": lambda r: r.steps.show().page(),
    "variants": lambda r: [v.data.profile for v in r.vary(target=["trn1", "trn2"])],
    "variants of a view": lambda r: r.view_data.variants.variant(r.view_data.variants.start).data,
}


@pytest.mark.parametrize("look", [*LOOKS, *ONE_CORE])
@pytest.mark.parametrize("kernel", [scaled, looped, with_constants, on_two_cores])
def test_a_result_goes_with_its_name(kernel, look):
    if kernel is on_two_cores and look in ONE_CORE:
        pytest.skip("is not made of two cores")
    result = launch(kernel)
    parts = watched(result)
    assert len(parts) > 8 and "program 0" in parts
    (LOOKS | ONE_CORE)[look](result)
    del result
    assert not alive(parts)
    assert not reuse._alive and not simulated._free


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_kind_of_program_goes(name):
    example = EXAMPLES[name]
    result = launch(example.kernel, *example.arrays(RNG(1)))
    parts = watched(result)
    repr(result)
    result.steps.at(0)
    del result
    assert not alive(parts)


def test_no_function_holds_itself():
    """A nested function that calls itself is in a circle with its closure, and all that it reads there."""
    circles = []
    for path in sorted(Path(nki_lab.__file__).parent.rglob("*.py")):
        for outer in ast.walk(ast.parse(path.read_text())):
            if not isinstance(outer, ast.FunctionDef):
                continue
            for inner in ast.walk(outer):
                if inner is not outer and isinstance(inner, ast.FunctionDef):
                    names = {
                        n.id for s in inner.body for n in ast.walk(s) if isinstance(n, ast.Name)
                    }
                    if inner.name in names:
                        circles.append(f"{path.name}:{inner.lineno} {inner.name}")
    assert not circles, "pass what it needs as arguments, to a function of the module"


def test_nothing_of_ours_is_left_in_circles():
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for kernel in (scaled, looped, with_constants, on_two_cores):
            for look in (LOOKS if kernel is on_two_cores else LOOKS | ONE_CORE).values():
                look(launch(kernel))
        open_views.close_all()
        gc.collect()
        ours = {type(o).__name__ for o in gc.garbage if type(o).__module__.startswith("nki_lab")}
        ours -= {"LiveView"}  # every widget is in circles with its traits
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert not ours


def test_what_somebody_holds_keeps_its_part_alone():
    result = launch(with_constants)
    parts = watched(result)
    output, compiled = result.outputs[0], result.compiled
    steps, profile = result.steps, result.profile
    del result
    assert set(alive(parts)) >= {"output 0", "compiled", "kernel", "program 0"}
    assert "result" not in alive(parts)
    del compiled, steps
    # A profile times its program again, and holds it for that; its values and memories are gone.
    profile.what_if("free-loads")
    assert set(alive(parts)) >= {"output 0", "kernel"}
    assert not {"input 0", "program 0", "compiled"} & set(alive(parts))
    del profile
    assert alive(parts) == ["output 0"]
    np.testing.assert_array_equal(output, x() + np.float32(0.5))


def test_a_view_holds_what_it_shows_and_no_more():
    result = launch(scaled)
    parts = watched(result)
    shown = Parts(result.view_data)
    for name in ("report", "timeline", "layout", "memory", "stepper", "vary"):
        assert all(shown.make(name))
    del result
    assert "output 0" in alive(parts) and "result" not in alive(parts)
    del shown
    assert not alive(parts)


def test_a_live_view_lets_go_when_it_is_closed():
    result = launch(scaled)
    parts = watched(result)
    assert result.show().widget is not None
    del result
    assert "output 0" in alive(parts)
    open_views.close_all()
    assert not alive(parts)


def test_variants_that_are_given_out_can_be_looked_at_alone():
    best = launch(scaled).vary(target=["trn1", "trn2"]).best() or None
    variants = nki_lab.vary(scaled, x(), by=[2.0, 3.0], target="trn2")
    list(variants)
    best, seen = variants.best(), weakref.ref(variants)
    assert best is variants.best()
    del variants
    assert best.data.variants is seen()
    del best
    assert seen() is None


def test_a_compiled_kernel_goes_with_its_name():
    compiled = jit(scaled).compile(x())
    result = compiled.launch(x())
    parts = watched(result) | {"function": weakref.ref(compiled)}
    del compiled, result
    assert not alive(parts)


def test_a_kernel_from_a_file_goes_with_its_name(tmp_path):
    path = launch(with_constants).compiled.save(tmp_path / "with_constants.nkic")
    kernel = nki_lab.load(path)
    result = kernel.launch(x())
    parts = {
        s.name: weakref.ref(s.data) for s in kernel.compiled.kernel.storages if s.data is not None
    }
    assert parts
    parts |= {"kernel": weakref.ref(kernel), "output": weakref.ref(result.outputs[0])}
    (bound,) = simulated._free[kernel.compiled].values()
    parts |= {"program": weakref.ref(bound.programs[0][0])}
    del kernel, result, bound
    assert not alive(parts)


def test_a_program_goes_with_its_name():
    result = launch(looped)
    program = Program(result.kernel)
    parts = {f"memory {k}": weakref.ref(a) for k, a in program.memory.held().items()}
    program.run([x()])
    parts |= {"program": weakref.ref(program)}
    assert len(parts) > 1
    del program
    assert not alive(parts)


def test_a_run_that_fails_leaves_nothing_but_what_was_given(monkeypatch):
    born = []
    bind = simulated._bind

    def noted(*args: Any) -> Any:
        bound = bind(*args)
        born.extend(weakref.ref(p) for cores in bound.programs for p in cores)
        return bound

    monkeypatch.setattr(simulated, "_bind", noted)
    with pytest.raises(AddressOutOfRange) as raised:
        launch(row_of, x(), np.array([[99]], np.int32))
    assert len(born) == 1
    assert raised.value.__traceback__ is not None
    assert born[0]() is None, "while the error is kept, as a notebook keeps the last one"


def test_ranks_and_debug_runs_go_too():
    results = nki_lab.launch(scaled, 2, [(x(),), (x(),)], target="trn2")
    parts = {k: ref for r in results for k, ref in watched(r).items()}
    del results
    assert not alive(parts)
    result = run(scaled, x(), debug=True)
    parts = {"result": weakref.ref(result), "output": weakref.ref(result.outputs[0])}
    del result
    assert not alive(parts)


def test_a_context_that_outlives_a_recording_keeps_no_run():
    import contextvars

    with record_runs() as runs:
        launch(scaled)
        kept = contextvars.copy_context()
        parts = watched(runs[0])
    del runs
    assert not alive(parts)
    with record_runs() as again:
        kept.run(launch, scaled)  # of the block that has ended
    assert not again


def unwritten(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile[0:1], x[0:1])
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(
    "fails",
    [
        lambda: nki_lab.run(unwritten, x(), strict=True),
        lambda: nki_lab.run(row_of, x(), np.array([[99]], np.int32)),
        lambda: nki_lab.step(row_of, x(), np.array([[99]], np.int32)),
    ],
    ids=["strict", "run", "step"],
)
def test_no_program_waits_for_a_collection_after_a_failure(fails):
    def failed() -> bool:
        try:
            return fails().error is not None
        except NkiError:
            return True

    assert failed()  # the first time fills caches
    gc.collect()
    gc.disable()
    try:
        before = sum(type(o) is Kernel for o in gc.get_objects())
        assert failed()
        assert sum(type(o) is Kernel for o in gc.get_objects()) == before
    finally:
        gc.enable()
