"""Is a program that an earlier session compiled found again exactly where nothing has changed?"""

import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler import pipeline, stored_plan
from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.plan import NoPlan, apply_plan, plan_of
from nki_lab.compiler.reuse import reuse
from nki_lab.compiler.store import Store
from nki_lab.ir.printer import print_kernel
from nki_lab.ir.program_digest import NoDigest, program_digest
from nki_lab.ir.same_program import same_program
from nki_lab.runtime import jit, use_target
from nki_lab.targets import TRN1, TRN2
from tests.compiler.programs import compiled, passed, random_program
from tests.simulator.kernels import EXAMPLES

RNG = np.random.default_rng


@pytest.fixture(autouse=True)
def _small_ones_too(monkeypatch):
    monkeypatch.setattr(stored_plan, "MIN_INSTRUCTIONS", 0)
    reuse.clear()


@pytest.fixture
def options(tmp_path):
    return CompileOptions(store=str(tmp_path))


@pytest.fixture
def runs(monkeypatch):
    """Return a list that gets the name of every pass that runs."""
    ran = []

    def noted(name, run):
        def counted(*args):
            ran.append(name)
            return run(*args)

        return counted

    monkeypatch.setattr(pipeline, "PASSES", tuple((n, noted(n, run)) for n, run in pipeline.PASSES))
    return ran


def again(fn, *args, **kwargs):
    reuse.clear()  # as in another session
    return compiled(fn, *args, **kwargs)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("target", [TRN1, TRN2])
def test_what_is_found_is_what_the_passes_make(name, target, options, runs):
    example = EXAMPLES[name]
    arrays = example.arrays(RNG(1))
    first = again(example.kernel, *arrays, target=target, options=options)
    assert runs
    runs.clear()
    second = again(example.kernel, *arrays, target=target, options=options)
    assert not runs, "found in the store"
    assert print_kernel(second.kernel) == print_kernel(first.kernel)
    assert second.findings == first.findings
    shown = [(stage, print_kernel(kernel)) for stage, kernel in second.stages]
    assert runs, "made when somebody looks"
    assert shown == [(stage, print_kernel(kernel)) for stage, kernel in first.stages]


def two_cores(x):
    core = nl.program_id()
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    if core == 0:
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, name="double")
    nisa.dma_copy(dst=out[core], src=tile, name=f"store{core}")
    return out


def test_both_cores_and_an_authors_schedule(tmp_path, runs, monkeypatch):
    monkeypatch.setenv("NKI_LAB_STORE", str(tmp_path))
    x = RNG(2).standard_normal((4, 30)).astype(np.float32)
    found = []
    for _ in range(2):
        reuse.clear()
        with use_target("trn2"):
            kernel = jit(two_cores).with_schedule([("store0", "double")])[2]
            found.append(kernel.launch(x))
    a, b = found
    assert runs.count("allocate_sbuf") == 2, "once per core"
    np.testing.assert_array_equal(b.outputs[0], np.stack([2 * x, x]))
    for p, q in zip(
        (a.compiled.kernel, *a.compiled.others),
        (b.compiled.kernel, *b.compiled.others),
        strict=True,
    ):
        assert print_kernel(p) == print_kernel(q) and p.findings == q.findings


FACTOR = 2.0


def scaled(x, shift=0.5):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.multiply(nl.load(x), FACTOR), shift))
    return out


X = np.zeros((4, 6), np.float32)


@pytest.mark.parametrize(
    "change",
    [
        {"args": (np.zeros((4, 7), np.float32),)},
        {"args": (np.zeros((4, 6), np.float16),)},
        {"kwargs": {"shift": -0.5}},
        {"global": 3.0},
        {"target": TRN1},
        {"options": {"skip_passes": ("schedule",)}},
        {"options": {"capacity": "finding"}},
        {"options": {"strict": True}},
        {"version": "another"},
        {},
    ],
    ids=str,
)
def test_what_changes_the_program_is_seen(change, options, runs, monkeypatch):
    again(scaled, X, options=options)
    runs.clear()
    if "global" in change:
        monkeypatch.setitem(globals(), "FACTOR", change["global"])
    if "version" in change:
        monkeypatch.setattr(stored_plan, "own_version", lambda: change["version"])
    again(
        scaled, *change.get("args", (X,)), **change.get("kwargs", {}),
        target=change.get("target", TRN2), options=replace(options, **change.get("options", {})),
    )  # fmt: skip
    assert bool(runs) == bool(change)


