"""What the deep dives show: access patterns, engines that make descriptors, loops on the device, fast accesses."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import LanguageError, NkiError, NotOnTarget, ViewError
from nki_lab.runtime import run
from tests.official.pages import shows
from tests.official.running import check, in_versions, on_all, on_later, wide
from tests.official.test_get_started import stored
from tests.public.sdk.references import signed

APS = "deep-dives/nki-aps.rst"
DGE = "deep-dives/nki-dge.rst"
LOOPS = "deep-dives/nki-dynamic-loops.rst"
PERF = "deep-dives/nki_perf_guide.rst"


# -- access patterns ---------------------------------------------------------------------------------------------------


@shows(
    APS,
    "a pattern and an offset pick elements of the storage",
    "a view has the pattern it stands for",
)
@shows(APS, "a pattern on a view reaches what the view leaves out", "views of views")
@in_versions
@on_all
def test_a_pattern_picks_elements_of_the_storage(target, nki, rng):
    def picked(x):
        tile = nl.load(x)
        view = tile.slice(dim=1, start=6, end=30)
        same = tile.ap(pattern=[[48, 64], [1, 24]], offset=6)
        assert view.get_pattern() == same.get_pattern() == [[48, 64], [1, 24]]
        assert view.offset == same.offset == 6
        grid = tile.ap(pattern=[[48, 64], [2, 5], [11, 3]], offset=4)
        over = view.ap(pattern=[[48, 64], [3, 14]], offset=0)  # starts as the view, and leaves it
        small = tile.slice(dim=1, start=0, end=48, step=3).slice(dim=0, start=32, end=64)
        made = []
        for part in (same, grid, over, small[:, 2:9]):
            copy = nl.ndarray(part.shape, part.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=copy, src=part)
            made.append(stored(copy))
        return tuple(made)

    x = signed(rng, (64, 48), "float32")
    flat = x.reshape(-1)
    w, z, y = np.ix_(range(64), range(5), range(3))
    check(picked, (x,), x[:, 6:30], flat[4 + 48 * w + 2 * z + 11 * y], x[:, 6::3], x[32:64, ::3][:, 2:9],
          target=target, nki=nki)  # fmt: skip


@shows(APS, "a pattern that skips partitions is refused")
@in_versions
@on_all
def test_a_pattern_that_skips_partitions_is_refused(target, nki, rng):
    def skipped(x):
        tile = nl.load(x)
        return stored(nl.copy(tile.ap(pattern=[[60, 5], [1, 30]], offset=0)))

    with pytest.raises(ViewError, match="partition stride is 60, need 30"):
        run(skipped, signed(rng, (10, 30), "float32"), target=target, nki=nki)


@shows(APS, "bits in another type, with as many elements as fit")
@shows("api/nki/language/__init__.py", "NkiTensor.view changes the number of elements of a row")
@in_versions
@on_all
def test_bits_in_another_type(target, nki, rng):
    def halves(x):
        tile = nl.load(x)
        pattern = tile.ap(pattern=[[20, 12], [1, 20]], offset=0, dtype=nl.bfloat16)
        assert pattern.shape == tile.view(nl.bfloat16).shape == (12, 20)
        assert tile.view(nl.uint8).shape == (12, 40)
        assert tile.view(nl.float32).shape == (12, 10)
        out = nl.ndarray((12, 20), nl.bfloat16, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=pattern)
        return out

    numbers = signed(rng, (12, 20), "bfloat16")
    check(halves, (numbers.view(np.int32),), numbers, target=target, nki=nki)


@shows(APS, "one index at run time, of a batch and as an offset")
@shows("migration/index.rst", "an index at run time in place of indexing by a tile")
@in_versions
@on_all
def test_one_index_at_run_time(target, nki, rng):
    def picked(x, where):
        index = nl.load(where)
        out = nl.ndarray(x.shape[1:], x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x.select(0, index))
        flat = x.reshape((x.shape[0] * x.shape[1], x.shape[2]))
        nisa.tensor_scalar(dst=index, data=index, op0=nl.multiply, operand0=x.shape[1])
        part = nl.ndarray((x.shape[1], 5), x.dtype, buffer=nl.shared_hbm)
        pattern = [[x.shape[2], x.shape[1]], [1, 5]]
        nisa.dma_copy(
            dst=part, src=flat.ap(pattern=pattern, offset=2, scalar_offset=index, indirect_dim=0)
        )
        return out, part

    x = signed(rng, (5, 32, 14), "float32")
    for n in (0, 3, 4):
        where = np.array([[n]], np.int32)
        check(picked, (x, where), x[n], x[n, :, 2:7], target=target, nki=nki)


@shows(APS, "an index for each partition")
@shows("migration/index.rst", "an index for each partition")
@shows("api/nki/isa/__init__.py", "rows gathered by index", "rows scattered by index")
@in_versions
@on_later
def test_an_index_for_each_partition(target, nki, rng):
    def moved(x, where, onto):
        indices = nl.load(where)
        rows, width = where.shape[0], x.shape[1]
        gathered = nl.ndarray((rows, width), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=gathered, src=x.vector_select(0, indices))
        tile = nl.ndarray((rows, width), x.dtype, buffer=nl.sbuf)
        pattern = [[width, rows], [1, width]]
        nisa.dma_copy(
            dst=tile, src=x.ap(pattern=pattern, offset=0, vector_offset=indices, indirect_dim=0)
        )
        scattered = nl.ndarray(onto.shape, onto.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=scattered, src=onto)
        nisa.dma_copy(
            dst=scattered.ap(pattern=pattern, offset=0, vector_offset=indices, indirect_dim=0),
            src=tile,
        )
        return gathered, scattered

    x, onto = signed(rng, (90, 24), "float32"), signed(rng, (90, 24), "float32")
    where = rng.permutation(90)[:40].astype(np.int32).reshape(40, 1)
    expected = onto.copy()
    expected[where[:, 0]] = x[where[:, 0]]
    check(moved, (x, where, onto), x[where[:, 0]], expected, target=target, nki=nki)


@shows(APS, "trn1 has no index for each partition")
def test_trn1_has_no_index_for_each_partition(rng):
    def gathered(x, where):
        out = nl.ndarray((4, 8), x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x.vector_select(0, nl.load(where)))
        return out

    given = signed(rng, (9, 8), "float32"), np.arange(4, dtype=np.int32).reshape(4, 1)
    with pytest.raises(NotOnTarget, match="dma_indirect"):
        run(gathered, *given, target="trn1")


# -- engines that make descriptors -------------------------------------------------------------------------------------


@shows(
    DGE, "each way to make descriptors moves the same bytes", "the engine that starts a transfer"
)
@in_versions
@on_all
@pytest.mark.parametrize("mode", ["unknown", "none", "swdge", "hwdge"])
def test_each_way_to_make_descriptors_moves_the_same(mode, target, nki, rng):
    def copied(x):
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        engine = nisa.engine.scalar if mode == "hwdge" else nisa.engine.unknown
        nisa.dma_copy(
            dst=tile, src=x, dge_mode=getattr(nisa.dge_mode, mode), engine=engine, name="moved"
        )
        return stored(tile)

    x = signed(rng, (64, 48), "float32")
    if mode == "hwdge" and target == "trn1":
        with pytest.raises(NotOnTarget, match="hwdge"):
            run(copied, x, target=target, nki=nki)
    else:
        result = check(copied, (x,), x, target=target, nki=nki)
        assert 'name="moved"' in result.ir[list(result.ir)[-1]]


@shows(DGE, "a transpose by DMA, of gathered rows as well")
@shows("guides/architecture/trainium2_arch.rst", "a transpose by DMA, from HBM and within SBUF")
@shows(
    "api/nki/isa/__init__.py",
    "gathered rows are transposed, one list and two lists of indices, four axes",
)
@in_versions
@on_later
def test_a_transpose_by_dma(target, nki, rng):
    def turned(x, where):
        tile = nl.ndarray((128, x.shape[0]), x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=tile, src=x)
        again = nl.ndarray((128, 128), x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=again, src=tile[:, 0:128])
        rows = 128 * where.shape[1]
        chosen = x.ap(pattern=[[128, rows], [1, 128]], vector_offset=nl.load(where), indirect_dim=0)
        gathered = nl.ndarray((128, rows), x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=gathered, src=chosen, axes=(1, 0), dge_mode=nisa.dge_mode.swdge)
        return stored(tile), stored(again), stored(gathered)

    x = signed(rng, (256, 128), "bfloat16")
    where = rng.permutation(256).astype(np.uint32).reshape(128, 2)
    for indices in (where[:, :1].copy(), where):
        order = indices.T.reshape(-1)
        check(turned, (x, indices), x.T, x[:128], x[order].T, target=target, nki=nki)


@shows("api/nki/isa/__init__.py", "a gathered tensor of four axes is transposed")
@in_versions
@on_later
def test_a_gathered_tensor_of_four_axes(target, nki, rng):
    def turned(x, where):
        _, one, two, three = x.shape
        rows = 128 * where.shape[1]
        pattern = [[one * two * three, rows], [two * three, one], [three, two], [1, three]]
        chosen = x.ap(pattern=pattern, vector_offset=nl.load(where), indirect_dim=0)
        tile = nl.ndarray((three, one, two, rows), x.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=tile, src=chosen, axes=(3, 1, 2, 0))
        return stored(tile)

    x = signed(rng, (200, 1, 4, 64), "bfloat16")
    where = rng.permutation(200)[:128].astype(np.uint32).reshape(128, 1)
    check(turned, (x, where), x[where[:, 0]].transpose(3, 1, 2, 0), target=target, nki=nki)


# -- loops on the device -----------------------------------------------------------------------------------------------


@shows(LOOPS, "a body of several instructions, with a step and bounds from registers")
@on_all
@pytest.mark.parametrize("nki", ["0.3", "0.6"])
def test_a_loop_with_a_step_before_0_7(nki, target, rng):
    def raised(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        rows, columns = 32, x.shape[1]
        pattern = [[columns, rows], [1, columns]]
        first, end = nisa.register_alloc(0), nisa.register_alloc(x.shape[0])
        for i in nl.dynamic_range(first, end, rows):
            with nl.no_reorder():
                tile = nl.ndarray((rows, columns), x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=x.ap(pattern, scalar_offset=i))
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=2.0)
                nisa.dma_copy(dst=out.ap(pattern, scalar_offset=i), src=tile)
        return out

    x = signed(rng, (96, 40), "float32")
    check(raised, (x,), wide(x) + 2, target=target, nki=nki)


@shows(LOOPS, "a loop on the device cannot stand inside no_reorder")
@pytest.mark.parametrize("nki", ["0.3", "0.6"])
def test_a_device_loop_inside_no_reorder_is_refused(nki, rng):
    def wrong(x):
        tile = nl.load(x)
        with nl.no_reorder():
            for _ in nl.dynamic_range(3):
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        return stored(tile)

    with pytest.raises(NkiError, match="no_reorder"):
        run(wrong, signed(rng, (4, 5), "float32"), nki=nki)


@shows(LOOPS, "a loop that runs while a register is not zero")
@shows("get-started/about/index.rst", "a condition that a tensor gives")
@shows("get-started/nki-language-guide.rst", "a condition on the device")
@on_all
@pytest.mark.parametrize("nki", ["0.3", "0.6"])
def test_while_a_register_is_not_zero_before_0_7(nki, target, rng):
    def repeated(x, times):
        tile, left = nl.load(x), nl.load(times)
        register = nisa.register_alloc()
        nisa.register_load(register, left)
        while register:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=-2.0)
            nisa.tensor_scalar(dst=left, data=left, op0=nl.add, operand0=-1)
            nisa.register_load(register, left)
        return stored(tile)

    x = signed(rng, (4, 6), "float32")
    for times in (0, 3):
        given = (x, np.array([[times]], np.int32))
        check(repeated, given, wide(x) * (-2.0) ** times, target=target, nki=nki)
    with pytest.raises(LanguageError, match="while_loop"):
        run(repeated, *given, target=target, nki="0.7")


@shows("migration/index.rst", "fori_loop in place of dynamic_range", "while_loop in place of while")
@shows(
    "api/nki/language/__init__.py",
    "fori_loop with a bound at run time",
    "while_loop with a condition in a register",
)
@shows(LOOPS, "the forms of 0.7: a body as a function")
@on_all
@pytest.mark.parametrize("nki", ["0.6", "0.7"])
def test_loops_with_a_body_as_a_function(nki, target, rng):
    def looped(x, bound, times):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=nl.zeros(x.shape, x.dtype, buffer=nl.sbuf))
        one = nl.ndarray((1, 1), x.dtype, buffer=nl.sbuf)
        end = nisa.register_alloc()
        nisa.register_load(end, nl.load(bound))

        def copied(i):
            nisa.dma_copy(dst=one, src=x.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
            nisa.dma_copy(dst=out.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1), src=one)

        nl.fori_loop(1, end, copied)
        total = nl.zeros((1, x.shape[1]), nl.float32, buffer=nl.sbuf)
        row, left = nl.load(x), nl.load(times)

        def added(register):
            nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)
            nisa.tensor_scalar(dst=left, data=left, op0=nl.add, operand0=-1)
            nisa.register_load(register, left)
            return register

        condition = nisa.register_alloc()
        nisa.register_load(condition, left)
        nl.while_loop(condition, added)
        return out, stored(total)

    x = signed(rng, (1, 12), "float32")
    for bound, times in ((7, 5), (1, 0)):
        given = (x, np.array([[bound]], np.int32), np.array([[times]], np.int32))
        kept = np.where((np.arange(12) >= 1) & (np.arange(12) < bound), x, 0)
        check(looped, given, kept, times * wide(x), target=target, nki=nki)


# -- fast accesses -----------------------------------------------------------------------------------------------------


@shows(PERF, "a load and a store of 32 KiB for each DMA engine")
@in_versions
def test_a_load_of_whole_rows_uses_every_engine(nki, rng):
    def through(x):
        return stored(nl.load(x))

    x = signed(rng, (128, 1024), "float32")
    result = check(through, (x,), x, target="trn2", nki=nki)
    packets = list(result.profile.records("DmaPacket"))
    engines = {row["engine_idx"] for row in packets}
    assert len(engines) == 16 and {row["read_bytes"] for row in packets} == {4096}


@shows(PERF, "one activation in place of a product, a sum and an exponential")
@shows(
    "guides/architecture/trainium_inferentia2_arch.rst",
    "an activation with a scale and a bias for each partition",
)
@in_versions
@on_all
def test_one_activation_in_place_of_three_instructions(target, nki, rng):
    def both(x, scale, bias):
        data, times, plus = nl.load(x), nl.load(scale), nl.load(bias)
        steps = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=steps, data=data, op0=nl.multiply, operand0=times, op1=nl.add, operand1=plus
        )
        nisa.activation(dst=steps, op=nl.exp, data=steps)
        at_once = nl.ndarray(x.shape, nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=at_once, op=nl.exp, data=data, scale=times, bias=plus)
        return stored(steps), stored(at_once)

    x = signed(rng, (128, 60), "float32")
    scale, bias = signed(rng, (128, 1), "float32"), signed(rng, (128, 1), "float32")
    expected = np.exp(wide(x) * wide(scale) + wide(bias))
    check(both, (x, scale, bias), expected, expected, target=target, nki=nki, close=1e-4)


@shows(PERF, "two products of 64 rows side by side, read by one instruction")
@in_versions
@on_all
def test_two_products_side_by_side(target, nki, rng):
    def reduced(left, right):
        both = nl.ndarray((128, 96), nl.float32, buffer=nl.psum)
        for number in range(2):
            rows = nl.ds(64 * number, 64)
            nisa.nc_matmul(
                both[rows], nl.load(left[number]), nl.load(right[number]), accumulate=False
            )
        total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=both, axis=1)
        return stored(total)

    left, right = signed(rng, (2, 128, 64), "bfloat16"), signed(rng, (2, 128, 96), "bfloat16")
    expected = np.concatenate([wide(a).T @ wide(b) for a, b in zip(left, right, strict=True)]).sum(
        1, keepdims=True
    )
    check(reduced, (left, right), expected, target=target, nki=nki, close=1e-3)


@shows(PERF, "a long tensor transposed by blocks on the Tensor engine")
@in_versions
@on_all
def test_a_long_tensor_is_transposed_by_blocks(target, nki, rng):
    def turned(x):
        out = nl.ndarray((x.shape[1], x.shape[0]), x.dtype, buffer=nl.sbuf)
        for block in nl.affine_range(x.shape[0] // 128):
            rows = nl.ds(128 * block, 128)
            part = nl.ndarray((x.shape[1], 128), x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=part, data=nl.load(x[rows]), engine=nisa.engine.tensor)
            nisa.tensor_copy(dst=out[:, rows], src=part)
        return stored(out)

    x = signed(rng, (512, 96), "float32")
    check(turned, (x,), x.T, target=target, nki=nki)
