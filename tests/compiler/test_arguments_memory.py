"""Tests the memory in which a kernel finds its arguments."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import KernelResult
from nki_lab.runtime import run
from nki_lab.targets.spaces import ARGUMENT_HBM


def _ask(seen):
    def kernel(x):
        made = {m: nl.ndarray((2, 3), nl.float32, buffer=m) for m in (nl.hbm, nl.shared_hbm)}
        seen.update(
            both=[x.buffer == m for m in made] + [m == x.buffer for m in made],
            unequal=[x.buffer != m for m in made],
            chip=[x.buffer == m for m in (nl.sbuf, nl.psum)] + [x.buffer.on_chip],
            view=x[0:1].buffer == nl.hbm == x.reshape((3, 2)).buffer,
            listed=x.buffer in (nl.private_hbm,) and x.buffer in (nl.sbuf, nl.shared_hbm),
            kind=isinstance(x.buffer, nl.MemoryRegion) and nl.is_hbm(x.buffer),
            made=[t.buffer is m for m, t in made.items()] + [nl.hbm == nl.shared_hbm],
        )
        tile = nl.load(x)
        assert tile.buffer == nl.sbuf != x.buffer
        out = nl.ndarray(x.shape, x.dtype, buffer=x.buffer)
        if nl.program_id() == 0:
            nl.store(out, tile)
        return out

    return kernel


@pytest.mark.parametrize("cores", [1, 2])
def test_either_hbm_is_the_memory_of_an_argument(cores):
    from nki_lab.runtime.jit import jit

    seen = {}
    x = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
    found = jit(_ask(seen))[cores](x)
    assert np.array_equal(found, x)  # what is made in an argument's memory can be returned
    assert seen == {
        "both": [True] * 4, "unequal": [False] * 2, "chip": [False] * 3, "view": True,
        "listed": True, "kind": True, "made": [True, True, False],
    }  # fmt: skip


def test_a_result_made_in_private_hbm_is_still_refused():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
        nisa.dma_copy(dst=out, src=x)
        return out

    with pytest.raises(KernelResult, match="a result must be in shared_hbm"):
        run(kernel, np.ones((2, 3), np.float32))


def test_it_is_shown_as_a_memory_and_is_no_member_of_its_own():
    assert repr(ARGUMENT_HBM) == "nl.shared_hbm" and ARGUMENT_HBM.name == "shared_hbm"
    assert ARGUMENT_HBM not in list(nl.MemoryRegion)[:2] and len(nl.MemoryRegion) == 4
