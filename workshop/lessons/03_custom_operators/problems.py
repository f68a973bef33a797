"""Exercises of notebook 03, Custom operators."""

from __future__ import annotations

import numpy as np

from nki_lab.exercises.problem import Mistake, Question, Task

_ARGUMENTS = {
    "x": "the gradient of `x` is wrong",
    "w": "the gradient of `w` is wrong",
    "b": "the gradient of `b` is wrong",
}


def _product(dout, a, b):
    return dout * b * (2 * a + b), dout * a * (2 * b + a)


def _norm_inputs(draw, rows, columns):
    x = draw(rows, columns)
    rstd = 1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=1, keepdims=True) + 1e-6)
    return draw(rows, columns), x, draw(columns), rstd.astype(np.float32)


def _norm(dout, x, gamma, rstd):
    normal, h = x * rstd, dout * gamma
    mean = np.mean(h * normal, axis=1, keepdims=True)
    return rstd * (h - normal * mean), np.sum(dout * normal, axis=0)


def _excess(run) -> dict[str, float]:
    """Return by how many percent each gradient of a run of `bend_backward` is too large."""
    dout, x, w, out = (a.astype(np.float64) for a in run.inputs)
    h = dout * (1 - out**2)
    right = {"x": h * w, "w": np.sum(h * x, axis=0), "b": np.sum(h, axis=0)}
    return {
        name: float(100 * (np.sum(found * wanted) / np.sum(wanted**2) - 1))
        for (name, wanted), found in zip(right.items(), run.outputs, strict=True)
    }


def _worst(run) -> str:
    excess = _excess(run)
    return max(excess, key=lambda name: abs(excess[name]))


def _is_of_bend(run) -> str:
    return (
        "" if run.name == "bend_backward" else f"this is a run of {run.name}, not of bend_backward"
    )


PROBLEMS = (
    Task(
        id="03.1",
        title="The way back",
        statement="""\
`product_backward(dout, a, b)` returns `dout` times the derivative of (a + b) * a * b by `a`, and `dout` times
its derivative by `b`. All have the same shape, at most 128 rows, in float32.""",
        signature="product_backward(dout, a, b)",
        inputs=lambda draw, rows, columns: tuple(draw(rows, columns) for _ in range(3)),
        reference=_product,
        cases=(
            {"rows": 128, "columns": 96},
            {"rows": 37, "columns": 5},
            {"rows": 1, "columns": 1},
        ),
        fresh={"rows": (1, 128), "columns": (1, 300)},
        mistakes=(
            Mistake(
                lambda dout, a, b: tuple(part / dout for part in _product(dout, a, b)),
                "these are the derivatives alone, and the gradient of the result is not in them",
                "how does the loss change with `out`, and `out` with `a`? What follows for the loss and `a`?",
            ),
            Mistake(
                lambda dout, a, b: _product(dout, a, b)[::-1],
                "the two gradients are exchanged",
                "the gradient by `a` is returned first",
            ),
            Mistake(
                lambda dout, a, b: (dout * (a + b) * b, dout * (a + b) * a),
                "the sum `a + b` was taken for a constant, but it changes with both arguments",
                "write (a + b) * a * b as a² * b + a * b², and derive each term",
            ),
        ),
        hints=(
            "Write (a + b) * a * b as a² * b + a * b². What is its derivative by a, if b is a number?",
            "By a it is 2 * a * b + b², by b it is a² + 2 * a * b. Each is multiplied by dout.",
            "nl.store(da, nl.multiply(tile_dout, nl.multiply(tile_b, nl.add(nl.multiply(tile_a, 2.0), tile_b))))",
        ),
    ),
    Task(
        id="03.2",
        title="RMSNorm, backward",
        statement="""\
`rmsnorm_backward(dout, x, gamma, rstd)` returns the gradients of RMSNorm by `x` and `gamma`. With normal = x * rstd
and h = dout * gamma, dx = rstd * (h - normal * mean(h * normal)), the mean of each row, and dgamma = sum(dout * normal)
over the rows. There are at most 128 rows and 512 columns, in float32.""",
        signature="rmsnorm_backward(dout, x, gamma, rstd)",
        inputs=_norm_inputs,
        reference=_norm,
        cases=(
            {"rows": 128, "columns": 256},
            {"rows": 21, "columns": 130},
            {"rows": 2, "columns": 12},
        ),
        fresh={"rows": (2, 128), "columns": (20, 400)},
        rtol=1e-4,
        mistakes=(
            Mistake(
                lambda dout, x, gamma, rstd: (rstd * dout * gamma, _norm(dout, x, gamma, rstd)[1]),
                "`rstd` was taken for a constant, but it changes with every element of its row",
                "the part normal * mean(h * normal) is missing in dx",
            ),
            Mistake(
                lambda dout, x, gamma, rstd: _norm(dout, x, np.ones_like(gamma), rstd),
                "`gamma` is missing in dx",
                "dx is made of h = dout * gamma, not of dout",
            ),
        ),
        hints=(
            "normal and h are products of two tiles; nl.mean(..., axis=1, keepdims=True) is one number in each row.",
            "nl.broadcast_to(mean, x.shape) repeats that number along its row, so that it can be multiplied by a tile.",
            "nisa.nc_matmul(dst=total, stationary=ones, moving=nl.multiply(grad, normal)) adds up the rows.",
        ),
    ),
    Question(
        id="03.3",
        title="Which gradient is wrong",
        statement="""\
`bend_backward` returns the gradients of tanh(x * w + b) by `x`, `w` and `b`, and one of them is wrong. Which?""",
        choices=_ARGUMENTS,
        truth=_worst,
        about=_is_of_bend,
        evidence=lambda run: f"the gradient of `{_worst(run)}` is not that of the formula",
        hints=(
            "The cell before prints what check_op has found. Read the line of `backward`.",
            "check_op names the first gradient that differs, by the argument it belongs to.",
            "The sum over the rows has a factor that the formula does not have: it is the one for `w`.",
        ),
    ),
    Question(
        id="03.4",
        title="By how much",
        statement="""\
By how many percent is the wrong gradient of `bend_backward` too large in the run of 21 rows? A negative number says
that it is too small.""",
        unit="percent",
        truth=lambda run: _excess(run)[_worst(run)],
        about=_is_of_bend,
        evidence=lambda run: (
            f"the gradient of `{_worst(run)}` is {_excess(run)[_worst(run)]:.1f} % too large"
        ),
        hints=(
            "check_op says how far the gradient is off, as a part of its largest element.",
            "Every element is off by the same factor: rows / (rows - 1).",
            "With 21 rows that is 21 / 20 = 1.05.",
        ),
    ),
)
