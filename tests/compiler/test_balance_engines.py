"""Does work leave the busiest engine only where the documentation lets the compiler choose, and does that gain time?"""

from collections import Counter

import numpy as np
import pytest

import nki_lab.language as nl
from benchmarks.kernels import KERNELS
from nki_lab.api import isa as nisa
from nki_lab.compiler.check_schedule import check_schedule
from nki_lab.compiler.options import CompileOptions
from nki_lab.isa import registry
from nki_lab.simulator import Program
from nki_lab.targets import TRN1, TRN2
from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR, Engine
from tests.compiler.programs import compiled
from tests.compiler.test_schedule import latency

AS_PREFERRED = CompileOptions(skip_passes=("balance_engines",))


def copies(x, count=10, engine=Engine.unknown, others=0, dtype=nl.float32):
    """Copy a tile again and again on the chip, after some work that is Scalar's."""
    out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=t, value=1)
    for _ in range(others):
        u = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.activation(dst=u, op=nl.exp, data=t)
        nisa.dma_copy(dst=out[:, 0:1], src=u[:, 0:1])
    for n in range(count):
        u = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=u, src=t, engine=engine)
        nisa.dma_copy(dst=out[:, n : n + 1], src=u[:, 0:1])
    return out


X = np.zeros((128, 4096), np.float32)


def engines(**facts):
    """Return how many copies each engine runs."""
    target = facts.pop("target", TRN2)
    kernel = compiled(copies, X, target=target, **facts).kernel
    return Counter(i.form.engine for i in kernel.instructions if i.definition.name == "tensor_copy")


def test_copies_are_shared_where_vector_is_the_busiest():
    shared = engines()
    assert shared[VECTOR] + shared[SCALAR] == 10 and 3 <= shared[SCALAR] <= 6


@pytest.mark.parametrize(
    ("facts", "engine"),
    [
        ({"engine": VECTOR}, VECTOR),  # the author's choice
        ({"engine": GPSIMD}, GPSIMD),
        ({"others": 20}, VECTOR),  # Scalar has more to do
        ({"dtype": nl.int32}, VECTOR),  # not exact in float32
        ({"target": TRN1}, VECTOR),  # NeuronCore-v2 has no copy on Scalar
    ],
)
def test_what_stays(facts, engine):
    found = engines(**facts)
    assert set(found) == {engine}


def test_only_what_the_documentation_leaves_to_the_workload_moves():
    """nki/api/nki/isa/__init__.py:428; elsewhere it names the engine, or the shape of the tiles decides."""
    assert [name for name, d in registry.items() if d.balanced] == ["tensor_copy"]


def test_attention_gets_faster_and_computes_the_same():
    measured = KERNELS["attention 1024x128 float32"]
    arrays = measured.arrays(np.random.default_rng(0))
    found = compiled(measured.kernel, *arrays)
    plain = compiled(measured.kernel, *arrays, options=AS_PREFERRED)
    assert latency(found.kernel) < 0.97 * latency(plain.kernel)
    assert check_schedule(found.stages[0][1], found.kernel) == []
    (mine,), (theirs,) = (Program(k.kernel, None).run(arrays) for k in (found, plain))
    np.testing.assert_array_equal(mine, theirs)
