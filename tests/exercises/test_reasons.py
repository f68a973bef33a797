"""Tests that each kind of mistake has its own reason, with the right place, and that right answers are never
rejected."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nki_lab.api.install import aliases
from nki_lab.choices import inside, use_target
from nki_lab.exercises.judge import Verdict, judge
from nki_lab.exercises.problem import Limits, Task, Tiers
from nki_lab.exercises.reasons import where

with aliases():
    import nki
    import nki.isa as nisa
    import nki.language as nl


def task(reference, inputs=None, *, signature="k(x)", **facts) -> Task:
    """Return an exercise with a square case and one of another shape."""
    return Task(
        id="99.1",
        title="A test",
        statement="",
        hints=("", "", ""),
        signature=signature,
        inputs=inputs or (lambda draw, rows, columns: (draw(rows, columns),)),
        reference=reference,
        cases=facts.pop("cases", ({"rows": 64, "columns": 64}, {"rows": 3, "columns": 20})),
        **facts,
    )


def tried(problem: Task, kernel) -> Verdict:
    with use_target("trn2"):
        return judge(problem, kernel, seed=5)


def stored(x, change, dtype=None):
    out = nl.ndarray(x.shape, dtype=dtype or x.dtype, buffer=nl.shared_hbm)
    nl.store(out, change(nl.load(x)))
    return out


@nki.jit
def same(x):
    return stored(x, lambda t: nl.multiply(t, 1.0))


@nki.jit
def zero(x):
    return stored(x, lambda t: nl.multiply(t, 0.0))


@nki.jit
def doubled(x):
    return stored(x, lambda t: nl.multiply(t, 2.0))


@nki.jit
def plain(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def shifted(x):
    return stored(x, lambda t: nl.add(nl.multiply(t, 2.0), 0.01))


@nki.jit
def rectified(x):
    return stored(x, lambda t: nl.multiply(nl.maximum(t, 0.0), 2.0))


@nki.jit
def rooted(x):
    return stored(x, lambda t: nl.multiply(nl.multiply(nl.sqrt(t), nl.sqrt(t)), 2.0))


@nki.jit
def tripled(x):
    return stored(x, lambda t: nl.multiply(t, 3.0))


@nki.jit
def narrow(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nl.store(out, nl.multiply(tile, 2.0, dtype=nl.float32))
    return out


@nki.jit
def half(x):
    return stored(x, lambda t: nl.multiply(t, 2.0), dtype=nl.bfloat16)


@nki.jit
def all_but_last_column(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    most = x.shape[1] - 1
    nl.store(out[:, :most], nl.multiply(nl.load(x), 2.0)[:, :most])
    return out


@nki.jit
def all_but_last_row(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    most = x.shape[0] - 1
    nl.store(out[:most], nl.multiply(nl.load(x), 2.0)[:most])
    return out


@nki.jit
def last_column_as_it_was(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    most = x.shape[1] - 1
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile[:, :most], data=tile[:, :most], op0=nl.multiply, operand0=2.0)
    nl.store(out, tile)
    return out


@nki.jit
def first_size_only(x):
    return stored(x, lambda t: nl.multiply(t, x.shape[1] / 32))


@nki.jit
def in_place(x):
    nl.store(x, nl.multiply(nl.load(x), 2.0))
    return x


@nki.jit
def mutates(x):
    out = stored(x, lambda t: nl.multiply(t, 2.0))
    nl.store(x, nl.multiply(nl.load(x), 0.5))
    return out


@nki.jit
def two(x):
    return stored(x, lambda t: nl.multiply(t, 2.0)), stored(x, lambda t: t)


@nki.jit
def short(x):
    out = nl.ndarray((x.shape[0], x.shape[1] - 1), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0)[:, : x.shape[1] - 1])
    return out


@nki.jit
def flipped(x):
    out = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.multiply(nl.load(x), 2.0)
    turned = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=tile)
    nl.store(out, turned)
    return out


TWICE = task(lambda x: 2 * x)
REASONS = [
    (zero, "zeros", "the result is zero everywhere"),
    (same, "argument", "a copy of the argument `x`"),
    (in_place, "argument", "returns its argument `x`"),
    (mutates, "mutated", "has overwritten its argument `x`"),
    (two, "count", "the kernel returns 2 tensors, expected 1"),
    (short, "shape", r"the result has shape \[64, 63\], expected \[64, 64\]"),
    (half, "dtype", "the result is bfloat16, expected float32"),
    (
        all_but_last_column,
        "unwritten",
        "all elements of the last column of the result are never written",
    ),
    (all_but_last_row, "unwritten", "all elements of the last row of the result are never written"),
    (last_column_as_it_was, "part", "all elements of the last column of the result are wrong"),
    (shifted, "offset", "every element is off by about 0.01"),
    (tripled, "factor", "every element is 1.5 times"),
    (rectified, "negative", "right for positive numbers and wrong for negative"),
    (narrow, "rounded", "right to two digits only"),
    (rooted, "nan", "NaN where finite numbers are expected"),
    (flipped, "transposed", "right but transposed"),
    (
        first_size_only,
        "factor",
        r"\(with rows=3, columns=20\); it was right with rows=64, columns=64",
    ),
]


@pytest.mark.parametrize(("kernel", "kind", "words"), REASONS, ids=[r[0].__name__ for r in REASONS])
def test_a_mistake_is_told_by_its_name(kernel, kind: str, words: str):
    reason = tried(TWICE, kernel).reason
    assert reason is not None
    assert (reason.kind, bool(re.search(words, reason.message))) == (kind, True), reason
    assert reason.help


def test_what_is_right_is_accepted():
    assert tried(TWICE, doubled).reason is None


@nki.jit
def sum_not_started(x):
    """Add rows up in an accumulator that nothing has set."""
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    tile = nl.load(x)
    nisa.activation(dst=tile, op=nl.copy, data=tile, reduce_op=nl.add, reduce_res=total)
    return stored_tile(total)


@nki.jit
def sum_of_nothing(x):
    """Add the sum of each row to a tile that nothing has written."""
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    return stored_tile(nl.add(total, nl.sum(nl.load(x), axis=1, keepdims=True)))


def stored_tile(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize(
    ("kernel", "cause", "help"),
    [
        (sum_not_started, "the accumulator of Scalar is read", "reset_reduce"),
        (sum_of_nothing, "`total`.* are read but were never written", "nisa.memset"),
    ],
)
def test_nan_is_told_with_the_first_read_of_what_nothing_has_written(kernel, cause: str, help: str):
    reason = tried(task(lambda x: x.sum(axis=1, keepdims=True)), kernel).reason
    assert reason is not None
    assert reason.kind in ("nan", "unwritten")
    assert re.search(f"first cause: .*{cause}", reason.message)
    assert help in reason.help


@pytest.mark.parametrize("cases", [({"rows": 4, "columns": 6},), ({"rows": 6, "columns": 6},)])
def test_transposed_is_told_for_any_shape(cases):
    reason = tried(task(lambda x: 2 * x, cases=cases), flipped).reason
    assert reason is not None
    assert reason.kind == "transposed"


@nki.jit
def copied(x):
    return stored(x, lambda t: t)


@nki.jit
def most_of_it(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[1:], nl.load(x)[1:])
    return out


def integers(draw, rows, columns):
    return (draw.integers(rows, columns, low=-9, high=9),)


def test_integers_are_compared_exactly_and_unwritten_ones_are_found():
    exact = task(lambda x: x, integers)
    reason = tried(exact, most_of_it).reason
    assert reason is not None
    assert reason.kind == "unwritten"
    assert "the first row" in reason.message
    assert tried(exact, copied).reason is None


@nki.jit
def drained_with_one(x):
    return stored(x, lambda t: nl.add(nl.multiply(t, 2.0), 0.03))


def test_a_small_offset_shows_in_bfloat16_where_one_rounding_is_larger():
    coarse = task(
        lambda x: 2 * x, lambda draw, rows, columns: (draw(rows, columns, dtype="bfloat16"),)
    )
    reason = tried(coarse, drained_with_one).reason
    assert reason is not None
    assert reason.kind == "offset"
    for seed in range(30):
        with use_target("trn2"):
            assert judge(coarse, doubled, seed=seed).reason is None


@pytest.mark.parametrize(
    ("limits", "kind", "words"),
    [
        (Limits(instructions={"vector": 0}), "limit", "instructions of Vector: 1, at most 0"),
        (Limits(transfers=1), "limit", "DMA transfers: 2, at most 1"),
        (Limits(transfer_bytes=1000), "limit", "bytes moved by DMA: 32,768, at most 1,000"),
        (Limits(sbuf_bytes=256), "limit", "SBUF peak, bytes per partition: 512, at most 256"),
        (Limits(uses=("activation",)), "uses", "has no activation"),
        (Limits(avoids=("tensor_scalar",)), "avoids", "has tensor_scalar"),
    ],
)
def test_what_a_kernel_uses_is_counted(limits: Limits, kind: str, words: str):
    reason = tried(task(lambda x: 2 * x, limits=limits), doubled).reason
    assert reason is not None
    assert reason.kind == kind
    assert words in reason.message


def test_limits_that_are_kept_are_shown_with_what_was_found():
    limits = Limits(
        instructions={"vector": 1}, transfers=2, transfer_bytes=32_768, sbuf_bytes=512, psum_banks=0,
        uses=("dma_copy",), avoids=("activation",), clean=True,
    )  # fmt: skip
    verdict = tried(task(lambda x: 2 * x, limits=limits), plain)
    assert verdict.reason is None
    assert verdict.rows[2:] == [
        ("findings", "0", "none"),
        ("dma_copy", "used", "used"),
        ("activation", "not used", "not used"),
        ("instructions of Vector", "1", "at most 1"),
        ("DMA transfers", "2", "at most 2"),
        ("bytes moved by DMA", "32,768", "at most 32,768"),
        ("SBUF peak, bytes per partition", "256", "at most 512"),
        ("PSUM peak, banks", "0", "at most 0"),
    ]


def test_a_clean_kernel_has_no_finding_of_any_kind():
    with inside(nki="0.6"):  # whose parser refuses a lambda
        reason = tried(task(lambda x: 2 * x, limits=Limits(clean=True)), doubled).reason
        assert reason is not None
        assert (reason.kind, "a lambda" in reason.message) == ("finding", True)
        assert tried(task(lambda x: 2 * x), doubled).reason is None


def test_time_has_two_tiers():
    for tiers, kind, stars in (
        (Tiers(passes=100.0, star=50.0), None, 1),
        (Tiers(passes=100.0, star=0.1), None, 0),
        (Tiers(passes=0.2, star=0.1), "time", 0),
    ):
        verdict = tried(task(lambda x: 2 * x, tiers={"trn2": tiers}), doubled)
        assert (verdict.reason and verdict.reason.kind, verdict.stars) == (kind, stars)
        assert "us" in verdict.rows[-1][1]
    other = tried(task(lambda x: 2 * x, tiers={"trn1": Tiers(0.2, 0.1)}), doubled)
    assert other.reason is None


@nki.jit
def reads_what_nothing_wrote(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=other, src=tile)
    return out


def test_right_values_are_not_enough_where_a_device_may_differ():
    reason = tried(TWICE, reads_what_nothing_wrote).reason
    assert reason is not None
    assert reason.kind == "finding"


PLACES = {
    "all elements of the last column": np.s_[:, 9],
    "all elements of the first row": np.s_[0],
    "all elements of row 3": np.s_[3],
    "the columns from 6 on": np.s_[:, 6:],
    "the rows 2 to 4": np.s_[2:5],
    "every second column, from 1 on,": np.s_[:, 1::2],
    "element [4, 5]": np.s_[4, 5],
    "6 of 120 elements (the first at [4, 5])": np.s_[4:6, 5:8],
    "all elements": np.s_[:],
}


@pytest.mark.parametrize(("words", "part"), PLACES.items(), ids=PLACES)
def test_a_part_is_named(words: str, part):
    mask = np.zeros((12, 10), bool)
    mask[part] = True
    assert where(mask) == words


def test_rows_behind_the_first_tile_are_named():
    mask = np.zeros((300, 4), bool)
    mask[128:] = True
    assert where(mask) == "the rows from 128 on (all but the first tile of 128)"


@nki.jit
def one_each(a, b):
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(out[0], nl.multiply(nl.load(a), 2.0))
    else:
        nl.store(out[1], nl.multiply(nl.load(b), 2.0))
    return out


@nki.jit
def first_twice(a, b):
    out = nl.ndarray((2, *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out[nl.program_id(0)], nl.multiply(nl.load(a), 2.0))
    return out


def test_what_the_second_core_does_counts():
    both = task(
        lambda a, b: np.stack([2 * a, 2 * b]),
        lambda draw, rows, columns: (draw(rows, columns), draw(rows, columns)),
        signature="one_each(a, b)",
        cores=2,
        limits=Limits(uses=("tensor_scalar",)),
    )
    assert tried(both, one_each).reason is None
    reason = tried(both, first_twice).reason
    assert reason is not None
    assert (reason.kind, "`b`" in reason.message) == ("unread", True)
