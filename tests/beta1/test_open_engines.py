"""Who runs what a kernel of the older dialect leaves open: Scalar, where values are the same and it is no slower.

(nki/api/nki/isa/__init__.py@0521004c:1382, 1405, 1698)
"""

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.targets.engines import SCALAR, VECTOR

BUSY = 30  # sums that only Vector computes


def of(call, target="trn1", dtype=np.float32, busy=BUSY):
    """Return the engine that runs `call(tile, column)` beside sums on Vector; its values must stay the same."""

    @nki.jit
    def kernel(x, column):
        t, c = nl.load(x), nl.load(column)
        total = nl.ndarray(x.shape, x.dtype)
        total[...] = nl.add(t, t)
        for _ in range(busy):
            total[...] = nl.add(total, t)
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0], call(t, c))
        nl.store(out[1], total)
        return out

    rng = np.random.default_rng(3)
    x = rng.uniform(-9, 9, (128, 200)).astype(dtype)
    column = rng.uniform(-2, 2, (128, 1)).astype(np.float32)
    left, preferred = (
        nki_lab.run(kernel, x, column, target=target, skip_passes=skipped)
        for skipped in ((), ("balance_engines",))
    )
    np.testing.assert_array_equal(left.value, preferred.value)
    engines = [
        i.form.engine
        for i in left.compiled.kernel.instructions
        if i.definition.name in ("activation", "tensor_copy", "tensor_scalar")
    ]
    assert len(engines) == 1
    return engines[0]


@pytest.mark.parametrize(
    ("target", "call"),
    [
        ("trn1", lambda t, c: nisa.tensor_copy(t)),
        ("trn2", lambda t, c: nisa.tensor_copy(t)),
        ("trn1", lambda t, c: nisa.tensor_scalar(t, np.multiply, 0.3)),
        ("trn2", lambda t, c: nisa.tensor_scalar(t, np.add, 1.5)),
        ("trn1", lambda t, c: nisa.tensor_scalar(t, np.add, c)),
        ("trn1", lambda t, c: nisa.tensor_scalar(t, np.multiply, c, op1=np.add, operand1=c)),
    ],
    ids=["copy", "copy on trn2", "times a number", "plus a number", "plus a column", "both"],
)
def test_scalar_runs_it(call, target):
    assert of(call, target) is SCALAR


@pytest.mark.parametrize(
    "call",
    [
        lambda t, c: nisa.tensor_scalar(
            t, np.add, 1.5
        ),  # on trn1 the number would have to be a tile
        lambda t, c: nisa.tensor_scalar(t, np.add, c, op1=np.multiply, operand1=c),
        lambda t, c: nisa.tensor_scalar(t, np.maximum, 0.5),
        lambda t, c: nisa.tensor_copy(t, engine=nisa.vector_engine),
    ],
    ids=["plus a number", "plus and times", "maximum", "chosen"],
)
def test_vector_keeps_what_scalar_does_not_compute_and_what_was_chosen(call):
    assert of(call) is VECTOR


def test_integers_stay_on_vector():
    assert of(lambda t, c: nisa.tensor_copy(t), dtype=np.int32) is VECTOR


def test_what_would_wait_for_scalar_stays_on_vector():
    """Scalar has functions to compute for all of the time, and Vector nothing else."""

    @nki.jit
    def kernel(x):
        t = nl.load(x)
        grown = nl.ndarray(x.shape, x.dtype)
        grown[...] = nl.exp(t)
        for _ in range(20):
            grown[...] = nl.exp(grown)
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0], nl.copy(t))
        nl.store(out[1], grown)
        return out

    x = np.full((128, 2000), -1, np.float32)
    program = nki_lab.run(kernel, x, target="trn1").compiled.kernel
    copies = [i for i in program.instructions if i.definition.name == "tensor_copy"]
    assert [i.form.engine for i in copies] == [VECTOR]
