"""For every rule: a kernel that it speaks up on, and the same kernel mended, on which it is silent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR

dma_copy, dma_transpose, tensor_copy, tensor_scalar, tensor_tensor, activation, nc_matmul = (
    registry[name]
    for name in (
        "dma_copy dma_transpose tensor_copy tensor_scalar tensor_tensor activation nc_matmul".split()
    )
)
nc_transpose, memset = registry["nc_transpose"], registry["memset"]

BF16, FP32 = nl.bfloat16, nl.float32
Spec = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Case:
    """A mistake and its remedy.

    Attributes:
        rule: the rule that tells it.
        bad, good: kernels that compute the same.
        specs: shapes and dtypes of their arguments; `good_specs` where the remedy takes others.
        targets: chips on which the rule has something to say.
        words: what the advice says, among other things.
        exact: the gain is that of the remedy itself, so that it can be compared.
    """

    rule: str
    bad: Callable[..., Any]
    good: Callable[..., Any]
    specs: tuple[Spec, ...]
    words: tuple[str, ...]
    targets: tuple[str, ...] = ("trn1", "trn2", "trn3")
    good_specs: tuple[Spec, ...] = ()
    exact: bool = True


def tile(shape, dtype=BF16, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def result(shape, dtype=BF16):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


# -- reloaded input -----------------------------------------------------------------------------------------------


def loads_in_the_loop(x, w):
    out = result(x.shape)
    for k in range(16):
        a, b, c = tile((128, 2048)), tile((128, 2048)), tile((128, 2048))
        columns = slice(2048 * k, 2048 * k + 2048)
        dma_copy(b, w)
        dma_copy(a, x[:, columns])
        tensor_tensor(c, a, b, op=nl.add)
        dma_copy(out[:, columns], c)
    return out


def loads_before_the_loop(x, w):
    out = result(x.shape)
    b = tile((128, 2048))
    dma_copy(b, w)
    for k in range(16):
        a, c = tile((128, 2048)), tile((128, 2048))
        columns = slice(2048 * k, 2048 * k + 2048)
        dma_copy(a, x[:, columns])
        tensor_tensor(c, a, b, op=nl.add)
        dma_copy(out[:, columns], c)
    return out


# -- small DMAs ---------------------------------------------------------------------------------------------------


def in_tiles_of(width):
    def kernel(x):
        out = result(x.shape)
        for k in range(x.shape[1] // width):
            columns = slice(width * k, width * k + width)
            a = tile((128, width))
            dma_copy(a, x[:, columns])
            dma_copy(out[:, columns], a)
        return out

    return kernel


# -- non-contiguous DMA -------------------------------------------------------------------------------------------


def elements_apart(x):
    """Load the transpose of each [128, 64] block element by element."""
    out = result((128, 4, 64), FP32)
    for k in range(4):
        a = tile((128, 64), FP32)
        dma_copy(a, x[k].permute((1, 0)))
        dma_copy(out[:, k, :], a)
    return out


def elements_in_a_row(x):
    out = result((128, 4, 64), FP32)
    for k in range(4):
        a = tile((128, 64), FP32)
        dma_copy(a, x[:, k, :])
        dma_copy(out[:, k, :], a)
    return out


# -- few DMA engines ----------------------------------------------------------------------------------------------


def on_partitions(rows):
    def kernel(x):
        out = result(x.shape, FP32)
        a = tile((rows, 65536 // rows), FP32)
        dma_copy(a, x.reshape(a.shape))
        dma_copy(out.reshape(a.shape), a)
        return out

    return kernel


# -- no overlap ---------------------------------------------------------------------------------------------------


def turns(buffers):
    def kernel(x):
        out = result((128, 1), FP32)
        tiles = [tile((128, 4096), FP32) for _ in range(buffers)]
        sums = tile((128, 4096), FP32)
        memset(sums, 0.0, engine=GPSIMD)
        for k in range(8):
            a = tiles[k % buffers]
            dma_copy(a, x[:, 4096 * k : 4096 * k + 4096])
            tensor_tensor(sums, sums, a, op=nl.add)
        dma_copy(out, sums[:, 0:1])
        return out

    return kernel


# -- under-filled array -------------------------------------------------------------------------------------------


def products_of(rows):
    """Multiply [1024, 128] by [1024, 512], contracting so many rows at a time."""

    def kernel(lhs_t, rhs):
        out = result((128, 512), FP32)
        held = tile((128, 512), FP32, nl.psum)
        count = 1024 // rows
        a, b = tile((rows, count, 128)), tile((rows, count, 512))
        dma_copy(a, lhs_t.reshape((rows, count, 128)))
        dma_copy(b, rhs.reshape((rows, count, 512)))
        for k in range(count):
            nc_matmul(held, a[:, k, :], b[:, k, :])
        summed = tile((128, 512), FP32)
        tensor_copy(summed, held)
        dma_copy(out, summed)
        return out

    return kernel


# -- float32 products ---------------------------------------------------------------------------------------------


def multiplied(lhs_t, rhs):
    out = result((128, 512), FP32)
    held = tile((128, 512), FP32, nl.psum)
    a, b = tile((128, 8, 128), lhs_t.dtype), tile((128, 8, 512), rhs.dtype)
    dma_copy(a, lhs_t.reshape((128, 8, 128)))
    dma_copy(b, rhs.reshape((128, 8, 512)))
    for k in range(8):
        nc_matmul(held, a[:, k, :], b[:, k, :])
    summed = tile((128, 512), FP32)
    tensor_copy(summed, held)
    dma_copy(out, summed)
    return out


# -- transposes ---------------------------------------------------------------------------------------------------


def transposed_first(x, w):
    """Multiply x.T of each block by w, transposing x on the way although a product needs no transpose."""
    out = result((128, 8, 128), FP32)
    weights = tile((128, 128))
    dma_copy(weights, w)
    a = tile((128, 8, 128))
    dma_copy(a, x)
    for k in range(8):
        turned, held, moved = (
            tile((128, 128), BF16, nl.psum),
            tile((128, 128), FP32, nl.psum),
            tile((128, 128)),
        )
        nc_transpose(turned, a[:, k, :])
        tensor_copy(moved, turned)
        nc_matmul(held, moved, weights)
        r = tile((128, 128), FP32)
        tensor_copy(r, held)
        dma_copy(out[:, k, :], r)
    return out


def stored_as_it_is_used(x, w):
    out = result((128, 8, 128), FP32)
    weights = tile((128, 128))
    dma_copy(weights, w)
    a = tile((128, 8, 128))
    dma_copy(a, x)
    for k in range(8):
        held = tile((128, 128), FP32, nl.psum)
        nc_matmul(held, a[:, k, :], weights)
        r = tile((128, 128), FP32)
        tensor_copy(r, held)
        dma_copy(out[:, k, :], r)
    return out


def transposed_by_dma(x):
    out = result((128, 4, 128))
    for k in range(4):
        a = tile((128, 128))
        dma_transpose(a, x[:, k, :])
        dma_copy(out[:, k, :], a)
    return out


def copied_by_dma(x):
    out = result((128, 4, 128))
    a = tile((128, 4, 128))
    dma_copy(a, x)
    dma_copy(out, a)
    return out


# -- slow mode ----------------------------------------------------------------------------------------------------


def scaled_often(dtype):
    def kernel(x):
        out = result(x.shape, dtype)
        a = tile(x.shape, dtype)
        dma_copy(a, x)
        for _ in range(8):
            b = tile(x.shape, dtype)
            tensor_tensor(b, a, a, op=nl.multiply)
            a = b
        dma_copy(out, a)
        return out

    return kernel


def every_other(stride):
    def kernel(x):
        out = result((128, 2048))
        a = tile((128, 2048 * stride))
        dma_copy(a[:, 0:2048], x)
        dma_copy(a[:, 2048 * (stride - 1) : 2048 * stride], x)
        b = tile((128, 2048))
        source = a.ap([[2048 * stride, 128], [stride, 2048]])
        for k in range(8):
            tensor_scalar(b, source, op0=nl.multiply, operand0=float(k))
        dma_copy(out, b)
        return out

    return kernel


# -- engine imbalance ---------------------------------------------------------------------------------------------


def on_engines(*engines):
    def kernel(x):
        out = result(x.shape, FP32)
        a = tile(x.shape, FP32)
        dma_copy(a, x)
        made = tile(x.shape, FP32)
        for k in range(16):
            part = slice(128 * k, 128 * k + 128)
            for _ in range(4):
                tensor_copy(made[:, part], a[:, part], engine=engines[k % len(engines)])
        dma_copy(out, made)
        return out

    return kernel


# -- PSUM conflict ------------------------------------------------------------------------------------------------


def from_psum(second):
    """Read a product on Vector and another one on Scalar, 8 times; `second` says where the other one lies."""

    def kernel(x):
        out = result((128, 2, 256), FP32)
        a = tile((128, 256))
        dma_copy(a, x)
        one = tile((128, 512), FP32, nl.psum)
        other = tile((128, 256), FP32, nl.psum)
        nc_matmul(one[:, 0:256], a[:, 0:128], a)
        read = one[:, 256:512] if second == "bank" else other
        nc_matmul(read, a[:, 128:256], a)
        if second == "sbuf":
            copied = tile((128, 256), FP32)
            tensor_copy(copied, other, engine=VECTOR)
            read = copied
        b, c = tile((128, 256), FP32), tile((128, 256), FP32)
        for _ in range(8):
            tensor_scalar(b, one[:, 0:256], op0=nl.multiply, operand0=2.0, engine=VECTOR)
            activation(c, nl.copy, read)
        dma_copy(out[:, 0, :], b)
        dma_copy(out[:, 1, :], c)
        return out

    return kernel


# -- table reloads ------------------------------------------------------------------------------------------------


def functions_in_turns(x):
    out = result(x.shape, FP32)
    a = tile(x.shape, FP32)
    dma_copy(a, x)
    made = tile(x.shape, FP32)
    for k in range(8):
        part = slice(128 * k, 128 * k + 128)
        activation(made[:, part], nl.exp if k % 2 else nl.gelu, a[:, part])
    dma_copy(out, made)
    return out


def function_by_function(x):
    out = result(x.shape, FP32)
    a = tile(x.shape, FP32)
    dma_copy(a, x)
    made = tile(x.shape, FP32)
    for first, function in enumerate((nl.gelu, nl.exp)):
        for k in range(first, 8, 2):
            part = slice(128 * k, 128 * k + 128)
            activation(made[:, part], function, a[:, part])
    dma_copy(out, made)
    return out


# -- ramp-up ------------------------------------------------------------------------------------------------------


def products(count, gaps):
    """Multiply so many times; with gaps each product waits for the one before and a copy of it."""

    def kernel(lhs_t, rhs):
        out = result((128, 512), FP32)
        held = tile((128, 512), FP32, nl.psum)
        a, b = tile((128, 128)), tile((128, 512))
        dma_copy(a, lhs_t)
        dma_copy(b, rhs)
        for _ in range(count):
            nc_matmul(held, a, b)
            if gaps:
                tensor_copy(b, held)
                held = tile((128, 512), FP32, nl.psum)
        summed = tile((128, 512), FP32)
        tensor_copy(summed, b if gaps else held)
        dma_copy(out, summed)
        return out

    return kernel


CASES = (
    Case("reloaded input", loads_in_the_loop, loads_before_the_loop,
         (((128, 32768), "bfloat16"), ((128, 2048), "bfloat16")), ("`w` is loaded 16.0 times over", "hoist")),
    Case("small DMAs", in_tiles_of(128), in_tiles_of(2048), (((128, 8192), "bfloat16"),),
         ("64 transfers of `x` with 32.0 KiB each, 256 B per partition", "one transfer")),
    Case("non-contiguous DMA", elements_apart, elements_in_a_row, (((4, 64, 128), "float32"),),
         ("8,192 descriptors of 4 B",), good_specs=(((128, 4, 64), "float32"),)),
    Case("few DMA engines", on_partitions(2), on_partitions(128), (((65536,), "float32"),),
         ("1 transfer of 256.0 KiB on 2 partitions with 1 of 16 DMA engines",)),
    Case("no overlap", turns(1), turns(2), (((128, 32768), "float32"),),
         ("7 loads held up by what still uses the tile", "inside the loop")),
    Case("under-filled array", products_of(32), products_of(128),
         (((1024, 128), "bfloat16"), ((1024, 512), "bfloat16")), ("32 of 128 rows", "contract up to 128"), exact=False),
    Case("float32 products", multiplied, multiplied, (((1024, 128), "float32"), ((1024, 512), "float32")),
         ("8 products of float32 tiles", "4 times", "bfloat16"),
         good_specs=(((1024, 128), "bfloat16"), ((1024, 512), "bfloat16")), exact=False),
    Case("transposes", transposed_first, stored_as_it_is_used,
         (((128, 8, 128), "bfloat16"), ((128, 128), "bfloat16")), ("8 transposes by the Tensor engine",), exact=False),
    Case("transposes", transposed_by_dma, copied_by_dma, (((128, 4, 128), "bfloat16"),),
         ("4 transposes by DMA",), exact=False),
    Case("float32 tiles", scaled_often(FP32), scaled_often(BF16), (((128, 2048), "float32"),),
         ("a tile of it is float32", "8 instructions of vector"), good_specs=(((128, 2048), "bfloat16"),), exact=False),
    Case("slow mode", every_other(2), every_other(1), (((128, 2048), "bfloat16"),),
         ("do not lie side by side",), targets=("trn2", "trn3"), exact=False),
    Case("slow mode", every_other(16), every_other(1), (((128, 2048), "bfloat16"),),
         ("do not lie side by side",), exact=False),
    Case("engine imbalance", on_engines(VECTOR), on_engines(VECTOR, SCALAR), (((128, 2048), "float32"),),
         ("vector is busy", "nisa.engine.scalar"), targets=("trn2", "trn3"), exact=False),
    Case("PSUM conflict", from_psum("bank"), from_psum("own bank"), (((128, 256), "bfloat16"),),
         ("same PSUM bank", "different banks"), targets=("trn2", "trn3"), exact=False),
    Case("PSUM conflict", from_psum("own bank"), from_psum("sbuf"), (((128, 256), "bfloat16"),),
         ("one at a time on this chip",), targets=("trn1",), exact=False),
    Case("table reloads", functions_in_turns, function_by_function, (((128, 1024), "float32"),),
         ("8 loads of 2 activation tables", "nl.gelu and nl.exp take turns")),
    Case("ramp-up", products(8, True), products(8, False), (((128, 128), "bfloat16"), ((128, 512), "bfloat16")),
         ("at the full rate took", "without gaps"), targets=("trn2", "trn3"), exact=False),
)  # fmt: skip
