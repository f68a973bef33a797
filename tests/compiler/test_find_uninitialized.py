"""Tests that every read of an element that nothing wrote is reported once, and never answered with a former tile's
bytes."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.errors import UninitializedRead
from tests.compiler.programs import compiled, line_of, simulated

X = np.arange(128 * 16, dtype=np.float32).reshape(128, 16)


def half_written(x):
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile[:, 0:16:2], src=x[:, 0:8])
    nisa.dma_copy(dst=out, src=tile)  # half of it
    return out


def test_a_finding_names_tile_elements_and_line():
    kernel = compiled(half_written, X).kernel
    (finding,) = kernel.findings
    assert finding.kind == "uninitialized" and finding.code == "NKI401"
    assert finding.message == (
        "dma_copy: 1024 of 2048 elements of src = `tile` [128, 16] float32 in sbuf are read but were never written,"
        " the first at index [0, 1]"
    )
    from nki_lab.source import Span

    assert Span.of(finding.stack[0]).line == line_of(__file__, "# half of it")


def test_strict_makes_it_an_error():
    with pytest.raises(UninitializedRead, match="1024 of 2048 elements") as caught:
        compiled(half_written, X, options=Choices(strict=True))
    assert caught.value.span.line == line_of(__file__, "# half of it")


def former_bytes(x, dtype):
    """Leave bytes in memory, then read tiles that may get the same place."""
    out = nl.ndarray((4, 128, 16), dtype=dtype, buffer=nl.shared_hbm)
    for k in range(4):
        used = nl.ndarray((128, 16), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=used, src=x)
        nisa.dma_copy(dst=out[k], src=used)
        unwritten = nl.ndarray((128, 16), dtype=dtype, buffer=nl.sbuf)
        nisa.memset(dst=unwritten[:, 3:5], value=7 if dtype.is_integer else 7.0)
        nisa.dma_copy(dst=out[k], src=unwritten)
    return out


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.float8_e5m2, nl.int32, nl.uint8])
@pytest.mark.parametrize("shared_bytes", [False, True])
def test_unwritten_elements_read_as_nan_or_four(dtype, shared_bytes):
    x = np.ones((128, 16), dtype.np)
    kernel = compiled(former_bytes, x, dtype=dtype).kernel
    expected = np.full((4, 128, 16), 4 if dtype.is_integer else np.nan)
    expected[:, :, 3:5] = 7
    for _ in range(2):
        (out,) = simulated(kernel, [x], shared_bytes=shared_bytes)
        np.testing.assert_array_equal(out.astype(float), expected)


def test_a_loop_is_told_once():
    kernel = compiled(former_bytes, X, dtype=nl.float32).kernel
    (finding,) = [f for f in kernel.findings if f.kind == "uninitialized"]
    assert finding.message.endswith("the first at index [0, 0] (and 3 more times at this line)")


def unwritten_result(x, rows):
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm, name="answer")
    nisa.dma_copy(dst=out[0:rows], src=x[0:rows])
    return out


def test_elements_of_the_result_that_are_never_written():
    kernel = compiled(unwritten_result, X, 100).kernel
    (finding,) = kernel.findings
    assert finding.message == (
        "448 of 2048 elements of the result `answer` [128, 16] float32 in shared_hbm are never written"
    )
    (out,) = simulated(kernel, [X])
    np.testing.assert_array_equal(out[:100], X[:100])
    assert np.isnan(out[100:]).all()
    assert compiled(unwritten_result, X, 128).kernel.findings == ()


def through_hbm(x, columns):
    spill = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.private_hbm)
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=spill[:, 0:columns], src=x[:, 0:columns])
    nisa.dma_copy(dst=out, src=spill.reshape((16, 128)).reshape((128, 16)))
    return out


def test_private_hbm_counts_as_well():
    kernel = compiled(through_hbm, X, 10).kernel
    (finding,) = kernel.findings
    assert "768 of 2048 elements of src = `spill`" in finding.message
    for _ in range(2):
        (out,) = simulated(kernel, [X])
        np.testing.assert_array_equal(out[:, :10], X[:, :10])
        assert np.isnan(out[:, 10:]).all()


def half_by_bits(x):
    """Write the upper half of each float32 as bfloat16."""
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    halves = tile.view(nl.bfloat16)
    nisa.memset(dst=halves[:, 1:32:2], value=1.5)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_half_of_the_bytes_is_not_the_element():
    (finding,) = compiled(half_by_bits, X).kernel.findings
    assert "all elements of src = `tile`" in finding.message


def kept_where_not_asked(x, mask):
    """Update a tile that was written, and one that was not."""
    out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    data = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    chosen = nl.ndarray((128, 16), dtype=nl.uint8, buffer=nl.sbuf)
    fresh = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    nisa.dma_copy(dst=chosen, src=mask)
    nisa.tensor_copy_predicated(dst=fresh, src=data, predicate=chosen)
    nisa.dma_copy(dst=out, src=fresh)
    return out


def test_elements_that_keep_their_old_value_are_nan_where_there_was_none(rng):
    mask = rng.integers(0, 2, (128, 16)).astype(np.uint8)
    (out,) = simulated(compiled(kept_where_not_asked, X, mask).kernel, [X, mask])
    np.testing.assert_array_equal(out, np.where(mask, X, np.nan))
