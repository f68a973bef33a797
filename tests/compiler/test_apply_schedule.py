"""Do instructions wait for those that `with_schedule` names, and is what they compute the same?"""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import KernelArgument
from nki_lab.ir.verify import verify
from nki_lab.timing import simulate_time


def _body(x):
    tile = nl.load(x)
    halves = [nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(3)]
    nisa.activation(dst=halves[0], data=tile, op=nl.exp, name="exp")
    nisa.tensor_scalar(dst=halves[1], data=tile, op0=nl.multiply, operand0=3.0, name="triple")
    nisa.tensor_tensor(dst=halves[2], data1=halves[0], data2=halves[1], op=nl.add, name="sum")
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=halves[2], name="store")
    return out


@nki.jit
def kernel(x):
    return _body(x)


def _run(scheduled, rng, cores=1):
    x = rng.standard_normal((4, 30)).astype(np.float32)
    result = scheduled[cores].launch(x)
    expected = np.exp(x.astype(float)) + 3 * x
    assert np.allclose(result.outputs[0], expected, rtol=1e-5, atol=1e-6)
    compiled = result.compiled.kernel
    assert not list(verify(compiled))
    names = [getattr(i, "name", None) for i in compiled.instructions]
    return compiled, {n: k for k, n in enumerate(names) if n}


def _waits(compiled, place, later):
    return [compiled.instructions[n].name for n in compiled.waits[place[later]] if n]


@pytest.mark.parametrize(
    "edges", [[("triple", "exp")], (("triple", ("exp",)),), [["triple", ["exp"]]]]
)
def test_an_edge_in_program_order_is_a_wait(edges, rng):
    plain, place = _run(kernel, rng)
    assert "exp" not in _waits(plain, place, "triple")
    compiled, place = _run(kernel.with_schedule(edges), rng)
    assert place["exp"] < place["triple"]
    assert "exp" in _waits(compiled, place, "triple")
    assert kernel.schedule == ()  # the kernel itself stays as it is


def test_an_edge_against_program_order_moves_instructions(rng):
    compiled, place = _run(kernel.with_schedule([("exp", "triple")]), rng)
    assert place["triple"] < place["exp"] < place["sum"] < place["store"]
    assert "triple" in _waits(compiled, place, "exp")


def test_the_schedule_stays_with_simulate_jit_and_the_grid(rng):
    scheduled = kernel.with_schedule([("exp", "triple")])
    for other in (nki.simulate(scheduled), nki.jit(scheduled), scheduled[1]):
        _, place = _run(other, rng)
        assert place["triple"] < place["exp"]
    _, place = _run(scheduled.with_schedule([]), rng)
    assert place["exp"] < place["triple"]


def test_time_follows_the_edges(rng):
    x = rng.standard_normal((128, 4096)).astype(np.float32)

    def spans(scheduled):
        rows = simulate_time(scheduled.launch(x).execution).table("Instruction")
        spans = zip(rows["start_ts"], rows["end_ts"], strict=True)
        of = dict(zip(rows["opcode"], spans, strict=True))
        return of["ACTIVATE"], of["SCALAR"]

    exp, triple = spans(kernel)
    assert triple[0] < exp[1]  # on two engines, side by side
    exp, triple = spans(kernel.with_schedule([("triple", "exp")]))
    assert triple[0] >= exp[1]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("exp", "tripel")], "(?s)no instruction named `tripel`.*did you mean `triple`"),
        ([("exp", "sum")], "`exp` of kernel cannot wait for `sum`"),
        ([("exp", "triple"), ("triple", "exp")], "`exp` of kernel cannot wait for `triple`"),
        ([("exp", ["exp"])], "`exp` of kernel waits for itself"),
    ],
)
def test_edges_that_cannot_be(edges, message):
    with pytest.raises(KernelArgument, match=message):
        kernel.with_schedule(edges)(np.ones((4, 30), np.float32))


@pytest.mark.parametrize(
    "edges", ["ab", [("a",)], [("a", 3)], [("a", ["b", 1])], ["ab"], {"a": "b"}]
)
def test_what_is_no_schedule(edges):
    with pytest.raises(KernelArgument, match="with_schedule"):
        kernel.with_schedule(edges)


