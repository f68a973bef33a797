"""Tests that docs/ir.md is right about the text of a program."""

from __future__ import annotations

import re
from pathlib import Path

from nki_lab.ir.program.verify import verify
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.text import parser
from nki_lab.ir.text.printer import FORMAT, print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.targets.spaces import MemoryRegion

PAGE = (Path(__file__).parents[2] / "docs" / "ir.md").read_text(encoding="utf-8")
GRAMMAR = PAGE.split("```ebnf\n")[1].split("```")[0]
TABLE = re.findall(r"^\| `(%x.*?)` \|", PAGE, re.MULTILINE)


def test_the_example_is_read_and_written_as_it_stands():
    text = PAGE.split("```nkir\n")[1].split("```")[0]
    kernel = read_kernel(text)
    assert verify(kernel) == []
    assert print_kernel(kernel) == re.sub(r" +//.*", "", text)


def test_every_form_of_a_tensor_is_read_and_written_as_it_stands():
    assert len(TABLE) == 6
    for tensor in TABLE:
        text = f"""\
nkir {FORMAT}
kernel shown on trn3 {{
  storage %x: float32[1024x2048] in shared_hbm, input
  storage %rows: int32[128x1] in sbuf
  storage %i: float32[128x512] in sbuf

  register_load(dst=$i, src=%rows[0, 0:1])
  dma_copy(dst=%i, src={tensor})
}}
"""
        assert f"src={tensor})" in print_kernel(read_kernel(text)), tensor


def test_the_grammar_names_every_word_and_defines_what_it_uses():
    rules = dict(re.findall(r"^(\w+)\s*= (.*?) ;$", GRAMMAR, re.MULTILINE | re.DOTALL))
    used = set(re.findall(r"\b[a-z]\w*\b", re.sub(r'"[^"]*"', "", " ".join(rules.values()))))
    assert used <= set(rules), "used and not defined"
    assert set(rules) - used == {"program"}
    words = set(re.findall(r'"(\w+)"', GRAMMAR))
    source = Path(parser.__file__).read_text(encoding="utf-8")
    literals = Path(parser.__file__).with_name("literals.py").read_text(encoding="utf-8")
    known = set(re.findall(r'(?:expect|skip)\("(\w+)"\)', source + literals))
    known |= (
        set(re.findall(r'token\.text == "(\w+)"', source)) | set(parser._ORIGINS) | {"for", "while"}
    )
    assert words == known


def test_memories_and_ways_of_addressing_are_all_named():
    for name in MemoryRegion.__members__:
        assert f"`{name}`" in PAGE, name
    assert {kind.value for kind in Addressing} >= {"scalar", "vector"}
