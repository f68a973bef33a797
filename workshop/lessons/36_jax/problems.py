"""Exercises of notebook 36, Kernels in JAX."""

from __future__ import annotations

from nki_lab.exercises.problem import Mistake, Task

PROBLEMS = (
    Task(
        id="36.1",
        title="The way back",
        statement="""\
`blend_backward(dout, h, x, g)` returns the gradients of h + g * (x - h) by `h`, by `x` and by `g`, each of the shape of
`h`, given the gradient `dout` of its result. There are at most 128 rows, in float32.""",
        signature="blend_backward(dout, h, x, g)",
        inputs=lambda draw, rows, columns: tuple(draw(rows, columns) for _ in range(4)),
        reference=lambda dout, h, x, g: (dout * (1 - g), dout * g, dout * (x - h)),
        cases=(
            {"rows": 128, "columns": 64},
            {"rows": 5, "columns": 300},
            {"rows": 1, "columns": 1},
        ),
        fresh={"rows": (1, 128), "columns": (1, 300)},
        mistakes=(
            Mistake(
                lambda dout, h, x, g: (dout, dout * g, dout * (x - h)),
                "`h` occurs twice in h + g * (x - h), and only the first was derived",
                "what does the second `h` do to the result when it grows?",
            ),
            Mistake(
                lambda dout, h, x, g: (dout * (1 - g), dout * g, dout * (h - x)),
                "the gradient of `g` has the wrong sign",
                "does the result grow or shrink with `g` where `x` is larger than `h`?",
            ),
        ),
        hints=(
            "Write it as h - g * h + g * x, and derive it by one of the three while the others are numbers.",
            "By h it is 1 - g, by x it is g, by g it is x - h. Each is multiplied by dout.",
            "nl.store(dg, nl.multiply(grad, nl.subtract(new, state)))",
        ),
    ),
)
