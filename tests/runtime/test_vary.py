"""Tests that a kernel with other values of its parameters is timed as an ordinary run of it is, and left alone
otherwise."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab import errors as e
from nki_lab.api import isa as nisa
from nki_lab.compiler.silence import silence
from nki_lab.ir.program.execution import known_trips
from nki_lab.runtime.vary_parameters import proposals
from nki_lab.views.vary import variants as variants_module

TILE_K = 128
SHIFT = 3
RNG = np.random.default_rng(11)
LHS = RNG.standard_normal((256, 128)).astype(ml_dtypes.bfloat16)
RHS = RNG.standard_normal((256, 1024)).astype(ml_dtypes.bfloat16)


def _loaded(x, k, columns):
    tile = nl.ndarray((TILE_K, columns.size), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(k * TILE_K, TILE_K), columns])
    return tile


def matmul(lhs, rhs, tile_n=256, keep=False, scale=1.0):
    """Multiply lhs.T @ rhs in tiles of 128 x TILE_K x tile_n."""
    print("traced")
    depth, width = rhs.shape
    out = nl.ndarray((128, width), dtype=lhs.dtype, buffer=nl.shared_hbm)
    for n in nl.affine_range(width // tile_n):
        columns = nl.ds(n * tile_n, tile_n)
        acc = nl.ndarray((128, tile_n), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(depth // TILE_K):
            a, b = _loaded(lhs, k, nl.ds(0, 128)), _loaded(rhs, k, columns)
            nisa.nc_matmul(dst=acc, stationary=a, moving=b)
        result = nl.ndarray((128, tile_n), dtype=lhs.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=acc)
        nisa.dma_copy(dst=out[:, columns], src=result)
    return out


def test_each_combination_is_timed_as_its_run_is():
    found = nki_lab.vary(matmul, LHS, RHS, tile_n=[256, 128, 512], target=["trn2", "trn1", "trn3"])
    assert len(list(found)) == 9
    for variant in found.visited:
        values = variant.values
        ran = nki_lab.run(matmul, LHS, RHS, tile_n=values["tile_n"], target=values["target"])
        assert variant.total_ns == ran.profile.total_ns
        assert variant.profile.summary == ran.profile.summary
        starts = [p.numbers("Instruction", "start_ts") for p in (variant.profile, ran.profile)]
        assert np.array_equal(*starts)
        assert str(variant.profile.iterations()) == str(ran.iterations()) != "no loop is known"


def test_dtypes_of_arrays_are_changed_without_touching_them():
    before = LHS.copy(), RHS.copy()
    LHS.flags.writeable = RHS.flags.writeable = False
    found = nki_lab.vary(matmul, LHS, RHS, target="trn2", dtype=[nl.bfloat16, "float32"])
    wide = nki_lab.run(matmul, LHS.astype(np.float32), RHS.astype(np.float32), target="trn2")
    assert found.at(dtype=nl.float32).total_ns == found.at(dtype="float32").total_ns
    assert found.at(dtype="float32").total_ns == wide.profile.total_ns
    assert np.array_equal(LHS, before[0]) and np.array_equal(RHS, before[1])
    one = nki_lab.vary(matmul, LHS, RHS, target="trn2", **{"rhs.dtype": ["bfloat16", "float32"]})
    assert "both be narrower" in one.at(**{"rhs.dtype": "float32"}).problem


def test_globals_are_changed_for_the_kernel_and_its_functions_only():
    found = nki_lab.vary(matmul, LHS, RHS, target="trn2", TILE_K=[128, 64])
    assert TILE_K == 128
    try:
        globals()["TILE_K"] = 64
        smaller = nki_lab.run(matmul, LHS, RHS, target="trn2")
    finally:
        globals()["TILE_K"] = 128
    assert found.at(TILE_K=64).total_ns == smaller.profile.total_ns
    assert found.at(TILE_K=128).total_ns < found.at(TILE_K=64).total_ns
    assert TILE_K == 128


class Sizes:
    """Reads a global where no copy of a function would."""

    @staticmethod
    def shift():
        return SHIFT


def shifted(x):
    """Add SHIFT, once as a class says it."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), SHIFT + Sizes.shift()))
    return out


def test_a_global_that_a_class_reads_as_well_is_refused():
    x = np.ones((64, 32), np.float32)
    with pytest.raises(e.UnknownOption, match="cannot change for one kernel"):
        nki_lab.vary(shifted, x, SHIFT=[3, 4])
    names = [p.name for p in nki_lab.vary(shifted, x).parameters]
    assert names == ["dtype", "target"]


def test_what_does_not_compile_says_why_and_the_others_go_on():
    found = nki_lab.run(matmul, LHS, RHS, target="trn2").vary(tile_n=[256, 1024])
    broken = found.at(tile_n=1024)
    assert broken.problem.startswith("error[NKI203]: nc_matmul: the free size of `moving`")
    assert broken.total_ns is None
    with pytest.raises(e.UsageError, match="that does not compile: error"):
        _ = broken.profile
    assert found.at(tile_n=256).total_ns and found.best() is found.at(tile_n=256)
    with pytest.raises(e.UnknownOption, match="its values here are 256, 1024"):
        found.at(tile_n=300)
    with pytest.raises(e.UnknownOption, match="is not one of the parameters"):
        found.at(tile=256)


