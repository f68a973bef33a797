"""Tests the cost of a product, and the mistakes that values alone show."""

import numpy as np
import pytest

from nki_lab.api.install import aliases
from nki_lab.choices import use_target
from nki_lab.errors import RuleBroken, SimulationError
from nki_lab.ir.definition.cost import Stage
from nki_lab.isa.enums import matmul_perf_mode
from nki_lab.targets.engines import TENSOR, VECTOR
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Traced, empty, isa, tile

with aliases():
    import nki
    import nki.isa as nisa
    import nki.language as nl


def traced(stationary, moving, dst, target="trn2", **params):
    case = Case(
        "nc_matmul",
        "cost",
        {"stationary": tile(*stationary), "moving": tile(*moving), "dst": empty(*dst, PSUM)},
        lambda t: isa.nc_matmul(t.dst, t.stationary, t.moving, accumulate=False, **params),
        {"dst": None},
    )
    return Traced(case, target)


def cost(run):
    assert run.errors == []
    return run.subject.definition.cost_of(run.subject, run.builder.target)


def steps(k=128, m=128, n=512, dtype="bfloat16", target="trn2", **params):
    run = traced(
        (np.zeros((k, m)), dtype), (np.zeros((k, n)), dtype), ((m, n), "float32"), target, **params
    )
    return [(u.opcode, u.stage, u.cycles) for u in cost(run)]


LOAD, MULTIPLY = ("LDWEIGHTS", Stage.LOAD_STATIONARY), ("MATMUL", Stage.MULTIPLY_MOVING)


# trainium_inferentia2_arch.rst: N cycles, at least 64; a load up to four times as fast; float32 four times as long.
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [(*LOAD, 32), (*MULTIPLY, 512)]),
        ({"target": "trn1"}, [(*LOAD, 32), (*MULTIPLY, 512)]),
        ({"n": 1}, [(*LOAD, 32), (*MULTIPLY, 64)]),
        ({"m": 8, "n": 65}, [(*LOAD, 2), (*MULTIPLY, 65)]),
        ({"k": 3}, [(*LOAD, 32), (*MULTIPLY, 512)]),
        ({"dtype": "float8_e5m2"}, [(*LOAD, 32), (*MULTIPLY, 512)]),
        ({"dtype": "tfloat32"}, [(*LOAD, 32), (*MULTIPLY, 512)]),
        ({"dtype": "float32"}, [(*LOAD, 128), (*MULTIPLY, 1024), (*MULTIPLY, 1024)]),
        ({"dtype": "float32", "is_moving_onezero": True}, [(*LOAD, 64), (*MULTIPLY, 1024)]),
        ({"is_moving_onezero": True}, [(*LOAD, 32), (*MULTIPLY, 512)]),
        ({"n": 128, "dtype": "float32", "is_transpose": True}, [(*LOAD, 64), (*MULTIPLY, 256)]),
        (
            {"n": 128, "dtype": "float32", "is_transpose": True, "target": "trn1"},
            [(*LOAD, 128), (*MULTIPLY, 256), (*MULTIPLY, 256)],
        ),
    ],
)
def test_cycles(params, expected):
    assert steps(**params) == expected


def test_measured_float32_interval():
    # kernel-optimization.rst:337: 65,536 MATMULs of float32 at N=512 take 427 to 430 ns each on trn2.
    passes = [cycles for opcode, _, cycles in steps(dtype="float32") if opcode == "MATMUL"]
    assert len(passes) == 2
    assert [cycles / 2.4 for cycles in passes] == pytest.approx([428.5, 428.5], abs=2)


def test_multiplications_and_bytes():
    load, multiply = cost(
        traced((np.zeros((96, 40)), "bfloat16"), (np.zeros((96, 56)), "bfloat16"), ((40, 56), "float32"))
    )  # fmt: skip
    assert (load.macs, load.bytes_read, load.bytes_written) == (0, 96 * 40 * 2, 0)
    assert multiply.macs == 96 * 40 * 56
    assert (multiply.bytes_read, multiply.bytes_written) == (96 * 56 * 2, 40 * 56 * 4)


