"""The page about the prebuilt kernels shows every kernel, and times that the model still gives."""

import pytest

from docs.kernel_page import KEPT, PAGE, kernel_page
from nki_lab import kernels
from nki_lab.kernels.bench import load_rows, measure, size_text


def test_every_kernel_has_its_rows_and_its_section():
    rows = load_rows(KEPT)
    expected = [
        (name, size_text(size), dtype, "trn2" if "trn2" in kernels.get(name).chips else "trn3")
        for name in kernels.names()
        for size in kernels.get(name).timed
        for dtype in kernels.get(name).dtypes
    ]
    assert [row.key for row in rows] == expected
    text = kernel_page()
    assert PAGE.read_text("utf-8") == text, "write it anew: python -m docs.kernel_page"
    assert all(f"## {name}\n" in text for name in kernels.names())
    assert all(f"`{n}`" in text for name in kernels.names() for n in kernels.get(name).official)
    large = {(name, size_text(kernels.get(name).timed[-1])) for name in kernels.names()}
    short = [row for row in rows if (row.kernel, row.size) in large and row.attained < 0.85]
    assert all(row.why and row.why in text for row in short)


@pytest.mark.parametrize("name", ["layernorm", "matmul"])
def test_the_times_are_those_of_the_model(name):
    row = next(r for r in load_rows(KEPT) if r.kernel == name)
    again = measure(kernels.get(name), kernels.get(name).timed[0], row.dtype, target="trn2")
    assert again == row, "write them anew: nki-lab bench --target trn2 --write docs/kernels"
