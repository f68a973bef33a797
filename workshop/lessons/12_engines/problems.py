"""Exercises of notebook 12, Engines and fused instructions."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.draw import Draw
from nki_lab.exercises.evidence import summary_value
from nki_lab.exercises.problem import Limits, Mistake, Question, Task, Tiers

_ENGINES = {
    "vector": "Vector is busy for the shortest time",
    "scalar": "Scalar is busy for the shortest time",
    "gpsimd": "GpSimd is busy for the shortest time",
}


def _busy_ns(run, engine: str) -> float:
    """Return how long an engine of a run was busy."""
    return summary_value(f"{engine}_engine_active_time", run, 1e9)


def _copies_narrow(run) -> str:
    """Say what is wrong with a run that is not the one of copies(x16)."""
    if any(str(t.dtype) != "bfloat16" for t in run.kernel.outputs):
        return 'this run has copied float32: run the cell with "copies(x16)" first'
    return ""


def _all_busy(run) -> str:
    return ", ".join(f"{engine} {_busy_ns(run, engine):.0f} ns" for engine in _ENGINES)


def _rows_and_columns(draw: Draw, rows: int, columns: int, dtype: str, vectors: int) -> tuple:
    return (draw(rows, columns, dtype=dtype), *(draw(rows, 1) for _ in range(vectors)))


_BOTH_DTYPES = (
    {"rows": 128, "columns": 512, "dtype": "float32"},
    {"rows": 128, "columns": 96, "dtype": "bfloat16"},
    {"rows": 1, "columns": 9, "dtype": "float32"},
)


def _cubic(x, c0, c1, c2, c3):
    return c0 + c1 * x + c2 * x**2 + c3 * x**3


PROBLEMS = (
    Question(
        id="12.1",
        title="The fastest copy",
        statement="""\
`copies(x16)` copies a bfloat16 tile with three engines. Which of them needs the shortest time?""",
        choices=_ENGINES,
        truth=lambda run: min(_ENGINES, key=lambda engine: _busy_ns(run, engine)),
        evidence=_all_busy,
        about=_copies_narrow,
        hints=(
            "Elements of 16 bits are half as large. Does an engine take twice as many of them in a cycle?",
            "Run the cell with copies(x16), then busy(copies_result).",
            "Vector has a fast mode for copies of 16-bit elements in SBUF; the others have none on this chip.",
        ),
    ),
    Task(
        id="12.2",
        title="Scale, shift, function",
        statement="""\
`gate(x, scale, bias)` returns `tanh(scale * x + bias)` for at most 128 rows, in float32 or bfloat16. `scale`
and `bias` are float32 of shape [rows, 1]: one value for each row. One instruction does all of it.""",
        signature="gate(x, scale, bias)",
        inputs=lambda draw, rows, columns, dtype: _rows_and_columns(draw, rows, columns, dtype, 2),
        reference=lambda x, scale, bias: np.tanh(scale * x + bias),
        cases=_BOTH_DTYPES,
        fresh={"rows": (2, 127), "columns": (2, 300)},
        limits=Limits(
            instructions={"scalar": 2, "vector": 0, "gpsimd": 0}, transfers=4, uses=("activation",)
        ),
        mistakes=(
            Mistake(
                lambda x, scale, bias: np.tanh(scale * (x + bias)),
                "the result is tanh(scale * (x + bias)): the bias came first",
                "activation multiplies first, and adds then",
            ),
            Mistake(
                lambda x, scale, bias: scale * np.tanh(x) + bias,
                "the result is scale * tanh(x) + bias: the function came first",
                "the function is the last of the three steps",
            ),
            Mistake(
                lambda x, scale, bias: np.tanh(scale * x),
                "the result is tanh(scale * x): the bias is missing",
            ),
        ),
        hints=(
            "The picture shows which of the three instructions ends with a function.",
            "%nki_explain activation: it has parameters `scale` and `bias`, and both may be tiles of one column.",
            "nisa.activation(dst=tile, op=nl.tanh, data=tile, scale=factor, bias=shift), and nothing else.",
        ),
    ),
    Task(
        id="12.3",
        title="Two operators",
        statement="""\
`hinge(x, margin)` returns `max(margin - x, 0)` for at most 128 rows, in float32 or bfloat16. `margin` is float32
of shape [rows, 1]. One instruction of Vector does both steps.""",
        signature="hinge(x, margin)",
        inputs=lambda draw, rows, columns, dtype: _rows_and_columns(draw, rows, columns, dtype, 1),
        reference=lambda x, margin: np.maximum(margin - x, 0),
        # One element is zero half of the time, as kernels that return zeros are: the smallest case has more of them.
        cases=(*_BOTH_DTYPES[:2], {"rows": 1, "columns": 33, "dtype": "float32"}),
        fresh={"rows": (2, 127), "columns": (2, 300)},
        limits=Limits(
            instructions={"vector": 1, "scalar": 0, "gpsimd": 0},
            transfers=3,
            uses=("tensor_scalar",),
        ),
        mistakes=(
            Mistake(
                lambda x, margin: np.maximum(x - margin, 0),
                "the result is max(x - margin, 0): the difference is the wrong way round",
                "reverse0=True puts operand0 on the left",
            ),
            Mistake(
                lambda x, margin: margin - x,
                "the result is margin - x: negative numbers are still there",
                "op1 and operand1 are the second step",
            ),
            Mistake(
                lambda x, margin: margin - np.maximum(x, 0),
                "the result is margin - max(x, 0): the steps are in the wrong order",
                "op0 is applied first, then op1",
            ),
        ),
        hints=(
            "Two steps: a difference, and a maximum with 0. Which instruction has an op0 and an op1?",
            "tensor_scalar with op0=nl.subtract is x - margin. `reverse0` turns it round.",
            "nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=limit, reverse0=True,"
            " op1=nl.maximum, operand1=0.0)",
        ),
    ),
    Task(
        id="12.4",
        title="A number and a tile",
        statement="""\
