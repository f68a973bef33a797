"""Kernels that compute the same, side by side: their bytes by formula, and the forms of the charts."""

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from nki_lab import kernels
from nki_lab.errors import UsageError
from nki_lab.views.charts.forms import PLOTLY
from nki_lab.widgets.picture import LETTER

KEYS, D = (256, 130, 256), 32


@pytest.fixture(scope="module")
def chart():
    kernels.COMPARISONS["narrow heads"] = kernels.Comparison(
        kernels.COMPARISONS["attention"].kernels,
        "keys",
        (64,),
        {"heads": 1, "kv_heads": 1, "d": D, "causal": 0},
    )
    try:
        yield kernels.compare("narrow heads", sizes=KEYS, target="trn2")
    finally:
        del kernels.COMPARISONS["narrow heads"]


def test_bytes_are_those_of_the_formula(chart):
    assert chart.sizes == (130, 256)
    assert chart.title.startswith("narrow heads of bfloat16 on trn2 (modelled")
    for keys in chart.sizes:
        rows = {row.kernel: row for row in chart.rows if row.size == keys}
        operands = 4 * keys * D  # q, k, v and the result
        matrices = 4 * keys**2  # scores and weights, each written and read
        assert rows["flash_attention"].hbm_bytes == 2 * operands
        assert rows["standard_attention"].hbm_bytes == 2 * (operands + matrices)
        for row in rows.values():
            size = {**kernels.COMPARISONS["attention"].others, "keys": keys, "d": D}
            run = kernels.get(row.kernel).run(size, "bfloat16", target="trn2")
            assert row.time_us == run.profile.total_ns / 1000
            assert 0 < row.sbuf_bytes <= run.compiled.target.sbuf_bytes_per_partition


class _Cells(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.cells = []
        self.feed(text)

    def handle_data(self, data):
        self.cells.append(data)


def test_text_table_figure_and_picture_show_the_same(chart):
    bundle = chart._repr_mimebundle_()
    _, _, *lines = bundle["text/plain"].split("\n")
    assert len(lines) == len(chart.rows) == 4
    cells = [line.split() for line in lines]
    assert [c[2] for c in cells] == [f"{row.time_us:,.1f}" for row in chart.rows]
    assert [c[3] for c in cells] == [f"{row.hbm_bytes:,}" for row in chart.rows]
    assert _Cells(chart.table_html()).cells[5:] == [cell for line in cells for cell in line]
    assert chart.table_html() in bundle["text/html"]
    *curves, table = bundle[PLOTLY]["data"]
    assert len(curves) == 3 * len(chart.kernels)
    flash = [row.sbuf_bytes for row in chart.of("flash_attention")]
    assert list(curves[-1]["y"]) == flash and curves[-1]["name"] == "flash_attention"
    assert list(table["cells"]["values"][1]) == [row.kernel for row in chart.rows]
    texts = [
        *table["header"]["values"],
        *(t for column in table["cells"]["values"] for t in column),
    ]
    assert not [
        text for text in texts if " " in text
    ]  # it would be left out where it is drawn out of sight
    for theme, width in (("light", 1200), ("dark", 720)):
        drawing = ElementTree.fromstring(chart.to_svg(theme, width))
        assert len(drawing.findall("{*}circle")) == 3 * len(chart.rows) + len(chart.kernels)
        texts = [t for t in drawing.iter() if t.text and t.get("x")]
        ends = [(t, float(t.get("x"))) for t in texts if t.get("text-anchor") == "end"]
        assert all(x - LETTER * len(t.text) >= -1 and x <= width for t, x in ends)


@pytest.mark.parametrize("name", kernels.COMPARISONS)
def test_what_is_compared_computes_the_same(name):
    comparison = kernels.COMPARISONS[name]
    first, *others = (kernels.get(kernel) for kernel in comparison.kernels)
    size = {**comparison.others, comparison.over: comparison.sizes[0]}
    arguments = first.example(size, seed=3)
    for kernel in (first, *others):
        assert first.error(kernel(**kernel.example(size, seed=3)), arguments) <= 1e-5


def test_what_cannot_be_compared_is_named():
    with pytest.raises(UsageError, match="no comparison `atention`") as caught:
        kernels.compare("atention")
    assert "did you mean `attention`" in caught.value.help
    with pytest.raises(UsageError, match="numbers of keys above 0"):
        kernels.compare("attention", sizes=[0, 128])
    for wrong in (["a"], [1.5], 5):
        with pytest.raises(UsageError, match="numbers of keys above 0"):
            kernels.compare("attention", sizes=wrong)
    with pytest.raises(UsageError, match=r"`sizes` is \[\]"):
        kernels.compare("attention", sizes=[])