def test_the_start_is_the_first_combination_that_compiles():
    found = nki_lab.vary(matmul, LHS, RHS, tile_n=[1024, 512], target="trn2")
    assert found.start == (1,) and found.parameters[0].values == (1024, 512)
    with pytest.raises(e.RuleBroken, match="free size of `moving`"):
        nki_lab.vary(matmul, LHS, RHS, tile_n=[1024], target="trn2")


def test_a_tile_that_does_not_divide_raises_doubts():
    found = nki_lab.vary(matmul, LHS, RHS, tile_n=[256, 384], TILE_K=[128, 96], target="trn2")
    assert "never written" in found.at(tile_n=384).doubt
    assert "GFLOP" in found.at(TILE_K=96).doubt
    assert found.at(tile_n=256).doubt == ""
    assert found.at(TILE_K=96).total_ns and found.best() is found.at()


def test_a_combination_is_timed_once(monkeypatch):
    found = nki_lab.run(matmul, LHS, RHS, target="trn2").vary(tile_n=[256, 128, 512])
    calls = []
    retime = found._retime
    found._retime = lambda values: calls.append(values) or retime(values)
    for _ in range(2):
        for size in (256, 128, 512):
            assert found.at(tile_n=size).total_ns
    assert [call["tile_n"] for call in calls] == [128, 512]  # the start is the run itself
    assert found.at(tile_n=128).profile is found.at(tile_n=128).profile
    monkeypatch.setattr(variants_module, "KEPT_INSTRUCTIONS", 10)
    calls.clear()
    total = found.at(tile_n=512).total_ns
    found._forget()  # timelines of all but the one looked at last are given up, and made again on request
    assert found.at(tile_n=512).profile.total_ns == total
    assert [call["tile_n"] for call in calls] == [512]


def test_nothing_is_printed_and_no_run_is_recorded():
    from nki_lab.runtime.recording import record_runs

    result = nki_lab.run(matmul, LHS, RHS, target="trn2")
    out = io.StringIO()
    with redirect_stdout(out), record_runs() as runs:
        assert result.vary().at(tile_n=512).total_ns
    assert out.getvalue() == "" and runs == []


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (
            {"lhs.shape": [3]},
            e.UnknownOption,
            "`lhs.shape` of matmul is not a parameter that can be changed",
        ),
        (
            {"tile": [128]},
            e.KernelArgument,
            "`tile` is neither a parameter .* nor a choice of nki_lab.vary",
        ),
        ({"tile_n": []}, e.UnknownOption, "no value to choose"),
        ({"target": []}, e.UnknownOption, "no value to choose"),
        ({"dtype": ["float99"]}, e.KernelArgument, "not an NKI dtype"),
        ({"target": ["trn0"]}, e.UnknownTarget, "no target `trn0`"),
        ({"lnc": [1, 3]}, e.UnknownOption, "`3` is not one of 1, 2"),
    ],
)
def test_what_cannot_be_chosen_is_told(values, kind, words):
    with pytest.raises(kind, match=words):
        nki_lab.vary(matmul, LHS, RHS, **values)


def test_values_are_proposed_for_what_can_be_changed():
    found = nki_lab.run(matmul, LHS, RHS, target="trn2").vary()
    values = {p.name: (p.values[p.start], p.values) for p in found.parameters}
    assert values == {
        "tile_n": (256, (64, 128, 256, 512, 1024)),
        "keep": (False, (False, True)),
        "dtype": (nl.bfloat16, (nl.bfloat16, nl.float32)),
        "target": ("trn2", ("trn1", "trn2", "trn3")),
        "TILE_K": (128, (32, 64, 128, 256, 512)),
    }
    assert found.fixed == {"scale": 1.0}
    assert proposals(48) == [16, 32, 48, 64, 128] and proposals(1) == [1, 2, 4]
    assert proposals(0) == [0] and proposals(-1) == [-1] and proposals(2.5) == [2.5]
    assert proposals("float32") == ["float32", "bfloat16"] and proposals("nearest") == ["nearest"]


class Split(NamedTuple):
    rows: int


@dataclass
class Config:
    split: Split
    widths: list


