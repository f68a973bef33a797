"""Tests that the page about profiles agrees with what kernels show."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from docs.profile_page import ABSENT, ROWS, UNKNOWN, profile_page
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES
from tests.runtime import test_two_cores
from tests.runtime.test_ranks import PAIRS, X, reduced
from tests.runtime.test_two_cores import exchanged, on_two
from tests.timing import kernels, test_columns, test_origins


@pytest.fixture(scope="module")
def profiles() -> list[Profile]:
    """Return profiles of kernels that between them use everything a table tells of."""
    bf16 = np.zeros((128, 512), nl.bfloat16.np)
    ones = np.ones((512, 64), np.float32)
    square = np.ones((128, 128), np.float32)
    return [
        nki_lab.run(kernels.streamed, ones, target="trn2").profile,
        nki_lab.run(kernels.streamed, ones, target="trn1").profile,
        nki_lab.run(kernels.tiled_matmul, square, bf16.astype(np.float32)).profile,
        nki_lab.run(test_columns.transposed, ones[:96]).profile,
        nki_lab.run(test_columns.turned, bf16[:48, :64], target="trn2").profile,
        nki_lab.run(test_columns.narrow_and_wide, bf16).profile,
        nki_lab.run(test_origins.outer, test_origins.X, skip_passes="remove_dead").profile,
        nki_lab.launch(reduced, 4, [(x, PAIRS, nl.add) for x in X])[0].profile,
        on_two(exchanged, test_two_cores.X).profile,
    ]


def test_every_table_is_on_the_page() -> None:
    assert set(ROWS) | set(ABSENT) == set(TABLES)
    assert not set(ROWS) & set(ABSENT)
    assert set(UNKNOWN) <= set(ROWS)
    for section in profile_page().split("\n## ")[1:-1]:
        table = section.partition("\n")[0]
        assert f"A row is {ROWS[table]}." in section
        assert all(f"`{column}`" in section for column in TABLES[table])
    assert all(f"| {table} | {reason} |" in profile_page() for table, reason in ABSENT.items())


@pytest.mark.parametrize("table", ROWS)
def test_a_column_is_filled_or_the_page_says_why_not(table: str, profiles) -> None:
    filled = {name for p in profiles for name, column in p.table(table).items() if len(column)}
    unknown = set(UNKNOWN.get(table, ()))
    assert filled | unknown == set(TABLES[table])
    assert not filled & unknown


@pytest.mark.parametrize("table", ABSENT)
def test_tables_without_rows_have_none(table: str, profiles) -> None:
    assert sum(p.count(table) for p in profiles) == 0
