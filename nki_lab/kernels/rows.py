"""What kernels share: they load tiles, most of them 128 rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.kernels.launched import is_program
from nki_lab.kernels.prebuilt import require


def check_rows(kernel: str, x: Any, widest: int, **per_width: Any) -> tuple[int, int]:
    """Return the rows and the width of `x` [rows, width]; raise unless a row fits, and others are [width] floats."""
    require(
        len(x.shape) == 2,
        f"{kernel}: `x` has shape {list(x.shape)}; expected [rows, width]",
        "reshape it: x.reshape((-1, x.shape[-1]))",
    )
    rows, width = x.shape
    require(
        width <= widest,
        f"{kernel}: a row of `x` has {width} elements; a tile holds {widest}",
        f"give it rows of at most {widest} elements",
    )
    for name, value in per_width.items():
        require(
            tuple(value.shape) == (width,),
            f"{kernel}: `{name}` has shape {list(value.shape)}; expected [{width}], as wide as `x`",
            f"give one value for each of the {width} columns",
        )
    check_floats(kernel, x=x, **per_width)
    return rows, width


def check_floats(kernel: str, half: bool = False, **tensors: Any) -> None:
    """Raise unless tensors, by name of parameter, are float32 or bfloat16, or with `half` float16."""
    dtypes = (nl.float32, nl.float16, nl.bfloat16) if half else (nl.float32, nl.bfloat16)
    *others, last = map(str, dtypes)
    for name, x in tensors.items():
        require(
            x.dtype in dtypes,
            f"{kernel}: `{name}` is {x.dtype}; expected {', '.join(others)} or {last}",
            f"cast it: {name}.astype(np.float32)",
        )


def loaded(view: Any) -> Any:
    """Return a tile in SBUF with what a view of HBM holds."""
    tile = nl.ndarray(tuple(view.shape), dtype=view.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=view)
    return tile


def of_this_core(n: int) -> bool:
    """Tell whether this core does part `n` of the work; cores take 0, 1, 1, 0, ..., which balances growing parts."""
    cores = nl.num_programs(0)
    return (n // cores + n) % cores == nl.program_id(0)


def tiles_of_rows(x: Any, split: bool = False) -> Iterator[tuple[slice, int, Any]]:
    """Yield, for up to 128 rows of `x` at a time, which they are, how many, and a tile in SBUF that holds them.

    With `split` each core gets its part of them.
    """
    rows, pmax = x.shape[0], nl.tile_size.pmax
    for n, first in enumerate(range(0, rows, pmax)):
        if not split or of_this_core(n):
            part = slice(first, min(first + pmax, rows))
            yield part, part.stop - first, loaded(x[part])


def register_of(flags: Any) -> Any:
    """Return a register that is 0 where all of a tile [128, 1] is, on every core."""
    if nl.num_programs(0) == 2 and not is_program():  # both cores go through the loop, or none
        other, theirs = 1 - nl.program_id(0), nl.ndarray(flags.shape, flags.dtype, nl.sbuf)
        nisa.sendrecv(src=flags, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)
        nisa.tensor_tensor(dst=flags, data1=flags, data2=theirs, op=nl.maximum)
    most = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=most, op=nl.max, data=flags)
    number = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=number, src=most)
    register = nisa.register_alloc()
    nisa.register_load(register, number)
    return register


def per_column(values: Any) -> Any:
    """Return an SBUF tile [128, width] of which each partition holds `values` [width] of HBM."""
    pmax, width = nl.tile_size.pmax, values.shape[0]
    tile = nl.ndarray((pmax, width), dtype=values.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=values.reshape((1, width)).broadcast(0, pmax))
    return tile


def places_in_rows(columns: Any, width: int) -> Any:
    """Return row * width + column for up to 128 rows, [rows, 1] in SBUF; `columns` [rows, 1] of HBM are int32.

    It is computed in float32, which is exact while the rows hold at most 2 ** 24 elements together. A column that is
    none of the row's gets a place beyond every matrix, where a transfer raises: it would be one of another row.
    """
    place, wrong = (
        nl.ndarray(tuple(columns.shape), dtype=nl.int32, buffer=nl.sbuf) for _ in range(2)
    )
    nisa.iota(dst=place, pattern=[[0, 1]], offset=0, channel_multiplier=width)
    column = loaded(columns)
    nisa.tensor_tensor(dst=place, data1=place, data2=column, op=nl.add)
    for outside, bound in ((nl.less, 0.0), (nl.greater_equal, float(width))):
        nisa.tensor_scalar(
            dst=wrong, data=column, op0=outside, operand0=bound, op1=nl.multiply, operand1=2.0**30
        )
        nisa.tensor_tensor(dst=place, data1=place, data2=wrong, op=nl.maximum)
    return place


def elements_at(matrix: Any, places: Any) -> Any:
    """Return the elements of a matrix of HBM at places [rows, 1] as a view [rows, 1], for one gather or scatter."""
    count = matrix.shape[0] * matrix.shape[1]
    elements = matrix.reshape((count, 1))
    pattern = [[1, places.shape[0]], [1, 1]]
    return elements.ap(pattern=pattern, vector_offset=places, indirect_dim=0)


def check_index(kernel: str, input: Any, dim: int, index: Any) -> None:
    """Raise unless `input` is [rows, width], `index` is [count] in int32, and counts along axis 0."""
    require(
        dim == 0,
        f"{kernel}: dim={dim}; expected 0",
        "indices count rows; transpose to name columns: np.ascontiguousarray(input.T)",
    )
    require(
        len(input.shape) == 2,
        f"{kernel}: `input` has shape {list(input.shape)}; expected [rows, width]",
        "reshape it: input.reshape((len(input), -1))",
    )
    require(
        len(index.shape) == 1 and index.dtype == nl.int32,
        f"{kernel}: `index` is {list(index.shape)} {index.dtype}; expected [count] int32",
        "write index.astype(np.int32).reshape(-1)",
    )


def indices_of_rows(index: Any, matrix: Any) -> Iterator[tuple[Any, Any]]:
    """Yield up to 128 indices at a time, [size, 1] in SBUF, and a view of the rows of `matrix` at their places.

    Partition p holds indices that follow each other, up to 128 of them, which one transfer loads.
    """
    count, pmax = index.shape[0], nl.tile_size.pmax
    for start in range(0, count, pmax * pmax):
        each, rest = divmod(min(pmax * pmax, count - start), pmax)
        for first, size, turns in ((start, pmax, each), (start + each * pmax, rest, 1)):
            if size and turns:
                part = slice(first, first + size * turns)
                indices = loaded(index[part].reshape((size, turns)))
                rows = matrix[part].reshape_dim(0, (size, turns))
                for turn in range(turns):
                    yield indices[:, turn : turn + 1], rows[:, turn]
