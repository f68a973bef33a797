"""Exercises of notebook 25, Allocation and scheduling."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.problem import Cause, Limits, Mistake, Places, Task, Tiers

_BANK = 2048

PROBLEMS = (
    Places(
        id="25.1",
        title="Bank 3",
        statement="""\
PSUM has 8 banks of 2048 bytes in each of its 128 partitions. As an array of bytes [128, 16384]: which slice of it
is bank 3, counted from 0, in all partitions?""",
        sizes=({"bank": 3},),
        shape=lambda bank: (128, 8 * _BANK),
        wanted=lambda bank: np.s_[:, bank * _BANK : (bank + 1) * _BANK],
        dtype="uint8",
        hints=(
            "Each bank begins where the one before it ends, and bank 0 begins at byte 0.",
            "All partitions, and 2048 bytes from byte 3 * 2048 on.",
            "np.s_[:, 3 * 2048 : 4 * 2048]",
        ),
    ),
    Task(
        id="25.2",
        title="Five tiles, three places",
        statement="""\
`blend_small(x, y)` returns `(x + y) * exp(y)` for arrays of at most 128 rows and 512 columns in float32. No tile
lies behind byte 6144 of its partitions.""",
        signature="blend_small(x, y)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), draw(rows, columns)),
        reference=lambda x, y: (x + y) * np.exp(y),
        cases=({"rows": 128, "columns": 512}, {"rows": 1, "columns": 1}),
        fresh={"rows": (2, 127), "columns": (2, 500)},
        rtol=1e-4,
        mistakes=(
            Mistake(
                lambda x, y: (x + y) * np.exp(x + y),
                "the exponential is that of the sum: it reads a place that was written again",
                "a place is free after the last read of its tile, not before",
            ),
            Mistake(
                lambda x, y: (x + y) * np.exp(x),
                "the exponential is that of x: it reads the tile of the other input",
                "exp(y), so the activation reads the tile that y was loaded into",
            ),
        ),
        limits=Limits(transfers=3, sbuf_end=3 * 2048),
        hints=(
            "Write down for each tile the lines of its first write and its last read. Which ones never meet?",
            "`left` is read last by the addition, `right` by the exponential. Their places are free after that.",
            "total at byte 4096, grown at 0 where `left` was, product at 2048 where `right` was.",
        ),
    ),
    Places(
        id="25.3",
        title="Taking turns",
        statement="""\
Tile number i (from 0) uses place i % count. Places lie one behind the other from byte 0 on, each of `size` bytes. Which
bytes of an SBUF of [128, 16384] does tile i take, in all partitions? A function of i, count and size.""",
        sizes=(
            {"i": 0, "count": 2, "size": 2048},
            {"i": 3, "count": 2, "size": 2048},
            {"i": 7, "count": 4, "size": 1024},
            {"i": 5, "count": 3, "size": 4096},
            {"i": 2, "count": 1, "size": 512},
        ),
        shape=lambda i, count, size: (128, 16384),
        wanted=lambda i, count, size: np.s_[:, i % count * size : (i % count + 1) * size],
        dtype="uint8",
        hints=(
            "Which place does tile i have? At which byte does that place begin?",
            "The place is i % count, it begins at i % count * size and has `size` bytes.",
            "lambda i, count, size: np.s_[:, i % count * size : i % count * size + size]",
        ),
    ),
    Task(
        id="25.4",
        title="A stream in 16 KiB",
        statement="""\
