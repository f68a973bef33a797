"""Tests which products overwrite, which add, and which decide per element."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import NotModelled
from nki_lab.ir.program.nodes import Kernel
from nki_lab.simulator import Program
from nki_lab.source import Span
from nki_lab.targets import TRN1, TRN2, TRN3
from tests.compiler.programs import compiled, integers, line_of, simulated


def settled(kernel: Kernel):
    """Return `accumulate` of every product, in program order."""
    return [i.accumulate for i in kernel.instructions if i.definition.name == "nc_matmul"]


def products(x, y, parts, accumulate=None):
    """Add x.T @ y into the given columns of one PSUM tile, one product after the other."""
    out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)
    acc = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
    for part in parts:
        low, high = part
        nisa.nc_matmul(
            dst=acc[:, low:high], stationary=a, moving=b[:, low:high], accumulate=accumulate
        )
    result = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out


@pytest.fixture
def arrays(rng):
    return integers(rng, (128, 64)), integers(rng, (128, 512))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(0, 512)], [False]),
        ([(0, 512)] * 3, [False, True, True]),
        ([(0, 256), (256, 512), (0, 256)], [False, False, True]),
        ([(0, 128), (128, 512), (0, 512)], [False, False, True]),  # parts make up the whole
        ([(0, 200), (0, 512)], [False, None]),  # first here, later there
        ([(0, 200), (100, 300), (0, 512)], [False, None, None]),
        ([(0, 512), (17, 300), (3, 4)], [False, True, True]),
    ],
)
@pytest.mark.parametrize("shared_bytes", [False, True])
def test_first_writes_overwrite_and_later_ones_add(arrays, parts, expected, shared_bytes):
    x, y = arrays
    kernel = compiled(products, x, y, parts).kernel
    assert settled(kernel) == expected
    times = np.zeros(512)
    for part in parts:
        low, high = part
        times[low:high] += 1
    (found,) = simulated(kernel, [x, y], shared_bytes=shared_bytes)
    product = (x.T.astype(float) @ y.astype(float)) * times
    np.testing.assert_array_equal(found, np.where(times > 0, product, np.nan))


@pytest.mark.parametrize(("accumulate", "times"), [(False, 1), (True, np.nan)])
def test_what_the_author_says_stays(arrays, accumulate, times):
    x, y = arrays
    kernel = compiled(products, x, y, ((0, 512),) * 2, accumulate=accumulate).kernel
    assert settled(kernel) == [accumulate] * 2
    (found,) = simulated(kernel, [x, y])
    np.testing.assert_array_equal(found, (x.T.astype(float) @ y.astype(float)) * times)
    assert len(kernel.findings) == (1 if accumulate else 0), "adding to what nothing wrote is found"


def other_writers(x, y):
    """Let a memset and a copy write the accumulator first."""
    out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)
    acc = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=acc[:, 0:256], value=5.0)
    nisa.tensor_copy(dst=acc[:, 256:384], src=b[0:64, 0:128])
    nisa.nc_matmul(dst=acc[:, 0:384], stationary=a, moving=b[:, 0:384])
    nisa.nc_matmul(dst=acc[:, 256:512], stationary=a, moving=b[:, 256:512])
    result = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out


def test_whoever_writes_first_counts(arrays):
    x, y = arrays
    kernel = compiled(other_writers, x, y).kernel
    assert settled(kernel) == [True, None]
    product = x.T.astype(float) @ y.astype(float)
    expected = product.copy()
    expected[:, 0:256] += 5
    expected[:, 256:384] += product[:, 256:384] + y[0:64, 0:128]
    (found,) = simulated(kernel, [x, y])
    np.testing.assert_array_equal(found, expected)


def fresh_tiles(x, y, explicit):
    """Make a new tile for each product; with `explicit` all at one address, made in advance."""
    out = nl.ndarray((3, 64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)
    address = (0, 2048) if explicit else None
    tiles = [
        nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum, address=address) for _ in range(3)
    ]
    for k, acc in enumerate(tiles):
        nisa.nc_matmul(dst=acc, stationary=a, moving=b)
        result = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=acc)
        nisa.dma_copy(dst=out[k], src=result)
    return out


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("shared_bytes", [False, True])
def test_a_new_tile_starts_unwritten_at_an_address_used_before(arrays, explicit, shared_bytes):
    x, y = arrays
    kernel = compiled(fresh_tiles, x, y, explicit=explicit).kernel
    assert settled(kernel) == [False] * 3
    (found,) = simulated(kernel, [x, y], shared_bytes=shared_bytes)
    product = x.T.astype(float) @ y.astype(float)
    np.testing.assert_array_equal(found, product[None].repeat(3, 0))


def test_a_second_run_starts_unwritten_too(arrays):
    x, y = arrays
    program = Program(compiled(products, x, y, [(0, 200), (100, 512)]).kernel)
    first, second = program.run([x, y])[0], program.run([x, y])[0]
    np.testing.assert_array_equal(first, second)


def other_width(x, y):
    """Write an accumulator in halves of its elements while its first write is open."""
    out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    acc = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.memset(dst=acc.view(nl.bfloat16)[:, 0:2], value=1.0)
    nisa.nc_matmul(dst=acc, stationary=a, moving=b)
    result = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out


def test_parts_of_elements_are_refused_by_name(arrays):
    kernel = compiled(other_width, *arrays).kernel
    assert settled(kernel) == [None]
    with pytest.raises(NotModelled, match=r"`acc` .* is written as bfloat16"):
        Program(kernel)


# -- values that no product wrote -------------------------------------------------------------------------------------


def filled_first(x, y, accumulate, write, columns):
    a, b = nl.load(x), nl.load(y)
    acc = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
    write(acc, a, b)  # the value
    nisa.nc_matmul(acc[:, columns], a, b[:, columns], accumulate=accumulate)  # the product
    out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(acc))
    return out


def fill(acc, a, b):
    nisa.memset(acc, 0.0)


def fill_left(acc, a, b):
    nisa.memset(acc[:, 0:256], 0.0)
    nisa.nc_matmul(acc[:, 256:512], a, b[:, 256:512], accumulate=False)


def copy_in(acc, a, b):
    nisa.tensor_copy(acc, b[0:64])


def product_over(acc, a, b):
    nisa.memset(acc, 0.0)
    nisa.nc_matmul(acc, a, b, accumulate=False)


LEFT, RIGHT, ALL = slice(0, 256), slice(256, 512), slice(0, 512)


@pytest.mark.parametrize(
    ("write", "accumulate", "columns", "writer"),
    [
        (fill, None, ALL, "memset"),
        (fill, True, LEFT, "memset"),
        (fill, False, ALL, ""),
        (fill_left, None, LEFT, "memset"),
        (fill_left, None, RIGHT, ""),
        (fill_left, None, ALL, "memset"),
        (copy_in, True, RIGHT, "tensor_copy"),
        (product_over, None, ALL, ""),
    ],
)
@pytest.mark.parametrize("target", [TRN1, TRN2, TRN3])
def test_a_product_added_to_values_is_found_where_that_is_undefined(
    arrays, write, accumulate, columns, writer, target
):
    x, y = arrays
    kernel = compiled(filled_first, x, y, accumulate, write, columns, target=target).kernel
    found = [f for f in kernel.findings if "adding a product" in f.message]
    if not writer or target is TRN3:
        assert found == []
        return
    (finding,) = found
    assert finding.kind == "hazard"
    assert f"holds values of {writer} at test_settle_accumulate.py, line" in finding.message
    assert finding.message.endswith(f"undefined on {target.name}")
    assert Span.of(finding.stack[0]).line == line_of(__file__, "# the product")


def test_a_transpose_by_the_tensor_engine_is_a_product(arrays):
    def kernel(x, y):
        acc = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(acc, nl.load(x), engine=nisa.engine.tensor)
        nisa.nc_matmul(acc, nl.load(x), nl.load(y)[:, 0:128])
        out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(acc))
        return out

    assert not [f for f in compiled(kernel, *arrays).findings if f.kind == "hazard"]


def test_a_product_added_to_nothing_is_told_how_to_start(arrays):
    kernel = compiled(products, *arrays, ((0, 512),), accumulate=True).kernel
    (finding,) = [f for f in kernel.findings if f.kind == "uninitialized"]
    assert finding.help == "leave `accumulate` out, or pass accumulate=False for the first product"
