"""Exercises of notebook 02, Prebuilt kernels."""

from __future__ import annotations

from functools import cache

import numpy as np

from nki_lab import kernels
from nki_lab.exercises.problem import Mistake, Question, Task

_LENGTHS = ("128", "256", "512", "1024", "2048")
_SHARE = 0.25


def _attention(q, k, v):
    scores = q.swapaxes(2, 3) @ k / q.shape[2] ** 0.5
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    return weights / weights.sum(axis=3, keepdims=True) @ v


def _both(keys: int, d: int):
    """Return a run of standard and of flash attention."""
    size = {"heads": 1, "kv_heads": 1, "keys": keys, "d": d, "causal": 0}
    names = ("standard_attention", "flash_attention")
    return [kernels.get(name).run(size, target="trn2") for name in names]


def _ratio(runs) -> float:
    standard, flash = (run.roofline().hbm_bytes for run in runs)
    return float(standard / flash)


@cache
def _compared():
    return kernels.compare("attention", target="trn2")


def _shares(chart) -> dict[str, float]:
    """Return flash attention's part of the time of standard attention, by the number of keys."""
    standard, flash = (chart.of(name) for name in ("standard_attention", "flash_attention"))
    return {str(s.size): f.time_us / s.time_us for s, f in zip(standard, flash, strict=True)}


PROBLEMS = (
    Task(
        id="02.1",
        title="How v lies",
        statement="""\
`attend(q, k, v)` returns attention without a mask by a call of `kernels.flash_fwd`, for `q` [batch, heads, d,
queries], `k` [batch, heads, d, keys] and `v` [batch, heads, keys, d].""",
        signature="attend(q, k, v)",
        inputs=lambda draw, heads, d, keys: (
            draw(1, heads, d, 128),
            draw(1, heads, d, keys),
            draw(1, heads, keys, d),
        ),
        reference=_attention,
        cases=(
            {"heads": 2, "d": 128, "keys": 128},
            {"heads": 1, "d": 48, "keys": 200},
        ),
        fresh={"heads": (1, 3), "d": (2, 64), "keys": (100, 300)},
        rtol=1e-4,
        mistakes=(
            Mistake(
                lambda q, k, v: _attention(q, k, v.swapaxes(2, 3)),
                "rows and columns of `v` were exchanged: the kernel took it as [batch, heads, d, keys]",
                "which of the two layouts does `should_transpose_v` stand for?",
            ),
        ),
        hints=(
            "kernels.get('flash_fwd').kernel.__doc__ says what each argument and the configuration mean.",
            "should_transpose_v=True says that v is [batch, heads, d, keys], which the kernel then turns.",
            "return kernels.flash_fwd(q, k, v, None, use_causal_mask=False, mixed_precision=False,"
            " config=FlashConfig(training=False))",
        ),
    ),
    Question(
        id="02.2",
        title="The ratio",
        statement="""\
`traffic_ratio(keys, d)` returns how many bytes standard attention moves from and to HBM for each byte that
flash attention moves, for one head with as many queries as keys.""",
        unit="bytes for each byte",
        sizes=({"keys": 384, "d": 128}, {"keys": 200, "d": 40}, {"keys": 130, "d": 96}),
        run=_both,
        truth=_ratio,
        evidence=lambda runs: (
            f"{runs[0].roofline().hbm_bytes:,} bytes by {runs[1].roofline().hbm_bytes:,},"
            f" {_ratio(runs):.4g} for each"
        ),
        rtol=1e-6,
        hints=(
            "q, k, v and the result have keys * d numbers each, and cross once in both kernels.",
            "Scores and weights have keys * keys numbers each. How often does standard attention move each of them?",
            "(4 * keys * d + 4 * keys * keys) / (4 * keys * d), which can be written shorter.",
        ),
    ),
    Question(
        id="02.3",
        title="Where flash attention wins",
        statement="""\
Which is the smallest of the compared numbers of keys with which flash attention takes less than a quarter of
the time of standard attention, in bfloat16 with d 128?""",
        choices={
            length: f"{length} keys are the first with which it takes less than a quarter"
            for length in _LENGTHS
        },
        run=_compared,
        truth=lambda chart: next(
            length for length, share in _shares(chart).items() if share < _SHARE
        ),
        evidence=lambda chart: ", ".join(
            f"{length} keys {share:.0%}" for length, share in _shares(chart).items()
        ),
        hints=(
            "Divide the times of the two kernels, for each number of keys.",
            "[row.time_us for row in comparison.rows if row.kernel == 'flash_attention'] are those of one kernel.",
            "With 128 keys it takes some 40 %, and the share becomes small only where the matrices are large.",
        ),
    ),
)
