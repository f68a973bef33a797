"""Tests that instructions are found that read elements after they may have overwritten them."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.ir.definition.instruction import Order, Shape, instruction, reads, registry, writes
from nki_lab.runtime import jit, run
from nki_lab.source import Span
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.spaces import SBUF
from tests.compiler.programs import compiled, line_of
from tests.simulator.kernels import in_register, tile_of

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
        "dst = `t` [64, 15] float32 in sbuf overlaps elements of src = `t` [64, 15]"
        in finding.message
    )


# -- the order of every instruction -----------------------------------------------------------------------------------


def scan(dst, a, b):
    nisa.tensor_tensor_scan(dst, a, b, 0.5, op0=nl.multiply, op1=nl.add)


def cumulative(dst, src):
    nisa.tensor_scalar_cumulative(dst, src, nl.add, nl.add, 1.0)


def predicated(dst, src, t):
    nisa.tensor_copy_predicated(dst, src, t.view(nl.uint8)[:, 48 : 48 + dst.shape[1]])


def selected(dst, src):
    count = dst.shape[1]
    nisa.affine_select(dst, [[-1, count]], 1, src, 0.0, cmp_op=nl.greater_equal)


def gathered(dst, data):
    index = nl.ndarray(dst.shape, dtype=nl.uint32, buffer=nl.sbuf)
    nisa.memset(index, 3)
    nisa.nc_n_gather(dst, data, index)


OVER_ITSELF = {
    "scan": lambda t, out: scan(t[:, 1:16], t[:, 0:15], t[:, 1:16]),
    "scan of the second": lambda t, out: scan(t[:, 2:16], t[:, 2:16], t[:, 0:14]),
    "cumulative": lambda t, out: cumulative(t.view(nl.bfloat16)[:, 3:20], t.view(nl.bfloat16)[:, 0:17]),
    "predicated": lambda t, out: predicated(t[:, 1:9], t[:, 0:8], t),
    "affine_select": lambda t, out: selected(t[:, 1:16], t[:, 0:15]),
    "tensor_reduce": lambda t, out: nisa.tensor_reduce(
        t[:, 4:8], nl.add, t.reshape((64, 4, 4)), axis=2
    ),
    "activation": lambda t, out: nisa.activation(t[:, 1:16], nl.copy, t[:, 0:15]),
    "shuffle": lambda t, out: nisa.nc_stream_shuffle(t[0:32, 1:16], t[0:32, 0:15], [*range(32)]),
    "n_gather in place": lambda t, out: gathered(t, t),
    "n_gather behind": lambda t, out: gathered(t[:, 0:15], t[:, 1:16]),
    "transpose by DMA in place": lambda t, out: nisa.dma_transpose(out[0:16], out[0:16], axes=(1, 0)),
    "transpose in place": lambda t, out: nisa.nc_transpose(
        t[0:16], t[0:16], engine=nisa.engine.vector
    ),
    "sum over partitions": lambda t, out: nisa.tensor_partition_reduce(t[0:1], nl.add, t),
}  # fmt: skip


@pytest.mark.parametrize("name", OVER_ITSELF)
def test_instructions_that_may_overwrite_what_they_read(name):
    (finding,) = hazards(OVER_ITSELF[name])
    assert finding.kind == "hazard" and finding.help.startswith("write into another tile")


def eight(t, dtype=nl.float32):
    made = nl.ndarray((64, 8), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(made, 1)
    return made


FINE = {
    "scan": lambda t, out: scan(t, t, t),
    "scan behind": lambda t, out: scan(t[:, 0:15], t[:, 1:16], t[:, 1:16]),
    "cumulative": lambda t, out: cumulative(t.view(nl.bfloat16), t.view(nl.bfloat16)),
    "predicated": lambda t, out: predicated(t[:, 0:8], t[:, 0:8], t),
    "affine_select": lambda t, out: selected(t, t),
    "shuffle": lambda t, out: nisa.nc_stream_shuffle(t[0:32], t[0:32], [31 - k for k in range(32)]),
    "max8": lambda t, out: nisa.max8(t[:, 2:10], t),
    "find_index8": lambda t, out: nisa.nc_find_index8(t.view(nl.uint32)[:, 0:8], t, eight(t)),
    "match_replace8": lambda t, out: nisa.nc_match_replace8(t, t, eight(t), 0.0),
    "bn_stats": lambda t, out: nisa.bn_stats(t[:, 3:9], t),
    "bn_aggr": lambda t, out: nisa.bn_aggr(t[:, 0:2], t[:, 0:12]),
    "reduced in place": lambda t, out: nisa.tensor_reduce(t[:, 0:4], nl.add, t.reshape((64, 4, 4)), axis=2),
    "reduce_res over data": lambda t, out: nisa.activation(
        t, nl.copy, t, reduce_op=nl.add, reduce_res=t.view(nl.float32)[:, 0:1]
    ),
    "a result written to one place": lambda t, out: nisa.tensor_copy(t.ap([[16, 64], [0, 8]]), t[:, 8:16]),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_instructions_that_read_before_they_write(name):
    assert hazards(FINE[name]) == []


def test_an_instruction_must_state_its_order():
    def made(**facts):
        @instruction(
            engine=(VECTOR,),
            dst=writes(SBUF, shape=Shape.FLAT),
            data=reads(SBUF),
            observes=False,
            **facts,
        )
        def probe_order(dst, data):
            """Do something."""

        registry.pop("probe_order")
        return [p for p in probe_order.check_complete() if "order" in p]

    assert made() == ["no order of `dst`: state order=Order.STREAM, LAST, MOVES or NONE"]
    assert made(order=Order.NONE) == made(order={"dst": Order.LAST}) == []
    assert "order of unknown `other`" in made(order={"other": Order.LAST})


# -- elements written to one place ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "shared"),
    [
        ([[16, 64], [2, 4], [1, 4]], True),
        ([[16, 64], [3, 3], [2, 4]], True),
        ([[16, 64], [3, 2], [2, 3]], False),  # 0 2 4 3 5 7
        ([[16, 64], [4, 4], [1, 4]], False),
        ([[16, 64], [0, 3], [1, 4]], False),  # a rule of its own
        ([[16, 64], [5, 3], [-1, 5]], False),
    ],
)
def test_elements_of_a_destination_that_lie_on_each_other(pattern, shared):
    def kernel(x):
        t = nl.load(x)
        sizes = [n for _, n in pattern]
        source = nl.zeros(sizes, dtype=x.dtype)
        nisa.tensor_copy(t.ap(pattern, offset=5 if pattern[-1][0] < 0 else 0), source)  # twice
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    found = [f for f in compiled(kernel, X).findings if " overlap" in f.message]
    assert len(found) == shared
    assert all(Span.of(f.stack[0]).line == line_of(__file__, "# twice") for f in found)


@pytest.mark.parametrize(("column", "met"), [(3, True), (9, False)])
def test_two_results_that_lie_on_each_other(column, met):
    def kernel(x):
        t = nl.load(x)
        made = nl.zeros((64, 10), dtype=x.dtype)
        nisa.activation(made[:, 0:9], nl.copy, t[:, 0:9], reduce_op=nl.add,
                        reduce_res=made[:, column : column + 1],
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)  # fmt: skip
        out = nl.ndarray(made.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, made)
        return out

    found = [f.message for f in compiled(kernel, X).findings if f.kind == "hazard"]
    assert len(found) == met
    assert all("dst = `made` [64, 9]" in m and "reduce_res = `made` [64, 1]" in m for m in found)


# -- a model that streams ---------------------------------------------------------------------------------------------


def random_view(rng, size, count):
    """Return (offset, stride) of a random view of `count` elements of a row of `size`."""
    while True:
        stride = int(rng.integers(-3, 4))
        offset = int(rng.integers(0, size))
        if 0 <= offset + (count - 1) * stride < size:
            return offset, stride


def places(view, count):
    return view[0] + view[1] * np.arange(count)


def streamed(row, dst, srcs, step):
    """Return the row after results were computed one by one, each from what the row holds then."""
    row = row.copy()
    state = None
    for k, at in enumerate(dst):
        state = step([row[src[k]] for src in srcs], state)
        row[at] = state
    return row


def read_first(row, dst, srcs, step):
    """Return the row after everything was read before anything was written."""
    old, row, state = row, row.copy(), None
    for k, at in enumerate(dst):
        state = step([old[src[k]] for src in srcs], state)
        row[at] = state
    return row


STREAMS = {
    "tensor_scalar": (1, lambda v, s: v[0] + 3, lambda d, a: nisa.tensor_scalar(d, a, nl.add, 3.0)),
    "activation": (1, lambda v, s: v[0] * 3, lambda d, a: nisa.activation(d, nl.copy, a, scale=3.0)),
    "tensor_tensor": (2, lambda v, s: v[0] + 7 * v[1], lambda d, a, b: nisa.scalar_tensor_tensor(
        d, b, nl.multiply, 7.0, nl.add, a)),
    "scan": (2, lambda v, s: v[0] * (1 if s is None else s) + v[1], lambda d, a, b: nisa.tensor_tensor_scan(
        d, a, b, 1.0, op0=nl.multiply, op1=nl.add)),
    # Any result but the element itself: a copy onto the same place would hide that it is read late.
    "affine_select": (1, lambda v, s: v[0] + 1, lambda d, a: nisa.affine_select(
        d, [[1, d.shape[1]]], 0, a, 0.0, cmp_op=nl.greater_equal)),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", STREAMS)
def test_a_finding_comes_exactly_where_a_stream_gives_other_values(name, seed):
    rng = np.random.default_rng(seed)
    size, count = 20, int(rng.integers(2, 9))
    number, step, call = STREAMS[name]
    views = [random_view(rng, size, count) for _ in range(1 + number)]
    if (
        views[0][1] == 0
    ):  # of such a result only the last element stays, and a finding may be about others
        views[0] = 0, 1
    row = rng.uniform(2, 3, size)
    at = [places(view, count) for view in views]
    differ = not np.array_equal(
        streamed(row, at[0], at[1:], step), read_first(row, at[0], at[1:], step)
    )

    def kernel(x):
        t = nl.ndarray((4, size), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(t, x)
        call(*(t.ap([[size, 4], [stride, count]], offset=offset) for offset, stride in views))
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    found = compiled(kernel, np.tile(row, (4, 1)).astype(np.float32)).findings
    assert any("overwritten" in f.message for f in found) == differ


@pytest.mark.parametrize("seed", [*range(60), 1000, 1027, 1052])
def test_transfers_may_meet_only_element_by_element(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 7))
    dst, src = (random_view(rng, 14, count) for _ in range(2))
    wrote, read = places(dst, count), places(src, count)
    wrong = any(a == b and j != k for j, a in enumerate(wrote) for k, b in enumerate(read))
    wrong = wrong and dst != src  # one place that is copied onto itself

    def kernel(x):
        views = [x.ap([[stride, count]], offset=offset) for offset, stride in (dst, src)]
        nisa.dma_copy(*views)
        return x

    found = compiled(kernel, np.zeros(14, np.float32)).findings
    assert any("overwritten" in f.message for f in found) == wrong


@pytest.mark.parametrize("seed", range(40))
def test_a_reduction_writes_a_result_when_its_elements_are_read(seed):
    rng = np.random.default_rng(seed)
    groups, each = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    size = 24
    start = int(rng.integers(0, size - groups * each + 1))
    dst = random_view(rng, size, groups)
    row = rng.uniform(2, 3, size)
    stream = row.copy()
    for g, at in enumerate(places(dst, groups)):
        stream[at] = stream[start + g * each : start + (g + 1) * each].sum()
    first = row.copy()
    first[places(dst, groups)] = row[start:][: groups * each].reshape(groups, each).sum(axis=1)

    def kernel(x):
        t = nl.ndarray((4, size), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(t, x)
        data = t.ap([[size, 4], [each, groups], [1, each]], offset=start)
        nisa.tensor_reduce(t.ap([[size, 4], [dst[1], groups]], offset=dst[0]), nl.add, data, axis=2)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    if (
        dst[1] == 0 and groups > 1
    ):  # only the last result is seen; what the others overwrite is not read
        return
    found = compiled(kernel, np.tile(row, (4, 1)).astype(np.float32)).findings
    assert any("overwritten" in f.message for f in found) == (not np.allclose(stream, first))


# -- addresses that values decide -------------------------------------------------------------------------------------


def one(value):
    return np.array([[value]], np.int32)


def noticed(kernel, *arrays, target="trn2"):
    return [f for f in run(jit(kernel), *arrays, target=target).findings if f.kind == "hazard"]


@pytest.mark.parametrize("ahead", [-3, 0, 2, 7])
def test_a_register_that_moves_a_result(ahead):
    def kernel(x, index):
        t = nl.load(x)
        at = in_register(tile_of(index))
        nisa.tensor_copy(t[:, nl.ds(at, 5)], t[:, 4:9])  # moved
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    found = noticed(kernel, X, one(4 + ahead))
    assert [Span.of(f.stack[0]).line for f in found] == [line_of(__file__, "# moved")] * (
        ahead == 2
    )
    assert len(noticed(jit(kernel, debug=True), X, one(4 + ahead))) == (ahead == 2)


def test_one_register_that_moves_both_is_in_place():
    def kernel(x, index):
        t = nl.load(x)
        at = in_register(tile_of(index))
        nisa.tensor_scalar(t[:, nl.ds(at, 5)], t[:, nl.ds(at, 5)], nl.add, 1.0)
        return t_of(t)

    def t_of(t):
        out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, t)
        return out

    assert not noticed(kernel, X, one(4))


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([5, 1, 2], False),
        ([1, 5, 2], True),
        ([0, 1, 2], False),
        ([3, 4, 9], False),
        ([9, 0, 4], True),
    ],
)
def test_rows_gathered_into_their_own_tensor(rows, wrong):
    def kernel(x, index):
        nisa.dma_copy(x[0:3], x.vector_select(0, tile_of(index)))
        return x

    index = np.array(rows, np.int32)[:, None]
    assert len(noticed(kernel, X.copy(), index)) == wrong


@pytest.mark.parametrize("stop", [1, 4])
def test_passes_of_a_loop(stop):
    def kernel(x, count):
        last = in_register(tile_of(count))

        def body(i):
            nisa.dma_copy(x.ap([[16, 4], [1, 16]], scalar_offset=i), x[0:4])

        nl.fori_loop(0, last, body)
        return x

    found = noticed(kernel, X.copy(), one(stop))
    assert len(found) == (stop > 1)
    assert all("(and 2 more times at this line)" in f.message for f in found)
