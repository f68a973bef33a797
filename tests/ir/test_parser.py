"""Tests that every mistake in a kernel's text gets a line, a column and a sentence, and never a Python exception."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nki_lab.errors import BadKernelText
from nki_lab.ir.text.parser import parse_kernel
from nki_lab.ir.text.printer import print_kernel
from nki_lab.targets import TRN2
from tests.ir.programs import DEFINITIONS, NAMES, facts, finished
from tests.thorough import examples

FINISHED = print_kernel(finished(), comments=False)
WHOLE = FINISHED.replace(
    "  storage %part:",
    """\
  storage %eye: int16[2x2] in private_hbm, constant, data
    "0001 0000*2" "0001"
  storage %part:""",
).replace(
    "  return %out\n",
    """\
  probe_join(dst=%part[32x4 @ 512, strides 512x1, int16], parts=(%x[0, 0:512], %part), labels={"a": [1, -2.5]})
  for None in (0, 4, 1) {
    probe_scale(dst=%part, data=%part, op=nl.add, bias=None, name="b\\u00e9") on gpsimd after #0, #1
  }
  return (%out, <Thing>)
""",
)


def parse(text):
    return parse_kernel(text, DEFINITIONS, NAMES)


def test_the_example_holds_every_form():
    text = print_kernel(parse(WHOLE), comments=False)
    assert facts(parse(text)) == facts(parse(WHOLE))


# What is replaced, by what, where the error then lies (`^`), and what it says.
MISTAKES = [
    ("nkir 1", "^nkri 1", "found `nkri`, expected `nkir`"),
    ("nkir 1", "nkir ^2", "the text has format 2, this nki_lab reads 1"),
    ("nkir 1", "nkir ^1x2", "found `1x2`, expected the version of the format"),
    ("kernel scale", "kernel ^7", "found `7`, expected the name of the kernel"),
    ("on trn2", "on ^trn0", "there is no target `trn0`"),
    ("with addresses", "with ^adresses", "found `adresses`, expected `addresses`, `engines` or `waits`"),
    ("waits {", "waits^", "found `param`, expected `{`"),
    ("factor = 2.0", "factor = ^}", "found `}`, expected a value"),
    ("factor = 2.0", "factor = 2.^.0", "found `.`, expected an instruction"),
    ("factor = 2.0", "factor = ^nl.ad", "found `nl.ad`, expected a name of nki.language or nki.isa"),
    ("factor = 2.0", 'factor = ^"a', 'found `"`, expected a value'),
    ("factor = 2.0", r'factor = ^"\q"', "expected a string with the escapes of JSON"),
    ("factor = 2.0", "factor = (1, 2^]", "found `]`, expected `,` or `)`"),
    ("factor = 2.0", "factor = {^[1]: 2}", "found `[`, expected a key"),
    ("factor = 2.0", "factor = {^(%x, 1): 2}", "found `(`, expected a key"),
    ("factor = 2.0", "factor = {1^, 2}", "found `,`, expected `:`"),
    ("factor = 2.0", "factor = <^3>", "found `3`, expected the name of a class"),
    ("factor = 2.0", f"factor = {'(' * 50}^{'(' * 9}", "nested more than 50 deep"),
    ("factor = 2.0", f"factor = ^{'9' * 5000}", "expected an integer of reasonable length"),
    ("param x = %x", "param x = ^%y", "there is no storage `y`"),
    ("%out: float32", "%out: ^float33", "found `float33`, expected an element type such as float32"),
    ("%out: float32", "^%x: float32", "there is already a storage `x`"),
    ("%part: bfloat16[128x512]", "%part: bfloat16[^128x0]", "found `128x0`, expected sizes of 1 or more"),
    ("%part: bfloat16[128x512]", "%part: bfloat16[^]", "expected the shape of the storage, e.g. 128x512"),
    ("in sbuf, at (0, 0)", "in ^sram", "found `sram`, expected a memory: sbuf, psum, private_hbm, shared_hbm"),
    ("in sbuf, at (0, 0)", "in sbuf, ^ad (0, 0)", "expected input, constant, temporary, named, requested"),
    ("in sbuf, at (0, 0)", "in sbuf, at (^a, 0)", "found `a`, expected the start partition"),
    ("in sbuf, at (0, 0)", "in sbuf, at (0, ^0x3)", "found `0x3`, expected the byte within the partition"),
    ("with addresses, ", "with ", "the kernel has no addresses", "at (0, 0)"),
    ("with addresses, engines", "with addresses", "the kernel has no engines", "on dma"),
    ("engines, waits {", "engines {", "the kernel has no waits", "waits #0"),
    ('"0001 0000*2"', '^"0001 000*2"', "found `000*2`, expected 4 hexadecimal digits an element"),
    ('"0001 0000*2"', '"0001"', "there are 2 elements for a storage of 4", '"0001"\n  storage'),
    ("int16[2x2]", "int16[99999999x99999999]", "19999999600000002 bytes are more than a text can hold", "data\n"),
    ("  #0 probe_move", "  ^{", "found `{`, expected an instruction, `for`, `while` or `return`, `}`"),
    ("  #0 probe_move", "  #^a probe_move", "found `a`, expected the label of an instruction"),
    ("#1 probe_scale", "#1 ^probe_scal", "found `probe_scal`, expected the name of an instruction"),
    ("#1 probe_scale", "^#0 probe_scale", "there is already an instruction #0"),
    ("#1 probe_scale(dst=%part, ", "#1 ^probe_scale(", "probe_scale needs the argument `dst`"),
    ("scale=0.1)", "^scala=0.1)", "found `scala`, expected an argument of probe_scale"),
    ("scale=0.1)", "scale=0.1, ^scale=0.1)", "probe_scale gets `scale` twice"),
    ("scale=0.1)", "scale ^0.1)", "found `0.1`, expected `=`"),
    ("scale=0.1)", "scale=0.1 ^on", "found `on`, expected `,`"),
    (", op=nl.add, bias=None", ", scale=None", "the arguments of probe_scale make no sense",
     "probe_scale(dst=%part, data=%part, scale=None"),
    ("on vector waits #0", "on ^vectors", "found `vectors`, expected an engine: unknown, tensor,"),
    ("waits #0", "waits ^#1", "no instruction before this one has the label #1"),
    ("after #0, #1", "after #0, ^probe", "found `probe`, expected `#`"),
    ("%x[0:128, 0:512]", "^%x[0:128, 0:513]", "slice 0:513 on axis 1 of `x` [256, 512]"),
    ("%x[0:128, 0:512]", "%x[0:128^; 0:512]", "found `;`, expected `]`"),
    ("%x[0:128, 0:512]", "%x[^a]", "found `a`, expected an index, or sizes and `@`"),
    ("[32x4 @ 512, strides 512x1, int16]", "[^32x4 @ 512, strides 512x1x1]", "the view has 2 sizes and 3 strides"),
    ("[32x4 @ 512, strides 512x1, int16]", "[^32x-4 @ 512, strides 512x1]", "expected sizes of 1 or more"),
    ("[32x4 @ 512, strides 512x1, int16]", "[32x4 @ 512^]", "found `]`, expected `,`"),
    ("for None in (0, 4, 1)", "for None in ^(0, 4)", "found `(`, expected (start, stop, step)"),
    ("for None in", "for None^", "found `(`, expected `in`"),
    ("  return (%out, <Thing>)\n}\n", "  return (%out, <Thing>)\n^", "found the end of the text, expected `}`"),
    ("<Thing>)\n}\n", "<Thing>)\n}\n^kernel", "found `kernel`, expected the end of the text"),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m[1][:40])
def test_mistakes_are_named_where_they_are(mistake):
    old, new, message, *place = mistake
    assert old in WHOLE
    text = WHOLE.replace(old, new, 1)
    at = text.index("^") if "^" in new else text.index(place[0]) if place else None
    text = text.replace("^", "", 1)
    with pytest.raises(BadKernelText) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    if "^" in new and new.endswith("^"):  # the next word, on a later line perhaps
        at = len(text) - len(text[at:].lstrip())
    before = text[:at]
    assert (error.line, error.column) == (before.count("\n") + 1, at - before.rfind("\n"))


def test_an_error_shows_its_line_with_a_mark():
    with pytest.raises(BadKernelText) as caught:
        parse(FINISHED.replace("scale=0.1", 'name="λ漢", scala=0.1'))
    assert str(caught.value) == (
        "error[NKI606]: line 11, column 52: found `scala`, expected an argument of probe_scale\n"
        '   11 |   #1 probe_scale(dst=%part, data=%part, name="λ漢", scala=0.1) on vector waits #0\n'
        "      |                                                     ^\n"
        "  help: did you mean `scale`?"
    )


def test_names_and_targets_are_what_the_caller_gives():
    text = 'nkir 1\nkernel k on "my chip" {\n  param p = nl.odd\n}\n'
    kernel = parse_kernel(text, {}, {"nl.odd": 7}, {"my chip": TRN2}.__getitem__)
    assert kernel.target is TRN2
    assert kernel.params[0].value == 7


# -- any text at all -------------------------------------------------------------------------------------------------


def survives(text):
    """Read a text: a kernel whose own text is read back the same, or an error with a place."""
    refused = None
    try:
        kernel = parse(text)
    except BadKernelText as error:
        refused = error
    if refused:
        lines = text.split("\n")
        assert 1 <= refused.line <= len(lines)
        assert 1 <= refused.column <= len(lines[refused.line - 1]) + 1
        assert refused.text == lines[refused.line - 1]
        assert refused.message in str(refused)
        return
    assert facts(parse(print_kernel(kernel))) == facts(kernel)


@given(st.text())
@example("nkir 1 kernel k on trn2 {")
def test_any_text_is_read_or_refused(text):
    survives(text)
    survives("nkir 1\nkernel k on trn2 {\n" + text)


PIECES = ["(", ")", "{", "}", "[", "]", ",", ":", "#", "%", "@", "<", ">", "=", "0", "-1", "1x2", "1.5", '"a"', "%x",
          "nl.add", "None", "return", "for", "on", "waits", "after", "storage", "param", "\n", "//", '"', "λ", "\x00",
          "٣", "1_0", "1e999", "-inf", "0x10"]  # fmt: skip


edits = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES))


@given(st.lists(edits, min_size=1, max_size=4))
@settings(max_examples=examples(1500))
def test_any_edit_of_a_text_is_read_or_refused(edits):
    text = WHOLE
    for where, length, piece in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + length :]
    survives(text)


@given(st.integers(0, len(WHOLE)))
def test_any_beginning_of_a_text_is_refused(end):
    with pytest.raises(BadKernelText):
        parse(WHOLE[: min(end, len(WHOLE) - 2)])
