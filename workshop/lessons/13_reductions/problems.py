"""Exercises of notebook 13, Reductions."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.draw import Draw
from nki_lab.exercises.problem import Limits, Mistake, Task, Tiers


def _softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _some_rows_negative(draw: Draw, rows: int, columns: int, scale: float = 1.0) -> tuple:
    """Return numbers of both signs, but every third row, from the last one up, has none above zero.

    With another `scale` no row has.
    """
    x = draw(rows, columns)
    x[::-3] -= 9
    return (x if scale == 1 else -scale * (1 + abs(x)),)


def _rmsnorm(x, w, eps):
    return x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + eps) * w


def _layernorm(x, eps):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + eps)


def _backward(y, dy):
    return y * (dy - (y * dy).sum(axis=1, keepdims=True))


def _softmax_and_slope(draw: Draw, rows: int, columns: int, dtype: str) -> tuple:
    slope = draw(rows, columns, dtype=dtype)
    return _softmax(draw(rows, columns)).astype(slope.dtype), slope


PROBLEMS = (
    Task(
        id="13.1",
        title="The largest of a long row",
        statement="""\
`row_max(x)` returns the largest number of each row, shape [rows, 1], for at most 128 rows in float32 and any number
of columns: also for more than fit into a partition of SBUF.""",
        signature="row_max(x)",
        inputs=_some_rows_negative,
        reference=lambda x: x.max(axis=1, keepdims=True),
        cases=(
            {"rows": 128, "columns": 1024},
            {"rows": 16, "columns": 40},
            {"rows": 3, "columns": 70000},
            {"rows": 2, "columns": 16384},
            {"rows": 1, "columns": 1},
            {"rows": 9, "columns": 50, "scale": 1e36},
        ),
        fresh={"rows": (2, 127), "columns": (2, 9000)},
        mistakes=(
            Mistake(
                lambda x: np.maximum(x.max(axis=1, keepdims=True), 0),
                "rows whose numbers are all negative have the maximum 0",
                "start from the maximum of the first piece, not from zero",
            ),
            Mistake(
                lambda x: abs(x).max(axis=1, keepdims=True),
                "the result is the largest magnitude, not the largest number",
            ),
            Mistake(
                lambda x: x.min(axis=1, keepdims=True),
                "the result is the smallest number of each row",
            ),
        ),
        hints=(
            "How many pieces of 8192 columns are there, and how long is the last one?",
            "Make a tile `largest` with a column for each piece. tensor_reduce(op=nl.maximum, axis=1) of a piece writes"
            " one column, and of `largest` the result.",
            "for piece in range((columns + 8191) // 8192): load x[:, start:stop] with stop = min(start + 8192,"
            " columns), and reduce it into largest[:, piece : piece + 1]. Then reduce `largest` along axis 1.",
        ),
    ),
    Task(
        id="13.2",
        title="Sums down the columns",
        statement="""\
`column_sum(x)` returns the sum of each column, shape [1, columns], for any number of rows and at most 512 columns, in
float32 or bfloat16. Products with a column of ones do it, and add up in PSUM.""",
        signature="column_sum(x)",
        inputs=lambda draw, rows, columns, dtype: (draw(rows, columns, dtype=dtype),),
        reference=lambda x: x.sum(axis=0, keepdims=True),
        cases=(
            {"rows": 512, "columns": 256, "dtype": "float32"},
            {"rows": 130, "columns": 512, "dtype": "bfloat16"},
            {"rows": 1, "columns": 3, "dtype": "float32"},
        ),
        fresh={"rows": (129, 400), "columns": (2, 300)},
        limits=Limits(instructions={"gpsimd": 0}, transfers=5, psum_banks=1, uses=("nc_matmul",)),
        mistakes=(
            Mistake(
                lambda x: x[(len(x) - 1) // 128 * 128 :].sum(axis=0, keepdims=True),
                "the result is the sum of the last tile only",
                "accumulate=False forgets what was added before; leave it out, or pass True after the first tile",
            ),
            Mistake(
                lambda x: x[:128].sum(axis=0, keepdims=True),
                "the result is the sum of the first 128 rows only",
                "is every tile multiplied, and added to the same place?",
            ),
            Mistake(
                lambda x: x.mean(axis=0, keepdims=True),
                "the result is the mean of each column, not its sum",
            ),
        ),
        hints=(
            "Two lines that compute are missing: one loads a tile of `size` rows, one multiplies it.",
            "nc_matmul(dst=total, stationary=ones, moving=tile) adds to `total` from the second time on. The last tile"
            " may have fewer rows: stationary=ones[0:size].",
            "tile = nl.ndarray((size, columns), dtype=x.dtype, buffer=nl.sbuf); nisa.dma_copy(dst=tile,"
            " src=x[start : start + size]); nisa.nc_matmul(dst=total, stationary=ones[0:size], moving=tile)",
        ),
    ),
    Task(
        id="13.3",
        title="A stable softmax",
        statement="""\
