"""Exercises of notebook 01, First kernel."""

from __future__ import annotations

from nki_lab.exercises.evidence import BOTTLENECKS, bottleneck, busy_shares
from nki_lab.exercises.problem import Limits, Mistake, Question, Task, Tiers

PROBLEMS = (
    Task(
        id="01.1",
        title="Twice the sum",
        statement="""\
`scaled_sum(a, b)` returns `2 * (a + b)` for arrays of at most 128 rows and any number of columns.""",
        signature="scaled_sum(a, b)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), draw(rows, columns)),
        reference=lambda a, b: 2 * (a + b),
        cases=({"rows": 128, "columns": 512}, {"rows": 1, "columns": 7}),
        fresh={"rows": (2, 127), "columns": (2, 300)},
        mistakes=(
            Mistake(
                lambda a, b: a + b,
                "the result is a + b: the factor 2 is missing",
                "between the addition and the store one more instruction is needed",
            ),
            Mistake(
                lambda a, b: 2 * a + b,
                "the result is 2 * a + b: only `a` is doubled",
                "double the sum, not one of its parts",
            ),
        ),
        hints=(
            "The skeleton adds. What is missing is one instruction that multiplies a tile by a number.",
            "nisa.tensor_scalar multiplies a tile by a number: op0=nl.multiply, operand0=2.0.",
            "nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=2.0), before the store.",
        ),
    ),
    Task(
        id="01.2",
        title="Any number of rows",
        statement="""\
`add_rows(a, b)` returns `a + b` for any number of rows. A tile has at most 128 of them, so the arrays
are cut into tiles of 128 rows, and the last tile has what is left.""",
        signature="add_rows(a, b)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), draw(rows, columns)),
        reference=lambda a, b: a + b,
        cases=(
            {"rows": 512, "columns": 512},
            {"rows": 1, "columns": 5},
            {"rows": 128, "columns": 3},
            {"rows": 129, "columns": 4},
        ),
        fresh={"rows": (130, 500), "columns": (2, 64)},
        limits=Limits(instructions={"vector": 4}, transfers=12, avoids=("dma_compute",)),
        tiers={"trn2": Tiers(passes=16.0, star=12.5)},
        hints=(
            "How many tiles are there, and which rows does tile number i hold? Print them for 300 rows first.",
            "for start in range(0, rows, 128): the tile ends at min(start + 128, rows), since NKI does not"
            " shorten slices.",
            "In the loop: stop = min(start + 128, rows), tiles of shape (stop - start, columns), loads of"
            " a[start:stop] and b[start:stop], and a store to out[start:stop].",
        ),
    ),
    Task(
        id="01.3",
        title="The distance from one",
        statement="""\
`distance(x)` returns `|x - 1|`, element by element, for an array of at most 128 rows in float32 or
bfloat16. The result has the dtype of `x`.""",
        signature="distance(x)",
        inputs=lambda draw, rows, columns, dtype: (draw(rows, columns, dtype=dtype),),
        reference=lambda x: abs(x - 1),
        cases=(
            {"rows": 128, "columns": 256, "dtype": "float32"},
            {"rows": 128, "columns": 256, "dtype": "bfloat16"},
            {"rows": 1, "columns": 1, "dtype": "float32"},
        ),
        fresh={"rows": (2, 127), "columns": (2, 300)},
        mistakes=(
            Mistake(
                lambda x: x - 1, "the result is x - 1: the sign is still there", "what is |-2|?"
            ),
            Mistake(
                lambda x: abs(x) - 1,
                "the result is |x| - 1: the two steps are in the wrong order",
                "op0 is applied first, then op1",
            ),
        ),
        limits=Limits(transfers=2),
        hints=(
            "Two steps: subtract 1, then take away the sign. %nki_explain tensor_scalar shows that one"
            " instruction can do two.",
            "A number without its sign is the larger one of the number and its negative, or nl.abs of a tile.",
            "nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=1.0), and then"
            " nisa.activation(dst=tile, op=nl.abs, data=tile).",
        ),
    ),
    Question(
        id="01.4",
        title="What four tiles wait for",
        statement="""\
Of which engine, or of the DMA, would `add_tiles` with 512 rows become faster, if that one alone became
twice as fast? `%nki_profile add_tiles_result` shows who is busy.""",
        choices=BOTTLENECKS,
        truth=bottleneck,
        evidence=busy_shares,
        hints=(
            "Look at the line `bound by` of the report.",
            "Compare the column `share` of the engines with the one of DMA.",
            "The report says: DMA, busy three quarters of the time.",
        ),
    ),
)
