"""Rules of the operands of nc_matmul."""

from __future__ import annotations

from math import prod
from typing import Any

from nki_lab.dtypes import bfloat16, float8_e4m3, float8_e4m3fn, float16
from nki_lab.errors import NotOnTarget
from nki_lab.ir.definition.instruction import Instruction, Rule, rule
from nki_lab.ir.tensor.footprint import footprint
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.enums import matmul_perf_mode
from nki_lab.isa.indirection import (
    gathered_from,
    index_in_quadrant,
    is_indirect,
    scattered_to,
)
from nki_lab.isa.rules import choice, flag, same_partitions
from nki_lab.isa.systolic import FP8, TRANSPOSE_MODE, WIDE
from nki_lab.targets.facts import ISA, TRN1_ARCH, TRN2_ARCH
from nki_lab.targets.spec import Target


def double_row(i: Instruction) -> bool:
    """Tell whether two rows of 8-bit floats are contracted at once."""
    return i.perf_mode is matmul_perf_mode.double_row


def columns(tile: NkiTensor, double: bool) -> int:
    """Return the columns of an operand: its free size, which holds two rows with double_row."""
    return prod(tile.shape[2:]) if double else tile.free_size


def moves_bits(i: Instruction, hw: Target) -> bool:
    """Tell whether the array transposes `stationary` instead of multiplying it."""
    return i.is_transpose and hw.supports(TRANSPOSE_MODE)


def _tile(i: Instruction, hw: Target) -> tuple[int, int]:
    """Return rows and columns of the part of the array in use."""
    return i.tile_size or (hw.pe_rows, hw.pe_columns)


def array_part(i: Instruction, hw: Target) -> tuple[int, int, int, int] | None:
    """Return (first row, first column, rows, columns) of the part of the array in use; None for all of it."""
    rows, cols = _tile(i, hw)
    if (rows, cols) == (hw.pe_rows, hw.pe_columns):
        return None
    return (*i.tile_position, rows, cols)


# -- element types ---------------------------------------------------------------------------------


@rule(
    "float8_e4m3fn needs a target with `matmul_float8_e4m3fn`",
    "stationary",
    "moving",
    help="use float8_e4m3 on this target",
    error=NotOnTarget,
    source=f"{ISA}:578",
)
def _e4m3fn(i, hw):
    has_e4m3fn = float8_e4m3fn in (i.stationary.dtype, i.moving.dtype)
    return not has_e4m3fn or hw.supports("matmul_float8_e4m3fn")


@rule(
    "`stationary` and `moving` must not mix float8_e4m3 with float8_e4m3fn",
    "stationary",
    "moving",
    help="bring both to one of the two formats",
    source=f"{ISA}:579",
)
def _one_e4m3(i, hw):
    return {i.stationary.dtype, i.moving.dtype} != {float8_e4m3, float8_e4m3fn}


@rule(
    "`stationary` and `moving` must both be float32 or tfloat32, or both be narrower",
    "stationary",
    "moving",
    help="cast the wide tile with nisa.tensor_copy; narrow tiles run four times as fast as float32",
    source=f"{ISA}:580",
    copy="float32",
)
def _same_width(i, hw):
    return (i.stationary.dtype in WIDE) == (i.moving.dtype in WIDE)


@rule(
    "`dst` must be float32, or bfloat16 on NeuronCore-v4; a bit-exact transpose may keep the dtype of `stationary`",
    "dst",
    "stationary",
    "is_transpose",
    help="make the PSUM tile float32 and cast when copying it to SBUF",
    source=f"{ISA}:588",
)
def _result_dtype(i, hw):
    kept = moves_bits(i, hw) and i.dst.dtype == i.stationary.dtype
    return kept or i.dst.dtype in hw.matmul_psum_dtypes


# -- double_row ------------------------------------------------------------------------------------


@rule(
    "`perf_mode` double_row needs a target with `matmul_double_row`",
    "perf_mode",
    help="leave `perf_mode` out on this target",
    error=NotOnTarget,
    source=f"{ISA}:506",
)
def _double_on_target(i, hw):
    return not double_row(i) or hw.supports("matmul_double_row")


@rule(
    "`stationary` and `moving` must be 8-bit floats when `perf_mode` is double_row",
    "stationary",
    "moving",
    "perf_mode",
    help="leave `perf_mode` out for wider types",
    source=f"{ISA}:583",
)
def _double_dtypes(i, hw):
    return not double_row(i) or {i.stationary.dtype, i.moving.dtype} <= FP8