`softmax(x)` returns the softmax of each row, `exp(x) / sum(exp(x))`, for any number of rows in float32 or bfloat16,
also where the numbers lie around 10 000 and -10 000.""",
        signature="softmax(x)",
        inputs=lambda draw, rows, columns, scale, dtype: (
            draw(rows, columns, scale=scale, dtype=dtype),
        ),
        reference=_softmax,
        cases=(
            {"rows": 512, "columns": 1024, "scale": 1.0, "dtype": "float32"},
            {"rows": 129, "columns": 100, "scale": 1e4, "dtype": "float32"},
            {"rows": 128, "columns": 256, "scale": 1.0, "dtype": "bfloat16"},
            {"rows": 1, "columns": 2, "scale": 1.0, "dtype": "float32"},
        ),
        fresh={"rows": (2, 200), "columns": (2, 200)},
        tiers={"trn2": Tiers(passes=32.0, star=18.0)},
        mistakes=(
            Mistake(
                lambda x: np.exp(x - x.max(axis=1, keepdims=True)),
                "the rows do not add up to 1: the division is missing",
            ),
            Mistake(
                lambda x: _softmax(-x),
                "the result is the softmax of -x",
                "which of x and max(x) is subtracted from the other?",
            ),
        ),
        hints=(
            "Four steps for each tile: maximum of a row, exp of the difference, sum, quotient.",
            "tensor_reduce(op=nl.maximum, axis=1, negate=True) gives a column that activation takes as `bias`; with"
            " reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=total it adds up, too.",
            "After that: nisa.reciprocal of the column `total`, and tensor_scalar with op0=nl.multiply and that column."
            " Keep exponentials and sums in float32.",
        ),
    ),
    Task(
        id="13.4",
        title="RMSNorm",
        statement="""\
`rmsnorm(x, w, eps)` returns `x / sqrt(mean(x**2) + eps) * w`, the mean over each row, for at most 128 rows; `w` has one
row. Both are float32, or both bfloat16; sums are kept in float32. `eps` is a number.""",
        signature="rmsnorm(x, w, eps)",
        inputs=lambda draw, rows, columns, scale, dtype: (
            draw(rows, columns, scale=scale, dtype=dtype),
            draw(1, columns, dtype=dtype),
            1e-3,
        ),
        reference=_rmsnorm,
        cases=(
            {"rows": 128, "columns": 1024, "scale": 3.0, "dtype": "float32"},
            {"rows": 128, "columns": 1024, "scale": 3.0, "dtype": "bfloat16"},
            {"rows": 64, "columns": 100, "scale": 0.02, "dtype": "float32"},
            {"rows": 1, "columns": 1, "scale": 1.0, "dtype": "float32"},
        ),
        fresh={"rows": (2, 127), "columns": (2, 300)},
        float32_sums=True,
        limits=Limits(transfers=3, instructions={"vector": 5}),
        mistakes=(
            Mistake(
                lambda x, w, eps: _rmsnorm(x, w, 0.0),
                "eps is missing under the root",
                "the bias of activation is added before its function",
            ),
            Mistake(
                lambda x, w, eps: x / np.sqrt(np.square(x).sum(axis=1, keepdims=True) + eps) * w,
                "the root is taken of the sum of squares, not of their mean",
                "multiply by 1 / columns: `scale` of activation does it on the way",
            ),
            Mistake(
                lambda x, w, eps: _rmsnorm(x, 1.0, eps),
                "the weights `w` are missing",
            ),
            Mistake(
                lambda x, w, eps: _layernorm(x, eps) * w,
                "the mean is subtracted: that is LayerNorm",
            ),
        ),
        hints=(
            "The skeleton names three steps. Each of them can be one instruction; the second needs a tile for eps.",
            "activation with nl.square and reduce_res gives the sum; activation with nl.rsqrt, scale=1 / columns and a"
            " bias that holds eps gives the factor.",
            "The third step is scalar_tensor_tensor: data=tile, op0=nl.multiply, operand0=factor, op1=nl.multiply,"
            " operand1=weight. `squares`, the sum and the factor are float32, `result` has the dtype of x.",
        ),
    ),
    Task(
        id="13.5",
        title="LayerNorm, far from zero",
        statement="""\
