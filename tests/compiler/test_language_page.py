"""Tests that the documentation page of the language agrees with the table."""

from docs.language_page import language_page
from nki_lab.dialects import NKI
from tests.golden import Golden


def test_the_page_is_current(golden: Golden):
    golden(language_page(NKI.subset), "../../docs/language.md")


def test_every_row_is_on_the_page():
    page = language_page(NKI.subset)
    for row in NKI.subset.rows.values():
        assert page.count(f"| {row.what} | ") == 1


def test_a_construct_is_explained_with_both_ways_to_write_it():
    text = NKI.subset.rows["list comprehension"].page()
    assert text.startswith("a list comprehension in a kernel: portability\n")
    assert "    sizes = [2 * n for n in range(2)]" in text
    assert "    sizes.append(2 * n)" in text