@rule(
    "`stationary` and `moving` must have shape [K, 2, ...] when `perf_mode` is double_row",
    "stationary",
    "moving",
    "perf_mode",
    help="put both halves of the contracted axis on axis 1: t.reshape_dim(1, (2, -1))",
    source=f"{ISA}:598",
)
def _double_shape(i, hw):
    tiles = (i.stationary, i.moving)
    return not double_row(i) or all(len(t.shape) >= 3 and t.shape[1] == 2 for t in tiles)


@rule(
    "`perf_mode` double_row cannot be combined with `is_transpose`",
    "perf_mode",
    "is_transpose",
    help="use one of the two",
    source=f"{TRN2_ARCH}:117",
)
def _double_or_transpose(i, hw):
    return not (double_row(i) and i.is_transpose)


@rule(
    "`perf_mode` double_row cannot be combined with a tile of fewer than 128 columns",
    "perf_mode",
    "tile_size",
    help="tile rows only, e.g. tile_size=(64, 128)",
    source=f"{ISA}:511",
)
def _double_columns(i, hw):
    return not double_row(i) or _tile(i, hw)[1] == hw.pe_columns


# -- tiles of the array ----------------------------------------------------------------------------


def _pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and all(type(n) is int for n in value)


@rule(
    "`tile_position` and `tile_size` must both be pairs of integers (row, column), or both be left out",
    "tile_position",
    "tile_size",
    help="tile_position=(0, 0), tile_size=(128, 128) is the whole array",
    source=f"{ISA}:531",
)
def _tiling(i, hw):
    if not i.tile_position and not i.tile_size:
        return True
    return _pair(i.tile_position) and _pair(i.tile_size)


@rule(
    "`tile_size` must be 128 or 64 rows and columns, or 32 from NeuronCore-v3 on",
    "tile_size",
    help="choose the smallest size that holds `stationary`",
    source=f"{ISA}:518",
)
def _tile_sizes(i, hw):
    rows, width = _tile(i, hw)
    return rows in hw.pe_tile_rows and width in hw.pe_tile_columns


@rule(
    "`tile_position` must be a multiple of `tile_size` inside the array",
    "tile_position",
    "tile_size",
    help="a tile of 64 rows starts at row 0 or 64",
    source=f"{ISA}:525",
)
def _tile_places(i, hw):
    if not i.tile_size:
        return True
    ends = zip(i.tile_position, i.tile_size, (hw.pe_rows, hw.pe_columns), strict=True)
    return all(at >= 0 and at % size == 0 and at + size <= end for at, size, end in ends)


# -- sizes -----------------------------------------------------------------------------------------


@rule(
    "the partitions of `stationary` and `moving` must not exceed the 128 rows of the array, or those of its tile",
    "stationary",
    "moving",
    "tile_size",
    help="split the contracted axis and accumulate into the same `dst`",
    source=f"{ISA}:607",
)
def _rows(i, hw):
    return i.stationary.partitions <= _tile(i, hw)[0]


@rule(
    "the free size of `stationary` must not exceed the 128 columns of the array, or those of its tile",
    "stationary",
    "tile_size",
    "perf_mode",
    help="split `stationary` along its free axis: each part gives other partitions of `dst`",
    source=f"{ISA}:609",
)
def _stationary_columns(i, hw):
    most = min(_tile(i, hw)[1], hw.matmul_stationary_free_max)
    return columns(i.stationary, double_row(i)) <= most


@rule(
    "the free size of `moving` must not exceed 512; on NeuronCore-v4 4096 into float32, 8192 into bfloat16",
    "moving",
    "perf_mode",
    "dst",
    help="split `moving` along its free axis into tiles of 512",
    source=f"{ISA}:612",
)
def _moving_columns(i, hw):
    into_wide = i.dst.dtype.itemsize == 4
    most = hw.matmul_moving_free_max_fp32 if into_wide else hw.matmul_moving_free_max_bf16
    return columns(i.moving, double_row(i)) <= most


@rule(
    "`dst` must have a partition for each column of `stationary` and an element for each column of `moving`",
    "dst",
    "stationary",
    "moving",
    "perf_mode",
    help="dst = stationary.T @ moving: [K, M] and [K, N] give [M, N]",
    source=f"{ISA}:601",
)
def _result_shape(i, hw):
    wanted = columns(i.stationary, double_row(i)), columns(i.moving, double_row(i))
    return (i.dst.partitions, i.dst.free_size) == wanted


