"""An instruction that is retargeted gives the values of a copy, or says why it cannot."""

import numpy as np
import pytest

from nki_lab import language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import InstructionError, LoopControl, NkiError
from nki_lab.ir.building.builder import current
from nki_lab.runtime.run import run

X = np.random.default_rng(9).integers(-50, 50, (128, 8)).astype(np.float32)


def computed(body, x=X, cores=1, **choices):
    """Run a kernel that loads `x` into `t` and returns what `body(t, u)` leaves in `u`, at first a copy of `t`."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        t, u = nl.load(x), nl.load(x)
        body(t, u)
        nl.store(out, u)
        return out

    return run(kernel[cores], x, **choices)


def plus_one(t, dtype=None, buffer=nl.sbuf):
    tile = nl.ndarray(t.shape, dtype or t.dtype, buffer=buffer)
    return nisa.tensor_scalar(dst=tile, data=t, op0=nl.add, operand0=1.0), tile


def test_the_whole_of_a_tile():
    def body(t, u):
        made, _ = plus_one(t)
        current().retarget(made, u)
        assert made.dst is u

    result = computed(body)
    np.testing.assert_array_equal(result.value, X + 1)
    names = [i.definition.name for i in result.compiled.kernel.body]
    assert names == ["dma_copy", "dma_copy", "tensor_scalar", "dma_copy"]


def test_parts_of_a_tile_the_last_first_and_with_another_argument():
    def body(t, u):
        tile = nl.ndarray(t.shape, t.dtype)
        made = [
            nisa.tensor_scalar(
                dst=tile[:, k : k + 2], data=t[:, k : k + 2], op0=nl.add, operand0=1.0
            )
            for k in (0, 4)
        ]
        current().retarget(made[1], u[:, 6:8], operand0=2.0)
        current().retarget(made[0], u[:, 0:2])

    expected = X.copy()
    expected[:, 0:2] += 1
    expected[:, 6:8] = X[:, 4:6] + 2
    np.testing.assert_array_equal(computed(body).value, expected)


def test_a_tile_that_the_instruction_reads_element_by_element():
    def body(t, u):
        made, _ = plus_one(u)
        current().retarget(made, u)

    np.testing.assert_array_equal(computed(body).value, X + 1)


def test_a_product_that_adds_to_what_is_there():
    def body(t, u):
        ones = nl.ones((128, 128), nl.float32)
        total = nl.zeros((128, 8), nl.float32, buffer=nl.psum)
        for _ in range(3):
            tile = nl.ndarray((128, 8), nl.float32, buffer=nl.psum)
            made = nisa.nc_matmul(dst=tile, stationary=ones, moving=t)
            current().retarget(made, total, accumulate=True)
        nisa.tensor_copy(dst=u, src=total)

    expected = np.broadcast_to(3 * X.sum(0), X.shape)
    np.testing.assert_array_equal(computed(body).value, expected)


def test_waits_and_order_stay_with_the_instruction():
    def body(t, u):
        with nl.no_reorder():
            made, _ = plus_one(t)
            current().retarget(made, u)
        later = nisa.tensor_scalar(dst=t, data=u, op0=nl.multiply, operand0=2.0)
        later.depends_on(made)
        nisa.tensor_copy(dst=u, src=t)

    np.testing.assert_array_equal(computed(body).value, 2 * (X + 1))


def in_a_loop(t, u):
    made, _ = plus_one(t)
    nl.fori_loop(0, 2, lambda i: current().retarget(made, u))


def before_a_loop(t, u):
    made, _ = plus_one(t)
    nl.fori_loop(0, 2, lambda i: nisa.memset(dst=t, value=0.0))
    current().retarget(made, u)


def read_in_between(t, u):
    made, tile = plus_one(t)
    nisa.tensor_copy(dst=t, src=tile)
    current().retarget(made, u)


def written_in_between(t, u):
    made, _ = plus_one(t)
    nisa.memset(dst=u, value=0.0)
    current().retarget(made, u)


def another_shape(t, u):
    made, _ = plus_one(t)
    current().retarget(made, u[:, 0:4])


def another_dtype(t, u):
    made, _ = plus_one(t, nl.bfloat16)
    current().retarget(made, u)


def exact_integers_of_psum(t, u):
    whole = nl.copy(t, dtype=nl.int32)
    tile = nl.ndarray(t.shape, nl.int32)
    made = nisa.tensor_tensor(dst=tile, data1=whole, data2=whole, op=nl.add)
    current().retarget(made, nl.ndarray(t.shape, nl.int32, buffer=nl.psum))


def reads_another_part(t, u):
    made = nisa.tensor_scalar(
        dst=nl.ndarray((128, 4), nl.float32), data=u[:, 0:4], op0=nl.add, operand0=1.0
    )
    current().retarget(made, u[:, 2:6])


def accumulates(t, u):
    ones = nl.ones((128, 128), nl.float32)
    tiles = [nl.zeros((128, 8), nl.float32, buffer=nl.psum) for _ in range(2)]
    made = nisa.nc_matmul(dst=tiles[0], stationary=ones, moving=t, accumulate=True)
    current().retarget(made, tiles[1])


def no_tile(t, u):
    made = nisa.dma_copy(dst=nl.ndarray(t.shape, t.dtype, buffer=nl.hbm), src=t)
    current().retarget(made, nl.ndarray(t.shape, t.dtype, buffer=nl.psum))


def dead_tile(t, u):
    made, tile = plus_one(t)
    current().retarget(made, u)
    nisa.tensor_copy(dst=t, src=tile)


def of_an_ended_loop(t, u):
    inside = []
    nl.fori_loop(0, 2, lambda i: inside.append(nl.copy(t)))
    made, _ = plus_one(t)
    current().retarget(made, inside[0])


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (in_a_loop, InstructionError, "it is not in the scope that is open"),
        (before_a_loop, InstructionError, r"a device loop at test_retarget.py, line \d+ follows it"),
        (read_in_between, InstructionError, r"tensor_copy uses `tile.1` .* after it"),
        (written_in_between, InstructionError, r"memset uses `u` .* after it"),
        (another_shape, InstructionError, r"its result is `tile.1` \[128, 8\]"),
        (another_dtype, InstructionError, r"its result is `tile.1` .* bfloat16"),
        (exact_integers_of_psum, InstructionError, "it would compute in other types"),
        (reads_another_part, InstructionError, "it reads `u`"),
        (accumulates, InstructionError, "it also reads"),
        (no_tile, NkiError, "dma_copy"),
        (dead_tile, InstructionError, r"`tile.1` .* holds nothing: tensor_scalar writes into `u`"),
        (of_an_ended_loop, LoopControl, "was made in a device loop that has ended"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_would_change_the_values_is_refused_at_its_line(body, kind, message):
    with pytest.raises(kind, match=message) as caught:
        computed(body)
    assert caught.value.span.function in (body.__name__, "<lambda>")


def test_a_debug_run_has_run_it_already():
    def body(t, u):
        made, _ = plus_one(t)
        current().retarget(made, u)

    with pytest.raises(InstructionError, match="it has run, as a debug run does at once"):
        computed(body, debug=True)