def test_nothing_moves_in_a_block_that_keeps_its_order():
    @nki.jit
    def ordered(x):
        with nl.no_reorder():
            return _body(x)

    x = np.ones((4, 30), np.float32)
    assert ordered.with_schedule([("triple", "exp")])(x).shape == (4, 30)
    with pytest.raises(KernelArgument, match="`exp` of ordered cannot wait for `triple`"):
        ordered.with_schedule([("exp", "triple")])(x)


def test_a_block_is_an_edge_from_each_instruction_to_the_next(rng):
    """The page on scheduling says so: a block and the pairs of its instructions are the same program."""

    @nki.jit
    def ordered(x):
        tile = nl.load(x)
        out = nl.ndarray((3, *x.shape), x.dtype, buffer=nl.shared_hbm)
        parts = [nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(3)]

        def doubled():
            nisa.tensor_scalar(dst=parts[1], data=tile, op0=nl.multiply, operand0=2.0, name="b")

        with nl.no_reorder():
            nisa.activation(dst=parts[0], data=tile, op=nl.exp, name="a")
            doubled()
            with nl.no_reorder():
                nisa.activation(dst=parts[2], data=tile, op=nl.tanh, name="c")
        for k, part in enumerate(parts):
            nisa.dma_copy(dst=out[k], src=part, name=f"store{k}")
        return out

    x = rng.standard_normal((4, 30)).astype(np.float32)
    result = ordered.launch(x)
    expected = np.stack([np.exp(x), 2 * x, np.tanh(x)])
    assert np.allclose(result.outputs[0], expected, rtol=1e-5, atol=1e-6)
    compiled = result.compiled.kernel
    place = {i.name: n for n, i in enumerate(compiled.instructions) if i.name}
    assert _waits(compiled, place, "b") == ["a"] and _waits(compiled, place, "c") == ["b"]
    assert [[p.name for p in i.after] for i in compiled.instructions if i.after] == [["a"], ["b"]]


def test_a_name_may_be_on_one_core_only():
    @nki.jit
    def halves(x):
        core = nl.program_id()
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        if core == 0:
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, name="double")
        nisa.dma_copy(dst=out[core], src=tile, name=f"store{core}")
        return out

    x = np.ones((4, 30), np.float32)
    assert np.array_equal(halves.with_schedule([("store0", "double")])[2](x)[:, 0, 0], [2, 1])
    with pytest.raises(KernelArgument, match="no instruction named `store2`"):
        halves.with_schedule([("store2", "double")])[2](x)


@nki.jit
def _one_place_in_turn(x):
    """Use the left half of a tile, and then one that lies on its right half."""
    first = nl.ndarray((4, 8), x.dtype, buffer=nl.sbuf, address=(0, 0))
    second = nl.ndarray((4, 4), x.dtype, buffer=nl.sbuf, address=(0, 16))
    late = nl.ndarray((4, 4), x.dtype, buffer=nl.sbuf)
    out = nl.ndarray((3, 4, 4), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=first[:, 0:4], src=x[:, 0:4])
    nisa.dma_copy(dst=out[0], src=first[:, 0:4], name="first out")
    nisa.dma_copy(dst=second, src=x[:, 4:8], name="second in")
    nisa.dma_copy(dst=out[1], src=second)
    nisa.memset(dst=late, value=2.0, name="late")
    nisa.dma_copy(dst=out[2], src=late)
    return out


def test_tiles_that_take_turns_at_one_place_stay_apart(rng):
    x = rng.standard_normal((4, 8)).astype(np.float32)
    result = _one_place_in_turn.with_schedule([("first out", "late")]).launch(x)
    names = [i.name for i in result.compiled.kernel.instructions if i.name]
    assert names == ["late", "first out", "second in"]
    expected = np.stack([x[:, 0:4], x[:, 4:8], np.full((4, 4), 2)])
    np.testing.assert_array_equal(result.outputs[0], expected)
