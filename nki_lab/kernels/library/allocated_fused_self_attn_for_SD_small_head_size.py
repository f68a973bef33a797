"""Self-attention of Stable Diffusion with the sequence last in keys and output."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.attention import STEP, Mask, check_products, joined
from nki_lab.kernels.launched import places, result
from nki_lab.kernels.library.fused_self_attn_for_SD_small_head_size import (
    KERNEL as FUSED,
)
from nki_lab.kernels.library.fused_self_attn_for_SD_small_head_size import (
    STEPS,
    check_self_attention,
    self_attention,
)
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step

_BANK_BYTES = 2048
# Keys and values take so many bytes of each partition at most.
_KEPT_BYTES = 128 * 1024


@nki.jit
def allocated_fused_self_attn_for_SD_small_head_size(
    q_ref, k_ref, v_ref, use_causal_mask=False, mixed_precision=True
):
    """Return the transpose of softmax(q.T @ k / 8) @ v of each head; a head is one of the batch.

    Its tiles have addresses, those of one kind several: while one is read, the next one is written. The compiler places
    only what tells whether sums are exact, and what it takes to compute heads again where they are not.

    Args:
        q_ref, k_ref: [batch, d, sequence], float32 or bfloat16; d at most 128.
        v_ref: [batch, sequence, d], of the same dtype.
        use_causal_mask: query i sees the keys up to i.
        mixed_precision: multiply matrices in bfloat16; sums are float32 in any case.

    Returns:
        [batch, d, sequence].
    """
    name = "allocated_fused_self_attn_for_SD_small_head_size"
    check_self_attention(name, q_ref, k_ref, v_ref, "d, sequence")
    (batch, d, count), dtype = q_ref.shape, nl.bfloat16 if mixed_precision else q_ref.dtype
    check_products(name, dtype)
    out = result("out", (batch, d, count), q_ref.dtype)
    make = _Places(d, count, dtype, q_ref.dtype)

    def write(b: int, waiting: list[Any], first: int, tile: Any) -> None:
        waiting.append(tile)
        last = first + tile.shape[0]
        if len(waiting) == 4 or last == count:  # rows of 512 queries, so that transfers are long
            turned = joined(waiting, make)
            nisa.dma_copy(dst=out[b, :, last - turned.shape[1] : last], src=turned)
            waiting.clear()

    heads = [(q_ref[b], k_ref[b], v_ref[b], partial(write, b, [])) for (b,) in places(name, batch)]
    self_attention(heads, dtype, Mask(count, use_causal_mask), "", make)
    return out


class _Places:
    """Makes tiles at addresses: those of one use take its places in turn."""

    def __init__(self, d: int, count: int, dtype: Any, out: Any) -> None:
        """Take the width and length of a head, and the dtypes of products and of the output."""
        width, wide = (4 if each == nl.float32 else 2 for each in (dtype, out))
        # A whole head lies in SBUF, beside it what fits of the next one; of a longer head lie parts there.
        keys, values = STEP * width, -(-STEP // 128 * (d + 1) * width // 64) * 64
        parts = min(2 * -(-count // STEP), _KEPT_BYTES // (keys + values))
        sizes = {
            "keys": (parts, keys),
            "values": (parts, values),
            "queries": (3, 512 * width),
            "weights": (8, 2 * 512 * width),
            "share": (8, 64),
            "output": (8, -(-d * wide // 64) * 64),
            "joined": (2, 512 * wide),
        }
        self._free: dict[str, Iterator[int]] = {}
        start = 0
        for use, (number, size) in sizes.items():
            self._free[use] = cycle(range(start, start + number * size, size))
            start += number * size
        # Scores have three times two banks of PSUM; the sums of 512 queries have the last two, and are turned there.
        self._free["scores"] = cycle(range(0, 6 * _BANK_BYTES, 2 * _BANK_BYTES))
        self._free["sums"] = self._free["turned"] = cycle((6 * _BANK_BYTES,))
        self._free["later sums"] = cycle((7 * _BANK_BYTES,))

    def __call__(
        self, use: str, shape: tuple[int, ...], dtype: Any = nl.float32, buffer: Any = nl.sbuf
    ) -> Any:
        """Return a new tile at the next place of a use."""
        return nl.ndarray(shape, dtype=dtype, buffer=buffer, address=(0, next(self._free[use])))


def _arguments(rng: np.random.Generator, dtype: Any, **size: int) -> dict[str, Any]:
    given = FUSED.arguments(rng, dtype, **size)
    return {**given, "k_ref": np.ascontiguousarray(given["k_ref"].swapaxes(1, 2))}


def _large(rng: np.random.Generator) -> dict[str, Any]:
    given = FUSED.edges["large"](rng)
    return {**given, "k_ref": np.ascontiguousarray(given["k_ref"].swapaxes(1, 2))}


def _reference(q_ref: Any, k_ref: Any, v_ref: Any, **options: Any) -> Any:
    return FUSED.reference(q_ref, k_ref.swapaxes(1, 2), v_ref, **options).swapaxes(1, 2)


KERNEL = Prebuilt(
    kernel=allocated_fused_self_attn_for_SD_small_head_size,
    arguments=_arguments,
    reference=_reference,
    tested=FUSED.tested,
    ranges=FUSED.ranges,
    timed=FUSED.timed,
    multiplies=FUSED.multiplies,
    tolerance=FUSED.tolerance,
    cores=(1, 2),
    refused=(
        Refused(
            {"q_ref": (2, 8, 20), "k_ref": (2, 20, 8), "v_ref": (2, 20, 8)},
            "`k_ref` is [2, 20, 8] float32; expected [batch, d, sequence] = [2, 8, 20] float32",
            "k_ref.swapaxes(1, 2)",
        ),
    ),
    edges={"large": _large},
    steps=(
        Step("The keys and values of a head stay in SBUF.", "attention.py:_loaded"),
        Step(
            "Tiles take turns at addresses: keys of two heads, eight tiles of weights, three of scores.",
            "class _Places",
        ),
        *STEPS,
        Step(
            "The output of 512 queries is transposed by the Tensor engine.", "attention.py:joined"
        ),
    ),
    sources=(
        "nki-samples, reference/allocated_attention.py, allocated_fused_self_attn_for_SD_small_head_size",
    ),
    official={
        f"neuronxcc.nki.kernels.{module}.allocated_fused_self_attn_for_SD_small_head_size": (
            allocated_fused_self_attn_for_SD_small_head_size
        )
        for module in ("allocated_attention", "attention")
    },
)