`layernorm(x, eps)` returns `(x - mean) / sqrt(variance + eps)`, both of each row, for at most 128 rows and at most 512
columns in float32: also where the mean is 1000 and the variance small.""",
        signature="layernorm(x, eps)",
        inputs=lambda draw, rows, columns, shift, scale: (
            draw(rows, columns, shift=shift, scale=scale),
            1e-4,
        ),
        reference=_layernorm,
        cases=(
            {"rows": 128, "columns": 512, "shift": 1000.0, "scale": 0.2},
            {"rows": 100, "columns": 333, "shift": -5.0, "scale": 2.0},
            {"rows": 64, "columns": 100, "shift": 0.0, "scale": 0.01},
            {"rows": 1, "columns": 2, "shift": 0.0, "scale": 1.0},
        ),
        fresh={"rows": (2, 127), "columns": (16, 300)},
        # In float32, the mean of numbers around 1000 is off by up to 3e-5: a ten-thousandth of their deviation.
        rtol=5e-3,
        limits=Limits(transfers=2),
        mistakes=(
            Mistake(
                lambda x, eps: x / np.sqrt(x.var(axis=1, keepdims=True) + eps),
                "the mean is still there",
            ),
            Mistake(
                lambda x, eps: x - x.mean(axis=1, keepdims=True),
                "the mean is gone, and the standard deviation is not divided by",
            ),
            Mistake(
                lambda x, eps: (
                    (x - x.mean(axis=1, keepdims=True)) / (x.var(axis=1, keepdims=True) + eps)
                ),
                "the result is divided by the variance, not by its root",
            ),
            Mistake(
                lambda x, eps: _layernorm(x, 0.0),
                "eps is missing under the root",
            ),
        ),
        hints=(
            "mean(x²) - mean(x)² loses all digits here. Subtract the mean first, or let bn_stats do it.",
            "bn_stats(dst=parts, data=tile) needs parts of shape [rows, 6], and bn_aggr(dst=moments, data=parts)"
            " moments of shape [rows, 2]: mean and variance. All in float32.",
            "factor = rsqrt of moments[:, 1:2] with a bias that holds eps; then tensor_scalar with op0=nl.subtract,"
            " operand0=moments[:, 0:1], op1=nl.multiply, operand1=factor.",
        ),
    ),
    Task(
        id="13.6",
        title="The way back",
        statement="""\
`softmax_backward(y, dy)` returns `y * (dy - sum(y * dy))`, the sum over each row: the gradient of a softmax `y`. At
most 128 rows, in float32 or bfloat16, in three instructions of Vector.""",
        signature="softmax_backward(y, dy)",
        inputs=_softmax_and_slope,
        reference=_backward,
        cases=(
            {"rows": 128, "columns": 512, "dtype": "float32"},
            {"rows": 128, "columns": 64, "dtype": "bfloat16"},
            {"rows": 1, "columns": 33, "dtype": "float32"},
        ),
        fresh={"rows": (2, 127), "columns": (16, 300)},
        limits=Limits(transfers=3, instructions={"vector": 3}),
        mistakes=(
            Mistake(
                lambda y, dy: y * dy,
                "the result is y * dy: the sum is missing",
            ),
            Mistake(
                lambda y, dy: y * dy - (y * dy).sum(axis=1, keepdims=True),
                "the result is y * dy - sum: the sum is to be multiplied by y, too",
            ),
            Mistake(
                lambda y, dy: y * (dy - dy.sum(axis=1, keepdims=True)),
                "the sum is that of dy, not of y * dy",
            ),
        ),
        hints=(
            "A product, its sum over each row, and one instruction that subtracts and multiplies.",
            "tensor_tensor for the product, tensor_reduce with op=nl.add for the sum, both into float32 tiles. Which"
            " instruction takes a column and then a tile?",
            "scalar_tensor_tensor(dst=change, data=slope, op0=nl.subtract, operand0=total, op1=nl.multiply,"
            " operand1=result), where slope holds dy and result holds y.",
        ),
    ),
)
