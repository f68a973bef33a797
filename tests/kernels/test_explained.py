"""What a kernel does, step by step: the lines of each step, and the tiles that its compiled form has there."""

import inspect
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nki_lab import kernels
from nki_lab.errors import UsageError
from nki_lab.kernels import rows
from nki_lab.kernels.explained import lines_of


@pytest.fixture(scope="module")
def explained():
    size = {"heads": 2, "kv_heads": 1, "keys": 300, "d": 48, "causal": 0}
    return kernels.get("standard_attention").explain(size, "bfloat16", target="trn2")


def _lines(kernel, name):
    return _lines_of(getattr(inspect.getmodule(kernels.get(kernel).kernel.func), name))


def _lines_of(function):
    lines, first = inspect.getsourcelines(function)
    return first, first + len(lines) - 1


def test_axes_of_arguments_are_named_as_the_docstring_names_them(explained):
    texts = [str(layout) for layout in explained.layouts]
    assert texts == [
        "q [batch 1, heads 2, d 48, queries 300] -> SBUF, 48 partitions (d) x 128 free (queries), bfloat16",
        "k [batch 1, kv_heads 1, d 48, keys 300] -> SBUF, 48 partitions (d) x 300 free (keys), bfloat16",
        "v [batch 1, kv_heads 1, keys 300, d 48] -> SBUF, 128 partitions (keys) x 48 free (d), bfloat16",
        "out [batch 1, heads 2, queries 300, d 48] <- SBUF, 128 partitions (queries) x 48 free (d), bfloat16",
    ]


def test_a_step_has_the_lines_and_the_tiles_of_its_function(explained):
    scores, weights, output = explained.steps
    first, last = _lines("standard_attention", "_write_scores")
    assert scores.place == f"standard_attention.py, lines {first} to {last}"
    assert scores.source.startswith(f"{first:4} def _write_scores(")
    # 2 heads, 3 tiles of queries: keys and 3 x queries are loaded, 3 rows stored; 300 keys are one product.
    assert scores.engines == {"dma": 2 * (1 + 3 + 3), "tensor": 2 * 3, "scalar": 2 * 3}
    assert [str(t) for t in scores.tiles] == [
        "SBUF, 48 partitions x 300 free, bfloat16",
        "PSUM, 128 partitions x 300 free, float32",
        "SBUF, 128 partitions x 300 free, bfloat16",
    ]
    assert set(weights.engines) == {"dma", "vector", "scalar"}
    assert output.engines["tensor"] == 2 * 3 * (
        3 + 3
    )  # transposes and products, for 3 tiles of keys


def test_a_place_is_a_function_or_all_statements_that_begin_so():
    file = inspect.getfile(kernels.get("softmax").kernel.func)
    text = Path(file).read_text(encoding="utf-8").split("\n")
    at = [n for n, line in enumerate(text, 1) if line.strip().startswith("total = ")]
    assert lines_of(file, "total = ") == (file, [(at[0], at[0])]) and len(at) == 1
    several = lines_of(file, "nisa.tensor_")[1]
    assert len(several) == sum(line.strip().startswith("nisa.tensor_") for line in text) > 1
    assert lines_of(file, "_reference")[1] == [_lines("softmax", "_reference")]
    shared, places = lines_of(file, "rows.py:loaded")
    assert shared == inspect.getfile(rows) and places == [_lines_of(rows.loaded)]
    with pytest.raises(UsageError, match=r"softmax\.py: nothing is called or begins with `nosuch`"):
        lines_of(file, "nosuch")


class _Parts(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.images, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attributes))

    def handle_data(self, data):
        self.text += data


def test_html_shows_every_step_with_its_lines_and_a_picture(explained):
    bundle = explained._repr_mimebundle_()
    parts = _Parts(bundle["text/html"])
    tiles = [layout.tile for layout in explained.layouts]
    tiles += [tile for step in explained.steps for tile in step.tiles]
    assert len(tiles) > 10 and parts.tags.count("details") == 3
    for tile, image in zip(tiles, parts.images, strict=True):
        assert image["alt"].endswith(f": {tile}")
        drawing = b64decode(image["src"].removeprefix("data:image/svg+xml;base64,"))
        *_, shape = ElementTree.fromstring(drawing).findall("{*}rect")
        assert float(shape.get("height") or 0) == pytest.approx(72 * tile.partitions / 128, abs=0.1)
    for step in explained.steps:
        assert step.text in parts.text and step.source in parts.text and step.heading in parts.text
    assert "script" not in parts.tags
    for layout in explained.layouts:
        assert str(layout) in bundle["text/plain"] and str(layout) in parts.text
    assert len(bundle["text/html"]) < 40_000