def test_float32_passes_multiply_once():
    *_, first, second = cost(
        traced((np.zeros((96, 40)), "float32"), (np.zeros((96, 56)), "float32"), ((40, 56), "float32"))
    )  # fmt: skip
    assert first.macs + second.macs == 96 * 40 * 56


def test_double_row_doubles_the_work_in_the_same_time():
    run = traced(
        (np.zeros((128, 2, 24)), "float8_e4m3"),
        (np.zeros((128, 2, 300)), "float8_e4m3"),
        ((24, 300), "float32"),
        perf_mode=matmul_perf_mode.double_row,
    )
    load, multiply = cost(run)
    assert (load.cycles, multiply.cycles) == (6, 300)
    assert multiply.macs == 256 * 24 * 300


def test_transpose_mode_needs_an_identity():
    shuffled = np.roll(np.eye(96), 1, axis=0)
    run = traced(
        (np.ones((96, 40)), "float32"),
        (shuffled, "float32"),
        ((40, 96), "float32"),
        is_transpose=True,
    )
    with pytest.raises(SimulationError, match="does not hold an identity matrix"):
        run.simulate()


def transposed(data, dst, target="trn2", **params):
    case = Case(
        "nc_transpose", "cost", {"data": data, "dst": dst},
        lambda t: isa.nc_transpose(t.dst, t.data, **params), {"dst": None},
    )  # fmt: skip
    return Traced(case, target)


@pytest.mark.parametrize(
    ("data", "dst", "params", "engine"),
    [
        (tile(np.zeros((96, 40))), empty((40, 96), space=PSUM), {}, TENSOR),
        (tile(np.zeros((32, 20))), empty((20, 32), space=PSUM), {}, TENSOR),
        (tile(np.zeros((32, 20))), empty((20, 32), space=PSUM), {"engine": VECTOR}, VECTOR),
        (tile(np.zeros((32, 20))), empty((20, 32)), {}, VECTOR),
        (tile(np.zeros((32, 20)), space=PSUM), empty((20, 32), space=PSUM), {}, VECTOR),
    ],
)
def test_engine_of_a_transpose(data, dst, params, engine):
    run = transposed(data, dst, **params)
    assert run.errors == []
    assert run.subject.form.engine is engine


def test_cycles_of_a_transpose():
    # The identity matrix streams as many columns as `data` has partitions; nothing of interest is multiplied.
    load, multiply = cost(
        transposed(tile(np.zeros((96, 40)), "bfloat16"), empty((40, 96), "bfloat16", PSUM))
    )
    assert (load.cycles, multiply.cycles) == (10, 96)
    assert (load.macs, multiply.macs) == (0, 0)
    (on_vector,) = cost(transposed(tile(np.zeros((32, 20))), empty((20, 32))))
    assert on_vector.cycles == 20 + 80  # elements, and the engine's issue overhead


@nki.jit
def in_pieces(a, b, width):
    left, right = nl.load(a), nl.load(b)
    columns = b.shape[1]
    total = nl.ndarray((a.shape[1], columns), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, columns, width):
        piece = slice(start, start + width)
        nisa.nc_matmul(dst=total[:, piece], stationary=left, moving=right[:, piece])
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(total))
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_later_piece_of_the_same_shape_may_cross_the_end_of_a_bank(target: str):
    a, b = np.ones((64, 48), np.float32), np.ones((64, 1200), np.float32)
    with use_target(target):
        np.testing.assert_array_equal(in_pieces(a[:, :5], b[:, :1024], 256), np.full((5, 1024), 64))
        with pytest.raises(RuleBroken, match="must lie in one PSUM bank"):
            in_pieces(a, b, 400)
