"""The feed-forward blocks of a mixture of experts, with SwiGLU."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import activated, check_dtypes, turn
from nki_lab.kernels.rows import loaded

# Tokens that are multiplied together: each weight is then used for 512 columns of the Tensor engine.
_TOKENS = 512
# Bytes of a row of weights that are loaded together, and of a partition for the inner activations.
_ROW_BYTES, _INNER_BYTES = 1024, 64 * 1024


@nki.jit
def moe(
    hidden_states, expert_affinities_masked, gate_up_proj_weight, down_proj_weight,
    token_position_to_id, block_to_expert, block_size,
):  # fmt: skip
    """Return for each token the sum over its experts of affinity * (silu(x @ gate) * (x @ up)) @ down.

    The tokens lie in blocks, all of a block with one expert; the last row of the tokens fills blocks up. An expert
    out of range, and a token that a block names twice, is an error when the kernel runs.

    Args:
        hidden_states: [tokens + 1, hidden], float32 or bfloat16; hidden a multiple of 128.
        expert_affinities_masked: [(tokens + 1) * experts, 1], of any float dtype; below 2 ** 24 rows.
        gate_up_proj_weight: [experts, hidden, 2, inner], of the dtype of the tokens: gate, then up.
        down_proj_weight: [experts, inner, hidden].
        token_position_to_id: [blocks * block_size], int32: the row of each place in the blocks.
        block_to_expert: [blocks, 1], int32.
        block_size: places of a block, a multiple of 128.

    Returns:
        [tokens + 1, hidden], of the dtype of `hidden_states`; the last row is 0.
    """
    matrices = (gate_up_proj_weight, down_proj_weight)
    _check(hidden_states, expert_affinities_masked, *matrices, token_position_to_id, block_to_expert,
           block_size)  # fmt: skip
    out = nl.ndarray(hidden_states.shape, dtype=hidden_states.dtype, buffer=nl.shared_hbm)
    _clear(out)
    pmax, blocks, experts = nl.tile_size.pmax, block_to_expert.shape[0], matrices[0].shape[0]
    chosen = loaded(block_to_expert.reshape((1, blocks)).broadcast(0, pmax))
    numbers = nl.ndarray(chosen.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=numbers, src=chosen)
    for block in range(blocks):
        gate_up, down = (matrix.select(0, chosen[0:1, block : block + 1]) for matrix in matrices)
        for first in range(block * block_size, (block + 1) * block_size, _TOKENS):
            count = min(_TOKENS, (block + 1) * block_size - first)
            places = token_position_to_id[first : first + count]
            rows = loaded(places.reshape_dim(0, (count // pmax, pmax)).permute((1, 0)))
            # The affinity of a token to an expert stands in row token * experts + expert.
            at = nl.ndarray(rows.shape, dtype=nl.int32, buffer=nl.sbuf)
            nisa.tensor_scalar(
                dst=at, data=rows, op0=nl.multiply, operand0=experts,
                op1=nl.add, operand1=numbers[:, block : block + 1],
            )  # fmt: skip
            # What fills the block up is beyond the result, where transfers skip it.
            into = nl.ndarray(rows.shape, dtype=nl.int32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(
                dst=into, data=rows, op0=nl.equal, operand0=float(out.shape[0] - 1),
                op1=nl.add, operand1=rows,
            )  # fmt: skip
            inner = _inner(_turned(hidden_states, rows), gate_up, count)
            shares = [
                _share(expert_affinities_masked, at[:, n : n + 1]) for n in range(count // pmax)
            ]
            for n, result in enumerate(_down(inner, down, shares, out.dtype)):
                target = out.vector_select(0, into[:, n : n + 1])
                nisa.dma_compute(
                    dst=target, srcs=[target, result], reduce_op=nl.add, oob_mode=nisa.oob_mode.skip
                )
    return out


def _check(tokens, affinities, gate_up, down, places, chosen, block_size):
    check_dtypes("moe", hidden_states=tokens, gate_up_proj_weight=gate_up, down_proj_weight=down)
    pmax = nl.tile_size.pmax
    require(
        len(tokens.shape) == 2 and tokens.shape[1] % pmax == 0,
        f"moe: `hidden_states` has shape {list(tokens.shape)}; expected [tokens + 1, hidden], hidden a multiple "
        f"of {pmax}",
        "fill hidden up with zeros, in the weights, too",
    )
    rows, hidden = tokens.shape
    require(
        len(gate_up.shape) == 4 and tuple(gate_up.shape[1:3]) == (hidden, 2),
        f"moe: `gate_up_proj_weight` has shape {list(gate_up.shape)}; expected [experts, {hidden}, 2, inner]",
        "stack gate and up: np.stack([gate, up], axis=2)",
    )
    experts, inner = gate_up.shape[0], gate_up.shape[3]
    require(
        block_size > 0 and block_size % pmax == 0,
        f"moe: block_size={block_size}; expected a multiple of {pmax}",
        "fill the blocks up with the number of the last row",
    )
    blocks = chosen.shape[0]
    expected = {
        "expert_affinities_masked": (affinities, [rows * experts, 1]),
        "down_proj_weight": (down, [experts, inner, hidden]),
        "token_position_to_id": (places, [blocks * block_size]),
        "block_to_expert": (chosen, [blocks, 1]),
    }
    for name, (value, shape) in expected.items():
        require(
            list(value.shape) == shape,
            f"moe: `{name}` has shape {list(value.shape)}; expected {shape}",
            f"there are {rows - 1} tokens and one row more, {experts} experts and {blocks} blocks of {block_size}",
        )
    for name, value in (("token_position_to_id", places), ("block_to_expert", chosen)):
        require(
            value.dtype == nl.int32,
            f"moe: `{name}` is {value.dtype}; expected int32",
            f"write {name}.astype(np.int32)",
        )
    taken = -(-inner // pmax) * _TOKENS * (4 if tokens.dtype == nl.float32 else 2)
    require(
        taken <= _INNER_BYTES and rows * experts < 2**24,
        f"moe: {inner} inner columns take {taken} bytes of a partition, and there are {rows * experts} affinities; "
        f"expected at most {_INNER_BYTES}, and less than {2**24}",
        "split the weights along the inner axis, or the tokens, and add the results",
    )


def _clear(out):
    """Fill the result with zeros, 128 rows at a time."""
    rows, pmax = out.shape[0], nl.tile_size.pmax
    zeros = nl.ndarray((min(rows, pmax), out.shape[1]), dtype=out.dtype, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    for first in range(0, rows, pmax):
        size = min(pmax, rows - first)
        nisa.dma_copy(dst=out[first : first + size], src=zeros[:size])


def _turned(tokens, rows):
    """Return the tokens of some rows, hidden before tokens: tiles [128, tokens]."""
    pmax, hidden, tiles = nl.tile_size.pmax, tokens.shape[1], rows.shape[1]
    shape = (pmax, hidden // pmax, tiles * pmax)
    turned = nl.ndarray(shape, dtype=tokens.dtype, buffer=nl.sbuf)
    for n in range(tiles):
        tile = loaded(tokens.vector_select(0, rows[:, n : n + 1]))
        turn(tile, turned[:, :, n * pmax : (n + 1) * pmax])
    return [turned[:, k] for k in range(hidden // pmax)]


def _inner(inputs, gate_up, count):
    """Return silu(gate) * up, as tiles of up to 128 inner columns, [columns, tokens]."""
    inner, pmax = gate_up.shape[2], nl.tile_size.pmax
    wide = _ROW_BYTES // (4 if gate_up.dtype == nl.float32 else 2)
    tiles = []
    for start in range(0, inner, wide):
        columns = slice(start, min(start + wide, inner))
        weights = [_whole_rows(gate_up[:, n, columns]) for n in range(2)]
        for left in range(0, columns.stop - start, pmax):
            part = slice(left, min(left + pmax, columns.stop - start))
            tiles.append(activated(weights, inputs, part, count))
    return tiles


def _whole_rows(matrix):
    """Return a matrix with a multiple of 128 rows as tiles of 128 rows, which one transfer loads."""
    pmax = nl.tile_size.pmax
    tile = loaded(matrix.reshape_dim(0, (matrix.shape[0] // pmax, pmax)).permute((1, 0, 2)))
    return [tile[:, k] for k in range(tile.shape[1])]


def _share(affinities, rows):
    """Return the affinities that stand in some rows, in float32."""
    share = nl.ndarray(rows.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=share, src=affinities.vector_select(0, rows))
    return share


def _down(tiles, down, shares, dtype):
    """Return the products with `down`, times the affinities, 128 tokens in a tile."""
    (inner, hidden), pmax = down.shape, nl.tile_size.pmax
    results = [nl.ndarray((pmax, hidden), dtype=dtype, buffer=nl.sbuf) for _ in shares]
    for left in range(0, hidden, nl.tile_size.gemm_moving_fmax):
        columns = slice(left, min(left + nl.tile_size.gemm_moving_fmax, hidden))
        whole = inner // pmax * pmax
        weights = _whole_rows(down[:whole, columns]) if whole else []
        if whole < inner:
            weights.append(loaded(down[whole:, columns]))
        for n, (share, result) in enumerate(zip(shares, results, strict=True)):
            product = nl.ndarray((pmax, columns.stop - left), dtype=nl.float32, buffer=nl.psum)
            for tile, weight in zip(tiles, weights, strict=True):
                part = tile[:, n * pmax : (n + 1) * pmax]
                nisa.nc_matmul(dst=product, stationary=part, moving=weight)
            nisa.tensor_scalar(
                dst=result[:, columns], data=product, op0=nl.multiply, operand0=share
            )
    return results


def _arguments(
    rng: np.random.Generator, dtype: Any, tokens: int, hidden: int, inner: int, experts: int, k: int, block_size: int
) -> dict[str, Any]:  # fmt: skip
    # Each token takes k experts that follow each other, so that all get alike many.
    first = rng.permutation(tokens) % experts
    chosen = (first[:, None] + np.arange(k)) % experts
    affinities = np.zeros((tokens + 1, experts))
    np.put_along_axis(affinities[:-1], chosen, rng.uniform(0.1, 1, chosen.shape), axis=1)
    places, owners = [], []
    for expert in range(experts):
        mine = np.flatnonzero((chosen == expert).any(axis=1))
        blocks = -(-len(mine) // block_size)
        places.append(np.pad(mine, (0, blocks * block_size - len(mine)), constant_values=tokens))
        owners += [expert] * blocks
    x = rng.standard_normal((tokens + 1, hidden))
    x[-1] = 0
    gate_up = rng.standard_normal((experts, hidden, 2, inner)) / hidden**0.5
    return {
        "hidden_states": x.astype(dtype),
        "expert_affinities_masked": affinities.reshape((-1, 1)).astype(dtype),
        "gate_up_proj_weight": gate_up.astype(dtype),
        "down_proj_weight": (rng.standard_normal((experts, inner, hidden)) / inner**0.5).astype(
            dtype
        ),
        "token_position_to_id": np.concatenate(places).astype(np.int32),
        "block_to_expert": np.array(owners, np.int32).reshape((-1, 1)),
        "block_size": block_size,
    }


def _edge(rng: np.random.Generator) -> dict[str, Any]:
    """Return a token that is NaN, and an expert without tokens."""
    arguments = _arguments(rng, np.float32, 20, 128, 30, 3, 1, 128)
    arguments["hidden_states"][4, 7] = np.nan
    arguments["block_to_expert"][0] = 2
    return arguments


def _reference(
    hidden_states: Any, expert_affinities_masked: Any, gate_up_proj_weight: Any, down_proj_weight: Any,
    token_position_to_id: Any, block_to_expert: Any, block_size: int,
) -> np.ndarray:  # fmt: skip
    x, affinities = (a.astype(np.float64) for a in (hidden_states, expert_affinities_masked))
    affinities = affinities.reshape((len(x), -1))
    result = np.zeros_like(x)
    for rows, expert in zip(
        token_position_to_id.reshape((-1, block_size)), block_to_expert[:, 0], strict=True
    ):
        rows = rows[rows < len(x) - 1]
        gate, up = gate_up_proj_weight[expert].astype(np.float64).transpose((1, 0, 2))
        gated = x[rows] @ gate
        inner = gated / (1 + np.exp(-gated)) * (x[rows] @ up)
        result[rows] += affinities[rows, expert, None] * (
            inner @ down_proj_weight[expert].astype(np.float64)
        )
    return result


_RIGHT = {
    "hidden_states": (5, 128),
    "expert_affinities_masked": (10, 1),
    "gate_up_proj_weight": (2, 128, 2, 8),
    "down_proj_weight": (2, 8, 128),
    "token_position_to_id": np.zeros(128, np.int32),
    "block_to_expert": np.zeros((1, 1), np.int32),
    "block_size": 128,
}

KERNEL = Prebuilt(
    kernel=moe,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"tokens": 100, "hidden": 128, "inner": 64, "experts": 4, "k": 2, "block_size": 128},
        {"tokens": 600, "hidden": 128, "inner": 130, "experts": 1, "k": 1, "block_size": 640},
        {"tokens": 1, "hidden": 256, "inner": 1, "experts": 1, "k": 1, "block_size": 128},
    ),
    ranges={
        "tokens": range(1, 200),
        "hidden": range(128, 257, 128),
        "inner": range(1, 200),
        "experts": range(1, 5),
        "k": range(1, 3),
        "block_size": range(128, 257, 128),
    },
    legal=lambda experts, k, **size: k <= experts,
    timed=(
        {"tokens": 512, "hidden": 1024, "inner": 512, "experts": 4, "k": 2, "block_size": 256},
        {"tokens": 2048, "hidden": 2048, "inner": 1024, "experts": 8, "k": 2, "block_size": 512},
    ),
    multiplies=lambda tokens, hidden, inner, k, **size: 6 * tokens * k * hidden * inner,
    tolerance={"float32": 1e-5, "bfloat16": 2e-2},
    chips=("trn2", "trn3"),  # where transfers gather and scatter
    steps=(
        Step(
            "The expert of a block is a number in memory: its weights are loaded from an address that it gives.",
            "gate_up, down =",
        ),
        Step(
            "Transfers gather the tokens of a block, and the Tensor engine transposes them.",
            "_turned",
        ),
        Step(
            "It multiplies 128 inner columns of gate and up by 512 tokens; Scalar applies silu, Vector multiplies.",
            "_inner",
        ),
        Step(
            "It multiplies 128 tokens by down; the Vector engine multiplies by the affinity of each token.",
            "_down",
        ),
        Step(
            "A transfer adds the rows to those of the result, and skips those that fill the block up.",
            "nisa.dma_compute(",
        ),
    ),
    sources=("NKI Library, moe_cte and blockwise matrix products",),
    edges={"NaN, and an expert without tokens": _edge},
    refused=(
        Refused(
            {**_RIGHT, "hidden_states": (5, 100)},
            "`hidden_states` has shape [5, 100]; expected [tokens + 1, hidden], hidden a multiple of 128",
            "fill hidden up",
        ),
        Refused(
            {**_RIGHT, "gate_up_proj_weight": (2, 128, 16)},
            "`gate_up_proj_weight` has shape [2, 128, 16]; expected [experts, 128, 2, inner]",
            "np.stack([gate, up], axis=2)",
        ),
        Refused(
            {**_RIGHT, "down_proj_weight": (2, 128, 8)},
            "`down_proj_weight` has shape [2, 128, 8]; expected [2, 8, 128]",
            "4 tokens and one row more, 2 experts",
        ),
        Refused({**_RIGHT, "block_size": 100}, "block_size=100; expected a multiple", "fill"),
        Refused(
            {**_RIGHT, "block_to_expert": (1, 1)},
            "`block_to_expert` is float32; expected int32",
            "block_to_expert.astype(np.int32)",
        ),
    ),
)
