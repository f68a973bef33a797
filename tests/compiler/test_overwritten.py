"""Are instructions found that read elements after they may have overwritten them?"""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.source import Span
from tests.compiler.programs import compiled, line_of

X = np.random.default_rng(3).standard_normal((64, 16)).astype(np.float32)


def hazards(use):
    def kernel(x):
        t = nl.load(x)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        use(t, out)
        nisa.dma_copy(out, t)
        return out

    return [f for f in compiled(kernel, X).findings if "overwritten" in f.message]


def square(dst, data1, data2):
    nisa.tensor_tensor(dst, data1, data2, nl.multiply)


@pytest.mark.parametrize(
    "use",
    [
        lambda t, out: nisa.tensor_copy(t[:, 1:16], t[:, 0:15]),  # ahead by one
        lambda t, out: nisa.tensor_scalar(t[:, 2:16], t[:, 0:14], nl.add, 1.0),
        lambda t, out: square(t, t, t[:, 0:1].broadcast(1, 16)),  # every element by the first one
        lambda t, out: nisa.tensor_copy(t.ap([[16, 64], [-1, 16]], offset=15), t),  # backwards
        lambda t, out: nisa.tensor_copy(t.view(nl.uint32)[:, 1:16], t[:, 0:15]),
        lambda t, out: nisa.dma_copy(out[1:64], out[0:63]),
        lambda t, out: nisa.dma_copy(out[0:63], out[1:64]),  # a transfer has no order
        lambda t, out: nisa.dma_copy(t[0:32, 0:8], t[0:32, 4:12]),
        lambda t, out: nisa.dma_compute(out[0:8], [out[8:16], out[4:12]], nl.add),
    ],
)
def test_an_instruction_that_runs_ahead_of_itself_is_found(use):
    (finding,) = hazards(use)
    assert finding.kind == "hazard"
    assert finding.help.startswith("write into another tile")


@pytest.mark.parametrize(
    "use",
    [
        lambda t, out: nisa.tensor_scalar(t, t, nl.add, 1.0),  # in place
        lambda t, out: square(t, t, t),
        lambda t, out: nisa.tensor_copy(t[:, 0:15], t[:, 1:16]),  # behind by one
        lambda t, out: nisa.tensor_copy(t[:, 0:16:2], t[:, 1:16:2]),  # side by side
        lambda t, out: nisa.tensor_copy(t[:, 0:8], t[:, 8:16]),
        lambda t, out: nisa.tensor_copy(t[32:64], t[0:32]),
        lambda t, out: nisa.tensor_scalar(t, t, nl.multiply, t[:, 0:1]),  # a vector is read first
        lambda t, out: nisa.tensor_reduce(t[:, 0:1], nl.add, t, axis=1),
        lambda t, out: nisa.dma_copy(out[0:32], out[32:64]),
        lambda t, out: nisa.dma_compute(out, [out, t], nl.add),
    ],
)
def test_other_uses_of_one_tensor_are_fine(use):
    assert hazards(use) == []


def test_the_place_and_both_operands_are_named():
    (finding,) = hazards(lambda t, out: nisa.tensor_copy(t[:, 1:16], t[:, 0:15]))  # the place
    assert Span.of(finding.stack[0]).line == line_of(__file__, "# the place")
    assert (
        "dst = `t` [64, 15] float32 in sbuf lies over elements of src = `t` [64, 15]"
        in finding.message
    )