@rule(
    "`dst` must lie in one PSUM bank (2 KiB of each partition); on NeuronCore-v4 it may reach into the next ones",
    "dst",
    help="let each nc_matmul write columns that do not cross a multiple of 512 float32 elements of the tensor",
    source=f"{TRN1_ARCH}:169",
)
def _one_bank(i, hw):
    bank = hw.psum_bank_bytes
    too_wide = i.dst.free_size * i.dst.dtype.itemsize > bank  # which the rule of `moving` tells
    if i.dst.dynamic is not None or too_wide or hw.matmul_moving_free_max_fp32 * 4 > bank:
        return True
    # A tensor that does not fit into one bank begins with a bank, and one that fits never crosses its end.
    reach = footprint(i.dst)
    return reach.first_byte // bank == (reach.end_byte - 1) // bank


@rule(
    "`moving` must be square, an identity matrix, when `is_transpose` is True",
    "moving",
    "is_transpose",
    help="pass nl.shared_identity_matrix(K, dtype=...) with as many rows as `stationary` has partitions",
    source=f"{ISA}:561",
)
def _square_moving(i, hw):
    return not moves_bits(i, hw) or i.moving.partitions == i.moving.free_size


# -- other parameters ------------------------------------------------------------------------------


@rule(
    "`accumulate` must be None, True or False",
    "accumulate",
    help="write accumulate=(i > 0) in a loop, or leave it out",
    source=f"{ISA}:541",
)
def _accumulate(i, hw):
    return i.accumulate is None or type(i.accumulate) is bool


# -- gather and scatter ----------------------------------------------------------------------------

_INDIRECT_DTYPES = FP8 | {bfloat16, float16}


@rule(
    "`moving` must not be indirect when `is_transpose` is True",
    "moving",
    "is_transpose",
    help="gather it into a tile first, with nisa.tensor_copy",
    source=f"{ISA}:647",
)
def _plain_identity(i, hw):
    return not (i.is_transpose and is_indirect(i.moving))


@rule(
    "an indirect `stationary` or `moving` must be float16, bfloat16 or an 8-bit float",
    "stationary",
    "moving",
    help="cast it with nisa.tensor_copy",
    source=f"{ISA}:649",
)
def _indirect_dtypes(i, hw):
    # The page says "the indirect operands"; taken to mean the inputs, since `dst` is float32 or bfloat16.
    both = (i.stationary, i.moving)
    return all(t.dtype in _INDIRECT_DTYPES for t in both if is_indirect(t))


def indirect_whole_array(line: int) -> Rule:
    """Require the tile at (0, 0) of the array, or all of it, where an operand is indirect."""
    return rule(
        "`tile_position` must be (0, 0) or left out when an operand is indirect",
        "tile_position",
        "dst",
        "stationary",
        "moving",
        help="leave `tile_position` and `tile_size` out",
        source=f"{ISA}:{line}",
    )(
        lambda i, hw: (
            not i.tile_position
            or i.tile_position == (0, 0)
            or not any(is_indirect(t) for t in (i.dst, i.stationary, i.moving))
        )
    )


def matmul_indirection(line: int) -> tuple[Rule, ...]:
    """Return the rules on where indirect operands of a matmul start; `line` is that of its page."""
    return (
        index_in_quadrant(line, "dst", "stationary", "moving"),
        gathered_from(line, "stationary", "moving"),
        scattered_to(line, "stationary"),
    )


#: Rules about what is added to, and about the part of the array in use, which nc_matmul_mx has as well.
ACCUMULATE_RULE: Rule = _accumulate
TILING_RULES: tuple[Rule, ...] = (_tiling, _tile_sizes, _tile_places)
ROWS_RULE: Rule = _rows

#: The rules of nc_matmul, in the order they are checked.
MATMUL_RULES: tuple[Rule, ...] = (
    ACCUMULATE_RULE,
    flag("is_stationary_onezero", "is_moving_onezero", "is_transpose"),
    choice("perf_mode", matmul_perf_mode),
    _e4m3fn,
    _one_e4m3,
    _same_width,
    _double_on_target,
    _double_dtypes,
    _double_shape,
    _double_or_transpose,
    *TILING_RULES,
    _double_columns,
    same_partitions("stationary", "moving"),
    ROWS_RULE,
    _stationary_columns,
    _moving_columns,
    _square_moving,
    _result_shape,
    _one_bank,
    _result_dtype,
    _plain_identity,
    _indirect_dtypes,
    indirect_whole_array(648),
    *matmul_indirection(655),
)