`momentum(w, v, g, beta, rate)` returns `new_w, new_v` with `new_v = beta * v + g` and
`new_w = w - rate * new_v`. The three arrays have the same shape, at most 128 rows; `beta` and `rate` are numbers.
Two instructions of Vector do it.""",
        signature="momentum(w, v, g, beta, rate)",
        inputs=lambda draw, rows, columns: (
            *(draw(rows, columns) for _ in "wvg"),
            *map(float, draw.numbers.uniform((0.5, 0.2), (0.95, 0.8))),
        ),
        reference=lambda w, v, g, beta, rate: (w - rate * (beta * v + g), beta * v + g),
        cases=({"rows": 128, "columns": 512}, {"rows": 1, "columns": 3}),
        fresh={"rows": (2, 127), "columns": (2, 300)},
        limits=Limits(
            instructions={"vector": 2, "scalar": 0, "gpsimd": 0},
            transfers=5,
            uses=("scalar_tensor_tensor",),
        ),
        mistakes=(
            Mistake(
                lambda w, v, g, beta, rate: (w - rate * v, beta * v + g),
                "new_w is w - rate * v: it was moved with the old speed",
                "new_w is made of new_v, so new_v comes first",
            ),
            Mistake(
                lambda w, v, g, beta, rate: (w + rate * (beta * v + g), beta * v + g),
                "new_w is w + rate * new_v: the sign is wrong",
                "multiply by -rate, or subtract with reverse1=True",
            ),
            Mistake(
                lambda w, v, g, beta, rate: (rate * (beta * v + g) - w, beta * v + g),
                "new_w is rate * new_v - w: the difference is the wrong way round",
                "reverse1=True puts the tile operand1 on the left",
            ),
        ),
        hints=(
            "Each of the two results is a product with a number, and then a sum with a tile.",
            "new_v: data is v, op0 multiplies by beta, op1 adds the tile g. new_w: the same form, made of new_v.",
            "The second one: data=speed, op0=nl.multiply, operand0=-rate, op1=nl.add, operand1=weight.",
        ),
    ),
    Task(
        id="12.5",
        title="Function and sum",
        statement="""\
`exp_sum(x)` returns two arrays for at most 128 rows in float32 or bfloat16: `exp(x)` in the dtype of `x`, and the
sums of its rows in float32, of shape [rows, 1]. One instruction computes both.""",
        signature="exp_sum(x)",
        inputs=lambda draw, rows, columns, dtype: (draw(rows, columns, dtype=dtype),),
        reference=lambda x: (np.exp(x), np.exp(x).sum(axis=1, keepdims=True)),
        cases=_BOTH_DTYPES,
        fresh={"rows": (2, 127), "columns": (2, 300)},
        limits=Limits(instructions={"scalar": 3, "vector": 0, "gpsimd": 0}, transfers=3),
        mistakes=(
            Mistake(
                lambda x: (np.exp(x), x.sum(axis=1, keepdims=True)),
                "the second result is the sum of x, not of exp(x)",
                "the sum is to be that of what the instruction writes",
            ),
            Mistake(
                lambda x: (np.exp(x), np.exp(x).mean(axis=1, keepdims=True)),
                "the second result is the mean of each row, not its sum",
            ),
        ),
        hints=(
            "`energy` above does it for squares, with two instructions. Here one is enough.",
            "reduce_cmd=nisa.reduce_cmd.reset_reduce begins with this instruction; reduce_res is read out after it.",
            "nisa.activation(dst=tile, op=nl.exp, data=tile, reduce_op=nl.add,"
            " reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=sums), sums a float32 tile of one column.",
        ),
    ),
    Task(
        id="12.6",
        title="Two engines share",
        statement="""\
`cubic(x, c0, c1, c2, c3)` returns `c0 + c1 * x + c2 * x**2 + c3 * x**3` for at most 128 rows in float32; the four
coefficients are numbers. Work piece by piece, so that the transfers overlap with the arithmetic.""",
        signature="cubic(x, c0, c1, c2, c3)",
        inputs=lambda draw, rows, columns: (draw(rows, columns), *map(float, draw(4) + 0.25)),
        reference=_cubic,
        cases=(
            {"rows": 128, "columns": 4096},
            {"rows": 1, "columns": 7},
            {"rows": 128, "columns": 513},
        ),
        fresh={"rows": (2, 127), "columns": (2, 1300)},
        rtol=1e-4,
        tiers={"trn2": Tiers(passes=25.5, star=18.5)},
        mistakes=(
            Mistake(
                lambda x, c0, c1, c2, c3: _cubic(x, c3, c2, c1, c0),
                "the coefficients are in the opposite order",
                "the first multiplication is by c3, and the last addition of c0",
            ),
            Mistake(
                lambda x, c0, c1, c2, c3: _cubic(x, 0, c1, c2, c3),
                "c0 is missing",
            ),
            Mistake(
                lambda x, c0, c1, c2, c3: _cubic(x, c0, c1, 0, c3),
                "the term with x**2 is missing",
            ),
        ),
        hints=(
            "`y + c2` and then `* tile` are two steps. Which instruction takes a number, and then a tile?",
            "scalar_tensor_tensor with op0=nl.add, op1=nl.multiply does two steps. The first and the last step have"
            " no tile: Scalar can do them.",
            "For each piece: activation(op=nl.copy, data=tile, scale=c3), two scalar_tensor_tensor (adding c2, then c1,"
            " each times the tile), activation(op=nl.copy, bias=c0).",
        ),
    ),
)