`squares_plus(x)` returns `x * x + x` for an array of at most 128 rows and any number of columns in float32. No tile
lies behind byte 16384 of its partitions.""",
        signature="squares_plus(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=lambda x: x * x + x,
        cases=(
            {"rows": 128, "columns": 8192},
            {"rows": 1, "columns": 1},
            {"rows": 100, "columns": 1300},
        ),
        fresh={"rows": (2, 127), "columns": (500, 2000)},
        mistakes=(
            Mistake(
                lambda x: x * x,
                "the result is x * x: the second step is missing",
                "add the tile that was loaded to the product",
            ),
            Mistake(
                lambda x: (x + x) * x,
                "the result is (x + x) * x: the two steps are in the wrong order",
                "multiply first, then add",
            ),
        ),
        limits=Limits(sbuf_end=16384),
        tiers={"trn2": Tiers(passes=45.0, star=31.0)},
        hints=(
            "`exp_places` with another computation, and with a last piece that may be shorter.",
            "16 KiB are four places of 4096 bytes: 2048 for what was loaded, 2048 for the result.",
            "byte = i % 4 * 4096; tile at (0, byte), total at (0, byte + 2048), both of (rows, stop - start) with"
            " stop = min(start + 512, columns).",
        ),
    ),
    Task(
        id="25.5",
        title="Two banks",
        statement="""\
`matmul_banks(a_t, b)` returns `a_t.T @ b` in float32 for a_t [128, rows] with at most 128 rows and b [128, columns]
with a multiple of 512 columns, and uses at most two banks of PSUM at the same time.""",
        signature="matmul_banks(a_t, b)",
        inputs=lambda draw, rows, tiles: (
            draw(128, rows, dtype="bfloat16"),
            draw(128, 512 * tiles, dtype="bfloat16"),
        ),
        reference=lambda a_t, b: a_t.T @ b,
        dtype="float32",
        cases=({"rows": 128, "tiles": 16}, {"rows": 1, "tiles": 1}, {"rows": 70, "tiles": 3}),
        fresh={"rows": (2, 127), "tiles": (2, 5)},
        mistakes=(
            Mistake(
                lambda a_t, b: np.tile(a_t.T @ b[:, -512:], b.shape[1] // 512),
                "all columns are those of the last tile",
                "each tile of `b` needs a product and a store of its own",
            ),
        ),
        limits=Limits(psum_banks=2, uses=("nc_matmul",)),
        tiers={"trn2": Tiers(passes=26.0, star=23.5)},
        hints=(
            "Product i goes to bank i % 2. Which byte does bank 1 begin at?",
            "total = nl.ndarray((rows, 512), dtype=nl.float32, buffer=nl.psum, address=(0, 2048 * (i % 2)))",
            "In the loop over tiles of 512 columns: load a tile of b, nc_matmul into its bank, tensor_copy to a tile in"
            " SBUF, and a store. Load a_t once, before the loop.",
        ),
    ),
    Task(
        id="25.6",
        title="Four places that are one",
        statement="""\
`slow_squares(x)` returns `x * x` for a multiple of 512 columns in float32. It is right and uses four places, but each
load waits for the store before it. Name the cause, then mend it: no tile behind byte 8192.""",
        signature="slow_squares(x)",
        inputs=lambda draw, rows, tiles: (draw(rows, 512 * tiles),),
        reference=lambda x: x * x,
        cases=({"rows": 128, "tiles": 16}, {"rows": 1, "tiles": 1}, {"rows": 128, "tiles": 5}),
        fresh={"rows": (2, 127), "tiles": (2, 4)},
        limits=Limits(sbuf_end=8192),
        tiers={"trn2": Tiers(passes=45.0, star=30.0)},
        cause=Cause(
            "step",
            {
                "step": "the step from place to place is in elements and not in bytes, so that places overlap",
                "order": "the instructions are kept in the order of the program",
                "bank": "all tiles lie in the same bank",
                "descriptors": "the transfers have short descriptors",
            },
        ),
        hints=(
            'The causes to choose from: "step", the step between places is too short; "order", instructions are kept in'
            ' order; "bank", all tiles lie in one bank; "descriptors", the transfers are cut into short pieces.',
            "The first tile takes bytes 0 to 2048. Where does the second one begin?",
            "A tile has 512 float32 numbers, that are 2048 bytes: address=(0, i % 4 * size * 4).",
        ),
    ),
)