def test_the_digest_tells_programs_apart_as_their_comparison_does():
    """Every pair of some traces: those of one kernel twice, and others that differ in one thing each."""

    def filled(x, value, name=None, moved=0, after=False):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="out")
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name=name)
        nisa.memset(tile, value)
        first = nisa.memset(tile[:, moved : moved + 2], 1.0)
        second = nisa.memset(tile[:, 0:1], 2.0)
        if after:
            second.depends_on(first)
        nisa.dma_copy(out, tile)
        return out

    calls = [
        (0.0,), (0.0,), (-0.0,), (float("nan"),), (float("nan"),), (0,), (True,),
        (0.0, "a"), (0.0, "b"), (0.0, None, 1), (0.0, None, 0, True), (0.0, None, 0, True),
    ]  # fmt: skip
    traces = [compiled(filled, X, *call).stages[0][1] for call in calls]
    digests = [program_digest(kernel) for kernel in traces]
    for k, a in enumerate(traces):
        for m, b in enumerate(traces):
            assert (digests[k] == digests[m]) == same_program(a, b), (calls[k], calls[m])
    assert len(set(digests)) == len(calls) - 3


def test_constants_count_with_all_their_elements(options, runs):
    def added(x, table):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.load(nl.shared_constant(table.values))))
        return out

    class Table:
        def __init__(self, values):
            self.values = values

    for n, value in enumerate((0.0, 1.0, 0.0)):
        values = np.zeros((4, 6), np.float32)
        values[3, 5] = value
        again(added, X, Table(values), options=options)
        assert bool(runs) == (n < 2)
        runs.clear()


_ELSEWHERE = """
import sys, numpy as np
from nki_lab.ir.program_digest import program_digest
from tests.compiler.programs import compiled
from tests.simulator.kernels import EXAMPLES
for name, example in EXAMPLES.items():
    arrays = example.arrays(np.random.default_rng(1))
    print(name, program_digest(compiled(example.kernel, *arrays).stages[0][1]))
"""


def test_the_digest_is_the_same_in_another_process():
    here = {
        name: program_digest(compiled(e.kernel, *e.arrays(RNG(1))).stages[0][1])
        for name, e in EXAMPLES.items()
    }
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _ELSEWHERE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert dict(line.rsplit(" ", 1) for line in done.stdout.splitlines()) == here


def test_an_argument_without_a_text_is_not_kept(options, runs):
    class Odd:
        def __repr__(self):
            return "odd things"

    kernel = compiled(scaled, X).stages[0][1]
    i = kernel.instructions[0]
    changed = i.with_args(name=Odd())
    changed.form = i.form
    with pytest.raises(NoDigest):
        program_digest(kernel.with_(body=(changed, *kernel.body[1:])))


def test_plans_of_other_programs_are_refused_and_made_anew(options, runs, monkeypatch):
    other = random_program(random.Random(3))
    wrong = json.loads(json.dumps(plan_of([other], [passed(other)])))
    first = again(scaled, X, options=options)
    right = plan_of([first.stages[0][1]], [first.kernel])
    damaged = [
        wrong, [], [{}], [None], "text", [{**right[0], "order": [0, 0, 1, 2]}],
        [{**right[0], "order": [*right[0]["order"][:-1], 99]}], [{**right[0], "findings": [["a"]]}],
        [{**right[0], "findings": [["a", "b", "0x1", "c", "d"]]}], [right[0], right[0]],
    ]  # fmt: skip
    traced = first.stages[0][1]
    for plans in damaged:
        with pytest.raises(NoPlan):
            apply_plan([traced], plans)
        monkeypatch.setattr(Store, "get", lambda self, key, plans=plans: plans)
        runs.clear()
        assert print_kernel(again(scaled, X, options=options).kernel) == print_kernel(first.kernel)
        assert runs


def test_small_programs_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_plan, "MIN_INSTRUCTIONS", 100)
    again(scaled, X, options=CompileOptions(store=str(tmp_path)))
    assert not list(tmp_path.iterdir())


def test_the_file_may_be_damaged_between_two_sessions(tmp_path, options, runs):
    first = again(scaled, X, options=options)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:5_000])
    assert print_kernel(again(scaled, X, options=options).kernel) == print_kernel(first.kernel)
