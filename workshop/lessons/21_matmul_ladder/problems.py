"""Exercises of notebook 21, The matmul ladder."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.evidence import summary_value
from nki_lab.exercises.problem import Limits, Mistake, Question, Task, Tiers

_KIB = 1024
_LARGE = {"k": 32, "m": 4, "n": 2, "dtype": "bfloat16"}  # tiles of [4096, 512] and [4096, 1024]
_SMALLEST = {"k": 1, "m": 1, "n": 1, "dtype": "bfloat16"}
_FLOAT32 = {"k": 2, "m": 3, "n": 1, "dtype": "float32"}
_FRESH = {"k": (1, 3), "m": (1, 3), "n": (1, 2)}


def _matrices(draw, k, m, n, dtype):
    """Return a_t [128 k, 128 m] and b [128 k, 512 n]."""
    return draw(128 * k, 128 * m, dtype=dtype), draw(128 * k, 512 * n, dtype=dtype)


def _product(a_t, b, *sizes):
    return a_t.T @ b


def _last_steps(a_t, b, count=1):
    """Return what the last steps of the depth bring."""
    return a_t[-128 * count :].T @ b[-128 * count :]


def _last_block(a_t, b, deep):
    steps = len(a_t) // 128
    return _last_steps(a_t, b, (steps - 1) % deep + 1)


def _first_columns(a_t, b, *sizes):
    """Return the product with the first 512 columns of b in place of all others."""
    return np.tile(a_t.T @ b[:, :512], b.shape[1] // 512)


_TOO_FAR = Mistake(
    _first_columns,
    "every 512 columns of the result are those of the first: tiles of `b` were loaded too early",
    "which loop does a tile of `b` depend on?",
)


def _traffic(run) -> float:
    """Return the bytes read from HBM for each byte of the inputs."""
    return summary_value("hbm_read_bytes", run) / summary_value(
        "inputs_and_weights_size_bytes", run
    )


PROBLEMS = (
    Task(
        id="21.1",
        title="Step 2, tiles",
        statement="""\
`matmul_tiled(a_t, b)` returns `a_t.T @ b` for a_t [depth, rows] and b [depth, columns], where depth and rows are
multiples of 128 and columns one of 512. Products along the depth are summed up in PSUM.""",
        signature="matmul_tiled(a_t, b)",
        inputs=_matrices,
        reference=_product,
        cases=(_LARGE, _SMALLEST, _FLOAT32),
        fresh=_FRESH,
        mistakes=(
            Mistake(
                _last_steps,
                "the result is the product of the last 128 of the depth: the others are lost",
                "one tile in PSUM for each tile of the result, made before the loop over the depth",
            ),
            Mistake(
                lambda a_t, b: a_t[:128].T @ b[:128],
                "the result is the product of the first 128 of the depth: the others are missing",
                "for k in range(0, depth, 128)",
            ),
        ),
        limits=Limits(transfers=520, instructions={"tensor": 512}, psum_banks=8),
        tiers={"trn1": Tiers(passes=260.0, star=215.0)},
        hints=(
            "A third loop goes along the depth: for k in range(0, depth, 128).",
            "In it: a tile of a_t [128, 128], a tile of b [128, 512], and nisa.nc_matmul into `total`.",
            "left = load(a_t[k : k + 128, m : m + 128]), right = load(b[k : k + 128, n : n + 512]) and"
            " nisa.nc_matmul(dst=total, stationary=left, moving=right).",
        ),
    ),
    Question(
        id="21.2",
        title="Bytes read for a byte of input",
        statement="""\
How many bytes does `matmul_tiled` read from HBM for each byte of its two inputs, a_t [4096, 512] and
b [4096, 1024]?""",
        unit="bytes",
        truth=_traffic,
        evidence=lambda run: (
            f"{summary_value('hbm_read_bytes', run, 1 / 2**20):.0f} MiB are read of inputs of"
            f" {summary_value('inputs_and_weights_size_bytes', run, 1 / 2**20):.0f} MiB"
        ),
        hints=(
            "The result has 4 x 2 tiles. In how many of them is a tile of a_t used, and in how many one of b?",
            "a_t (4 MiB) is read twice, b (8 MiB) four times. What is that for each byte of the 12 MiB?",
            "It is (2 * 4 + 4 * 8) / 12.",
        ),
    ),
    Task(
        id="21.3",
        title="Step 3, loads before the loop",
        statement="""\
`matmul_hoisted(a_t, b)` returns `a_t.T @ b`, as `matmul_tiled` does, and loads each tile of a_t once: before
the loop over the columns.""",
        signature="matmul_hoisted(a_t, b)",
        inputs=_matrices,
        reference=_product,
        cases=(_LARGE, _SMALLEST, _FLOAT32),
        fresh=_FRESH,
        mistakes=(_TOO_FAR,),
        limits=Limits(transfers=392, transfer_bytes=37888 * _KIB),
        tiers={"trn1": Tiers(passes=205.0, star=187.0)},
        hints=(
            "Tiles of a_t depend on m and k, not on n. Tiles of b depend on n and k, not on m.",
            "left = [load(...) for k in range(0, depth, 128)] before the loop over n, and `right` in it.",
            "left = [load(a_t[k : k + 128, m : m + 128]) for k in range(0, depth, 128)]; step i of the depth is"
            " nisa.nc_matmul(dst=total, stationary=left[i], moving=right[i]).",
        ),
    ),
    Task(
        id="21.4",
        title="Step 4, blocks of rows and columns",
        statement="""\
