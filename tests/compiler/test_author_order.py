"""Instructions wait as `depends_on` and `with_schedule` ask, and compute the same."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import InstructionError, KernelArgument, OutsideKernel
from nki_lab.ir.program.verify import verify
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


# -- depends_on --------------------------------------------------------------------------------------------------------


def _tiles(x, count):
    return [nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(count)]


def _stored(x, tile):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_an_instruction_may_wait_for_a_later_one(rng):
    @nki.jit
    def later(x):
        tile = nl.load(x)
        a, b, c = _tiles(x, 3)
        first = nisa.activation(dst=a, data=tile, op=nl.exp, name="exp")
        second = nisa.tensor_scalar(dst=b, data=tile, op0=nl.multiply, operand0=3.0, name="triple")
        assert first.depends_on(second) is first
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add, name="sum")
        return _stored(x, c)

    compiled, place = _run(later, rng)
    assert place["triple"] < place["exp"] < place["sum"]
    assert "triple" in _waits(compiled, place, "exp")


def test_what_stands_before_a_loop_may_be_waited_for_inside_it(rng):
    """The page lets the producer sit in an enclosing scope; here it is written behind the loop."""

    @nki.jit
    def inside(x):
        tile = nl.load(x)
        a, b, c = _tiles(x, 3)
        kept = []
        nl.fori_loop(
            0, 3, lambda k: kept.append(nisa.activation(dst=a, data=tile, op=nl.exp, name="exp"))
        )
        kept[0].depends_on(
            nisa.tensor_scalar(dst=b, data=tile, op0=nl.multiply, operand0=3.0, name="triple")
        )
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add, name="sum")
        return _stored(x, c)

    compiled, place = _run(inside, rng)
    assert place["triple"] < place["exp"] < place["sum"]
    assert "triple" in _waits(compiled, place, "exp")


def _circle(x, first, second):
    first.depends_on(second)


def _both(x, first, second):
    first.depends_on(second)
    second.depends_on(first)


@pytest.mark.parametrize(
    ("wire", "reads", "reason"),
    [
        (_circle, True, "it reads `a`, which `exp` writes"),
        (_both, False, "asked for by depends_on"),
    ],
)
def test_a_circle_names_its_instructions_and_why_each_waits(wire, reads, reason):
    @nki.jit
    def circle(x):
        tile = nl.load(x)
        a = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        b = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        first = nisa.activation(dst=a, data=tile, op=nl.exp, name="exp")
        second = nisa.tensor_scalar(
            dst=b, data=a if reads else tile, op0=nl.multiply, operand0=3.0, name="triple"
        )
        wire(x, first, second)
        return _stored(x, b)

    with pytest.raises(InstructionError) as error:
        circle(np.ones((4, 30), np.float32))
    assert "`exp` of circle cannot wait for `triple`" in str(error.value)
    assert error.value.notes[0].startswith("`exp` waits for `triple`: asked for by depends_on")
    assert error.value.notes[1].startswith(f"`triple` waits for `exp`: {reason}")
    assert "first.depends_on(second)" in str(error.value)


@pytest.mark.parametrize("past", [True, False])
def test_nothing_moves_past_a_meeting_of_two_cores(past, rng):
    @nki.jit
    def met(x):
        core, tile = nl.program_id(), nl.load(x)
        a, b = (nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(2))
        out = nl.ndarray((2, 2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        meeting = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=meeting[core], src=tile)
        first = nisa.tensor_scalar(dst=a, data=tile, op0=nl.multiply, operand0=2.0, name="double")
        if past:
            nisa.core_barrier(meeting, (0, 1))
        second = nisa.tensor_scalar(dst=b, data=tile, op0=nl.multiply, operand0=3.0, name="triple")
        if not past:
            nisa.core_barrier(meeting, (0, 1))
        first.depends_on(second)
        nisa.dma_copy(dst=out[core, 0], src=a)
        nisa.dma_copy(dst=out[core, 1], src=b)
        return out

    x = rng.standard_normal((4, 30)).astype(np.float32)
    if not past:
        np.testing.assert_array_equal(met[2](x), np.stack([np.stack([2 * x, 3 * x])] * 2))
        return
    with pytest.raises(InstructionError) as error:
        met[2](x)
    assert "`double` of met cannot wait for `triple`" in str(error.value)
    assert any("nothing moves past a meeting of the cores" in note for note in error.value.notes)


def _out_of_a_loop(x, tile, a, b, kept):
    nl.fori_loop(0, 3, lambda k: kept.append(nisa.memset(dst=a, value=1.0, name="inside")))
    kept.append(nisa.memset(dst=b, value=1.0, name="outside"))
    return kept[1], kept[0]


def _between_loops(x, tile, a, b, kept):
    nl.fori_loop(0, 3, lambda k: kept.append(nisa.memset(dst=a, value=1.0, name="inside")))
    nl.fori_loop(0, 3, lambda k: kept.append(nisa.memset(dst=b, value=1.0, name="outside")))
    return kept[1], kept[0]


def _out_of_the_inner_loop(x, tile, a, b, kept):
    def outer(k):
        nl.fori_loop(0, 3, lambda j: kept.append(nisa.memset(dst=a, value=1.0, name="inside")))
        kept.append(nisa.memset(dst=b, value=1.0, name="outside"))

    nl.fori_loop(0, 2, outer)
    return kept[1], kept[0]


@pytest.mark.parametrize("wire", [_out_of_a_loop, _between_loops, _out_of_the_inner_loop])
@pytest.mark.parametrize("by_name", [False, True])
def test_an_edge_cannot_leave_a_device_loop(wire, by_name):
    @nki.jit
    def loops(x):
        tile = nl.load(x)
        later, earlier = wire(x, tile, *_tiles(x, 2), [])
        if not by_name:
            later.depends_on(earlier)
        return _stored(x, tile)

    kernel = loops.with_schedule([("outside", "inside")]) if by_name else loops
    with pytest.raises(
        KernelArgument if by_name else InstructionError,
        match=r"`outside` cannot wait for `inside`, .*in each pass of the device loop at .*leave a device loop",
    ):
        kernel(np.ones((4, 30), np.float32))


def test_what_is_not_an_edge():
    kept = []

    @nki.jit
    def odd(x, how):
        tile = nl.load(x)
        first = nisa.memset(dst=_tiles(x, 1)[0], value=1.0)
        kept.append(first)
        if how == "itself":
            first.depends_on(first)
        elif how == "tensor":
            first.depends_on(tile)
        else:
            first.depends_on(kept[0])
        return _stored(x, tile)

    x = np.ones((4, 30), np.float32)
    for how, message in (
        ("itself", "memset waits for itself"),
        ("tensor", "takes instructions, found NkiTensor"),
        ("foreign", "memset is not an instruction of this run of odd"),
    ):
        with pytest.raises(InstructionError, match=message):
            odd(x, how)
    with pytest.raises(OutsideKernel, match="depends_on was called outside a kernel"):
        kept[0].depends_on(kept[1])


def test_an_edge_moves_nothing_past_what_a_loop_runs_by():
    """The trips of a loop are read from a register: what sets it cannot wait for what stands behind the loop."""

    @nki.jit
    def trips(x):
        tile = nl.load(x)
        (a,) = _tiles(x, 1)
        count = nisa.register_alloc(0)
        setting = nisa.register_move(dst=count, src=2)
        nl.fori_loop(0, count, lambda k: nisa.memset(dst=a, value=1.0))
        setting.depends_on(nisa.memset(dst=a, value=2.0))
        return _stored(x, tile)

    with pytest.raises(InstructionError) as error:
        trips(np.ones((4, 30), np.float32))
    assert "the loop runs by a register that it uses" in str(error.value)


@pytest.mark.parametrize("seed", range(60))
def test_random_edges(seed):
    """Whether edges make a circle, and what comes out, by the tiles that each line reads and writes."""
    pick = np.random.default_rng(seed)
    lines = [(int(d), int(s)) for d, s in pick.integers(0, 5, (9, 2))]
    edges = {(int(a), int(b)) for a, b in pick.integers(0, 9, (pick.integers(1, 4), 2)) if a != b}

    @nki.jit
    def random(x):
        tiles = [nl.load(x[k]) for k in range(5)]
        calls = [
            nisa.tensor_scalar(
                dst=tiles[d], data=tiles[s], op0=nl.multiply, operand0=1.0, op1=nl.add,
                operand1=float(n + 1), name=f"n{n}",
            )
            for n, (d, s) in enumerate(lines)
        ]  # fmt: skip
        for later, earlier in sorted(edges):
            calls[later].depends_on(calls[earlier])
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        for k, tile in enumerate(tiles):
            nisa.dma_copy(dst=out[k], src=tile)
        return out

    before = {n: {b for a, b in edges if a == n} for n in range(9)}
    for n, (d, s) in enumerate(lines):
        before[n] |= {m for m in range(n) if lines[m][0] in (d, s) or lines[m][1] == d}
    done: set[int] = set()
    while ready := {n for n in range(9) if n not in done and before[n] <= done}:
        done |= ready
    x = pick.standard_normal((5, 4, 6)).astype(np.float32)
    if len(done) < 9:
        with pytest.raises(InstructionError, match="cannot wait for"):
            random(x)
        return
    result = random.launch(x)
    order = [
        int(i.name[1:]) for i in result.compiled.kernel.instructions if getattr(i, "name", None)
    ]
    assert all(order.index(b) < order.index(a) for a, b in edges)
    expected = x.copy()
    for n, (d, s) in enumerate(lines):
        expected[d] = expected[s] + np.float32(n + 1)
    np.testing.assert_array_equal(result.outputs[0], expected)
