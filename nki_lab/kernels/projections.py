"""What projections share: blocks of weights, rows that are normalised and turned, and names of options."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.kernels.prebuilt import require

# Tiles of 128 rows that one transfer brings.
_GROUP = 8


class NormType(Enum):
    """How rows are normalised before they are multiplied."""

    NO_NORM = 0
    RMS_NORM = 1
    RMS_NORM_SKIP_GAMMA = 3


class QKVOutputLayout(Enum):
    """Order of the axes of a QKV projection: [batch, tokens, columns] or [heads, batch, tokens, d]."""

    BSD = 0
    NBSd = 1


class ActFnType(Enum):
    """Activation functions of an MLP."""

    SiLU = 0
    GELU = 1
    GELU_Tanh_Approx = 2


def choice_of(kernel: str, name: str, value: Any, choices: type[Enum]) -> Any:
    """Return the member that a value names: a member, one of another enumeration with its name, or the name."""
    wanted = str(getattr(value, "name", value))
    require(
        wanted in choices.__members__,
        f"{kernel}: `{name}` is {wanted}",
        f"give {choices.__name__} {' or '.join(choices.__members__)}",
    )
    return choices[wanted]


def check_dtypes(kernel: str, **tensors: Any) -> None:
    """Raise unless the first of tensors, by name of parameter, holds floats, and the others the same; or are None."""
    (first, tensor), *others = tensors.items()
    require(
        tensor.dtype in (nl.float32, nl.bfloat16, nl.float16),
        f"{kernel}: `{first}` is {tensor.dtype}; expected float32, bfloat16 or float16",
        f"cast it: {first}.astype(np.float32)",
    )
    for name, value in others:
        require(
            value is None or value.dtype == tensor.dtype,
            f"{kernel}: `{name}` is {None if value is None else value.dtype}, and `{first}` {tensor.dtype}",
            "cast them to one dtype",
        )


def row_tiles(matrix: Any, start: int, wide: int) -> Iterator[Any]:
    """Yield some columns of a matrix as tiles of 128 rows in SBUF, of which one transfer brings up to eight."""
    (rows, columns), pmax = matrix.shape, nl.tile_size.pmax
    for first in range(0, rows, _GROUP * pmax):
        whole = min(_GROUP, (rows - first) // pmax)
        if whole:
            group = nl.ndarray((pmax, whole, wide), dtype=matrix.dtype, buffer=nl.sbuf)
            pattern = [[columns, pmax], [pmax * columns, whole], [1, wide]]
            nisa.dma_copy(dst=group, src=matrix.ap(pattern, offset=first * columns + start))
            yield from (group[:, n] for n in range(whole))
        if whole < _GROUP and (rest := (rows - first) % pmax):
            last = nl.ndarray((rest, wide), dtype=matrix.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=last, src=matrix[rows - rest :, start : start + wide])
            yield last


def normalised(tile: Any, eps: float, gamma: Any = None) -> Any:
    """Return the rows of a tile, each divided by the root of its mean square, times gamma [128, width] if given."""
    rows, width = tile.shape
    # The squares themselves are not used: they go where the result will be.
    result = nl.ndarray((rows, width), dtype=tile.dtype, buffer=nl.sbuf)
    share = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=result, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=share)
    added = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=added, value=eps)
    nisa.activation(dst=share, op=nl.rsqrt, data=share, scale=1.0 / width, bias=added)
    if gamma is None:
        nisa.tensor_scalar(dst=result, data=tile, op0=nl.multiply, operand0=share)
    else:
        nisa.scalar_tensor_tensor(
            dst=result, data=tile, op0=nl.multiply, operand0=share,
            op1=nl.multiply, operand1=gamma[:rows],
        )  # fmt: skip
    return result


def turn(tile: Any, into: Any) -> None:
    """Write the transpose of a tile [rows, width] to `into` [128, width / 128, rows], a bank of PSUM at a time."""
    (rows, width), pmax = tile.shape, nl.tile_size.pmax
    group = 2048 // (pmax * (4 if tile.dtype == nl.float32 else 2))
    for first in range(0, width // pmax, group):
        count = min(group, width // pmax - first)
        turned = nl.ndarray((pmax, count, rows), dtype=tile.dtype, buffer=nl.psum)
        for n in range(count):
            part = tile[:, (first + n) * pmax : (first + n + 1) * pmax]
            nisa.nc_transpose(dst=turned[:, n], data=part, engine=nisa.engine.tensor)
        nisa.activation(dst=into[:, first : first + count], op=nl.copy, data=turned)


def activated(weights: Any, inputs: list[Any], part: slice, count: int) -> Any:
    """Return silu(gate) * up of up to 128 inner columns, [columns, tokens]; `weights` are the tiles of both."""
    gated, raised = (
        nl.ndarray((part.stop - part.start, count), dtype=nl.float32, buffer=nl.psum)
        for _ in range(2)
    )
    for product, tiles in ((gated, weights[0]), (raised, weights[1])):
        for weight, tokens in zip(tiles, inputs, strict=True):
            nisa.nc_matmul(dst=product, stationary=weight[:, part], moving=tokens)
    smooth = nl.ndarray(gated.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=smooth, op=nl.silu, data=gated)
    result = nl.ndarray(gated.shape, dtype=inputs[0].dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=smooth, data2=raised, op=nl.multiply)
    return result


def check_output_projection(
    kernel: str, attention: Any, weight: Any, bias: Any, axes: tuple[str, ...]
) -> tuple[int, ...]:
    """Return the extents of `attention`; raise unless it has these axes, and weight and bias go with it."""
    shape = list(attention.shape)
    require(
        len(shape) == 4,
        f"{kernel}: `attention` has shape {shape}; expected [{', '.join(axes)}]",
        "give it all four axes; a batch of one is an axis, too",
    )
    heads, d = shape[axes.index("heads")], shape[axes.index("d")]
    require(
        d <= nl.tile_size.pmax and heads * d <= 16384,
        f"{kernel}: `attention` has {heads} heads of {d}; d is at most 128, and heads * d at most 16384",
        f"expected is [{', '.join(axes)}]: transpose what lies the other way, or split the heads",
    )
    require(
        len(weight.shape) == 2 and weight.shape[0] == heads * d,
        f"{kernel}: `weight` has shape {list(weight.shape)}; expected [{heads * d}, hidden],"
        f" as `attention` is {shape}",
        f"attention is [{', '.join(axes)}], and weight [heads * d, hidden]",
    )
    hidden = weight.shape[1]
    require(
        bias is None or list(bias.shape) == [1, hidden],
        f"{kernel}: `bias` has shape {None if bias is None else list(bias.shape)}; expected [1, {hidden}]",
        "reshape it: bias.reshape((1, -1))",
    )
    check_dtypes(kernel, attention=attention, weight=weight, bias=bias)
    return tuple(shape)