def copied(x, cfg, **names):
    """Copy rows tile by tile, and change what it was given while doing so."""
    rows, width = cfg.split.rows, cfg.widths[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[0] // rows):
        for c in nl.affine_range(x.shape[1] // width):
            part = nl.ds(r * rows, rows), nl.ds(c * width, width)
            nl.store(out[part], nl.load(x[part]))
    cfg.widths.append(rows)
    cfg.extra = names
    return out


def test_fields_of_objects_are_parameters_and_the_objects_stay_as_they_are():
    x, config = np.ones((128, 64), np.float32), Config(Split(64), [64])
    found = nki_lab.vary(copied, x, config, target="trn2", **{"cfg.split.0": [64, 32, 128]})
    assert found.at(**{"cfg.split.0": 32}).total_ns > found.at().total_ns
    assert config.split.rows == 64 and config.widths == [64] and not hasattr(config, "extra")
    names = [p.name for p in nki_lab.vary(partial(copied, cfg=config), x).parameters]
    assert names == ["cfg.split.0", "cfg.widths.0", "dtype", "target"]


def counted(x, times=4):
    """Add 1 as often as a loop of the device says; how often is known."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in nl.dynamic_range(times):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    nl.store(out, tile)
    return out


def decided(x, n, times=4):
    """Add 1 as often as a value says."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile, count = nl.load(x), nl.load(n)
    register = nisa.register_alloc()
    nisa.register_load(register, count)
    for _ in nl.dynamic_range(0, register):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=float(times))
    nl.store(out, tile)
    return out


@pytest.mark.usefixtures("nki_0_6")
def test_loops_of_the_device_are_timed_where_their_passes_are_known():
    x = np.ones((128, 64), np.float32)
    found = nki_lab.vary(counted, x, times=[4, 9], target="trn2")
    ran = nki_lab.run(counted, x, 9, target="trn2")
    assert found.at(times=9).total_ns == ran.profile.total_ns
    assert known_trips(ran.kernel, 100) == ran.execution.trips == (9,)


@pytest.mark.usefixtures("nki_0_6")
def test_loops_that_values_decide_need_them_and_say_how():
    x, n = np.ones((128, 64), np.float32), np.full((1, 1), 5, np.int32)
    ran = nki_lab.run(decided, x, n, target="trn2")
    assert known_trips(ran.kernel, 100) is None
    problem = ran.vary(times=[4, 8]).at(times=8).problem
    assert "depends on values" in problem and "simulate=True" in problem
    found = nki_lab.vary(decided, x, n, times=[4, 8], target="trn2", simulate=True)
    assert found.at(times=8).total_ns == ran.profile.total_ns
    assert (x == 1).all()


def test_programs_that_grow_too_large_are_given_up(monkeypatch):
    room = import_module("nki_lab.runtime.kernel_variants")

    monkeypatch.setattr(room, "MOST_INSTRUCTIONS", 30)
    result = nki_lab.run(matmul, LHS, RHS, target="trn2")
    problem = result.vary(tile_n=[256, 32]).at(tile_n=32).problem
    assert "more than" in problem and "not timed here" in problem


def test_two_cores_are_a_parameter():
    x = RNG.standard_normal((128, 64)).astype(np.float32)
    found = nki_lab.vary(halved, x, lnc=[1, 2], target=["trn2", "trn1"])
    assert found.at(lnc=2).profile.cores == (0, 1)
    assert "has 1 core" in found.at(lnc=2, target="trn1").problem
    ran = nki_lab.run(nki_lab.jit(halved)[2], x, target="trn2")
    assert ran.vary(target=["trn2"]).at().total_ns == found.at(lnc=2).total_ns
    assert ran.vary(lnc=[1, 2]).at(lnc=1).total_ns == found.at(lnc=1).total_ns


def halved(x):
    """Copy a half of the rows on each core."""
    rows = x.shape[0] // nl.num_programs(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    part = nl.ds(nl.program_id(0) * rows, rows)
    nl.store(out[part], nl.load(x[part]))
    return out


def test_a_kernel_from_a_file_cannot_be_changed(tmp_path):
    compiled = nki_lab.jit(matmul).compile(LHS, RHS)
    ran = nki_lab.load(compiled.save(tmp_path / "matmul.nkic")).launch(LHS, RHS)
    assert "only its source" in ran.vary().problem
    assert "only its source" in repr(ran.vary())


def test_silence_is_about_one_thread_only():
    heard = io.StringIO()
    spoken, go = threading.Event(), threading.Event()

    def other():
        go.wait(10)
        print("from elsewhere")
        spoken.set()

    thread = threading.Thread(target=other)
    with redirect_stdout(heard):
        thread.start()
        with silence():
            print("from here")
            print("from here", file=sys.stderr)
            go.set()
            assert spoken.wait(10)
            kept = sys.stdout
        print("afterwards")
        kept.write("kept by somebody\n")
    thread.join()
    assert heard.getvalue() == "from elsewhere\nafterwards\nkept by somebody\n"


def test_the_text_of_many_variants_is_cut():
    def kernel(x, times=1):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.multiply(nl.load(x), float(times)))
        return out

    variants = nki_lab.vary(kernel, np.ones((8, 8), np.float32), times=[*range(1, 60)])

    def refuses(x, times=1):
        if times > 1:
            raise ValueError(f"{times} is too much")
        return kernel(x, times)

    refused = nki_lab.vary(refuses, np.ones((8, 8), np.float32), times=[*range(1, 60)])
    for text in map(repr, (variants, variants.show(), refused, refused.show())):
        assert 20 < len(text.split("\n")) < 40