`matmul_blocks(a_t, b, high, wide)` returns `a_t.T @ b`. It computes blocks of high x wide tiles of the result,
and loads what a block needs once. The last block of rows or columns may be smaller.""",
        signature="matmul_blocks(a_t, b, high, wide)",
        inputs=lambda draw, k, m, n, dtype, high, wide: (
            *_matrices(draw, k, m, n, dtype),
            high,
            wide,
        ),
        reference=_product,
        cases=(
            {**_LARGE, "high": 4, "wide": 2},
            {**_SMALLEST, "high": 2, "wide": 3},
            {**_FLOAT32, "high": 2, "wide": 1},
            {"k": 2, "m": 3, "n": 3, "dtype": "bfloat16", "high": 1, "wide": 2},
        ),
        fresh={**_FRESH, "high": (1, 3), "wide": (1, 2)},
        mistakes=(_TOO_FAR,),
        limits=Limits(transfers=200, transfer_bytes=13312 * _KIB, psum_banks=8),
        tiers={"trn1": Tiers(passes=120.0, star=93.0)},
        hints=(
            "Two loops over blocks outside, two loops over the tiles of a block inside, and the depth innermost.",
            "range(top, min(top + 128 * high, rows), 128) are the tiles of one block of rows. Load the tiles of a_t"
            " for all of them, each with the whole depth, before the loop over blocks of columns.",
            "left = {m: [load(a_t[k : k + 128, m : m + 128]) for k in steps] for m in block_rows}, `right` likewise for"
            " block_columns, and then for m in block_rows: for n in block_columns: one tile of the result.",
        ),
    ),
    Task(
        id="21.5",
        title="Step 5, blocks of the depth",
        statement="""\
`matmul_deep(a_t, b, deep)` returns `a_t.T @ b`. It loads `deep` steps of 128 of both matrices at a time, sums up
their products in PSUM, and adds these to float32 sums in SBUF. The last block may have fewer steps.""",
        signature="matmul_deep(a_t, b, deep)",
        inputs=lambda draw, k, m, n, dtype, deep: (*_matrices(draw, k, m, n, dtype), deep),
        reference=_product,
        cases=(
            {**_LARGE, "deep": 4},
            {**_SMALLEST, "deep": 2},
            {**_FLOAT32, "deep": 1},
            {"k": 5, "m": 1, "n": 2, "dtype": "bfloat16", "deep": 3},
        ),
        fresh={**_FRESH, "k": (2, 5), "deep": (1, 3)},
        float32_sums=True,
        mistakes=(
            Mistake(
                _last_block,
                "only the last block of the depth is in the result: sums were overwritten",
                "from the second block on, add: nisa.tensor_tensor with op=nl.add",
            ),
        ),
        limits=Limits(
            transfers=72, transfer_bytes=13312 * _KIB, sbuf_bytes=72 * _KIB, psum_banks=8
        ),
        tiers={"trn1": Tiers(passes=85.0, star=69.0)},
        hints=(
            "The loop over blocks of the depth is outermost; what a block brings is added to the sums.",
            "A block loads whole rows: load(a_t[k : k + 128]) is [128, rows]. The products of its steps go into a new"
            " tile in PSUM. nisa.tensor_copy brings the first block to the sums, nisa.tensor_tensor adds the others.",
            "nisa.nc_matmul(dst=total, stationary=left[i][:, m : m + 128], moving=right[i][:, n : n + 512]), then with"
            " place = sums[row][:, n : n + 512]: nisa.tensor_tensor(dst=place, data1=place, data2=total, op=nl.add).",
        ),
    ),
    Question(
        id="21.6",
        title="FLOP per byte",
        statement="""\
How many FLOP does `matmul_deep` do for each byte that is moved between HBM and SBUF, for a_t [4096, 512] and
b [4096, 1024] in bfloat16? A multiplication and an addition are two.""",
        unit="FLOP per byte",
        truth=lambda run: (
            summary_value("hardware_flops", run) / summary_value("dma_transfer_total_bytes", run)
        ),
        evidence=lambda run: (
            f"{summary_value('hardware_flops', run, 1e-9):.2f} GFLOP and"
            f" {summary_value('dma_transfer_total_bytes', run, 1e-6):.2f} MB"
        ),
        hints=(
            "Both inputs are loaded once and the result is stored once; a bfloat16 has two bytes.",
            "The bytes are 2 * (4096 * 512 + 4096 * 1024 + 512 * 1024).",
            "2 * 4096 * 512 * 1024 / (2 * (4096 * 512 + 4096 * 1024 + 512 * 1024))",
        ),
    ),
)
