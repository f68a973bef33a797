"""Tests that a kernel written as text and read back is the same kernel."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.dtypes import DTYPES, bfloat16, float32, int32, uint8
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.nodes import Kernel, Loop, OutputRef, Param
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.view import whole_view
from nki_lab.ir.text.literals import Opaque, value_text, view_text
from nki_lab.ir.text.parser import parse_kernel
from nki_lab.ir.text.printer import print_instruction, print_kernel
from nki_lab.targets import TRN1, TRN2
from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM
from tests.ir import programs
from tests.ir.memory import tensor
from tests.ir.programs import (
    DEFINITIONS,
    NAMES,
    add,
    facts,
    finished,
    kernel_of,
    probe_join,
    probe_product,
    probe_scale,
    scaled,
)
from tests.thorough import examples


def line_of(text: str) -> int:
    """Return the line of the probe programs that holds `text`."""
    lines = Path(programs.__file__).read_text().splitlines()
    return 1 + next(n for n, line in enumerate(lines) if text in line)


parse = partial(parse_kernel, definitions=DEFINITIONS, names=NAMES)

FINISHED = """\
nkir 1
kernel scale on trn2 with addresses, engines, waits {
  param x = %x
  param factor = 2.0
  storage %x: float32[256x512] in shared_hbm, input
  storage %out: float32[256x512] in shared_hbm, named
  storage %part: bfloat16[128x512] in sbuf, at (0, 0)
  storage %part.1: bfloat16[128x512] in sbuf, at (0, 1024)

  #0 probe_move(dst=%part, src=%x[0:128, 0:512]) on dma
  #1 probe_scale(dst=%part, data=%part, scale=0.1) on vector waits #0
  probe_move(dst=%out[0:128, 0:512], src=%part) on dma waits #1
  #3 probe_move(dst=%part.1, src=%x[128:256, 0:512]) on dma
  #4 probe_scale(dst=%part.1, data=%part.1, scale=128.1) on vector waits #3
  probe_move(dst=%out[128:256, 0:512], src=%part.1) on dma waits #4
  return %out
}
"""


def round_trip(kernel: Kernel) -> str:
    """Return the text of a kernel after holding it to the kernel that is read from it."""
    text = print_kernel(kernel, comments=False)
    again = parse(text)
    assert facts(again) == facts(kernel)
    assert print_kernel(again, comments=False) == text
    assert facts(parse(print_kernel(kernel))) == facts(kernel)
    return text


def test_the_text_of_a_finished_kernel():
    assert round_trip(finished()) == FINISHED


def test_comments_name_the_authors_lines_and_what_was_found():
    b = scaled()
    b.find("advice", "two\nlines", help="write one", stack=b.body[0].stack)
    text = print_kernel(kernel_of(b))
    line = line_of("probe_move(part, x")
    assert f"probe_move(dst=%part, src=%x[0:128, 0:512])  // programs.py, line {line}\n" in text
    assert f"storage %part: bfloat16[128x512] in sbuf  // programs.py, line {line - 1}\n" in text
    assert text.endswith(f"}}\n// advice: two lines (write one)  // programs.py, line {line}\n")


def test_an_instruction_alone_says_engine_and_line():
    i = scaled().body[1]
    line = line_of("probe_scale(part, part")
    wanted = "probe_scale(dst=%part, data=%part, scale=0.1) on vector"
    assert print_instruction(i) == f"{wanted}  // programs.py, line {line}"
    assert print_instruction(i, comments=False) == wanted


def test_an_empty_kernel():
    assert round_trip(Kernel("nothing", TRN1)) == "nkir 1\nkernel nothing on trn1 {\n}\n"


@pytest.mark.parametrize("facts", [
    {"addresses": {}}, {"waits": ()}, {"placed": True}, {"addresses": {}, "waits": (), "placed": True},
])  # fmt: skip
def test_a_pass_that_found_nothing_differs_from_one_that_has_not_run(facts):
    round_trip(Kernel("nothing", TRN2, **facts))


# -- views -----------------------------------------------------------------------------------------------------------

VIEWS = [
    (lambda t: t, "%t"),
    (lambda t: t[0:8, 0:4, 0:16], "%t"),
    (lambda t: t[2:4], "%t[2:4, 0:4, 0:16]"),
    (lambda t: t[3], "%t[3:4, 0:4, 0:16]"),
    (lambda t: t[:, 2], "%t[0:8, 2, 0:16]"),
    (lambda t: t[:, :, 5], "%t[0:8, 0:4, 5]"),
    (lambda t: t[:, 1:3, 3:16:4], "%t[0:8, 1:3, 3:16:4]"),
    (lambda t: t[::3], "%t[0:8:3, 0:4, 0:16]"),
    (lambda t: t.permute((0, 2, 1)), "%t[8x16x4 @ 0, strides 64x1x16]"),
    (lambda t: t[:, :, 3:4].broadcast(2, 5), "%t[8x4x5 @ 3, strides 64x16x0]"),
    (lambda t: t.reshape((8, 64)), "%t[8x64 @ 0, strides 64x1]"),
    (lambda t: t.view(uint8), "%t[8x4x64 @ 0, strides 256x64x1, uint8]"),
    (lambda t: t.view(int32), "%t[8x4x16 @ 0, strides 64x16x1, int32]"),
    (lambda t: t[:, 1:].view(bfloat16), "%t[8x3x32 @ 32, strides 128x32x1, bfloat16]"),
    (lambda t: t.ap([[64, 8], [-1, 3]], offset=2), "%t[8x3 @ 2, strides 64x-1]"),
    (lambda t: t.ap([[64, 1], [1, 1]], offset=130), "%t[2:3, 0, 2:3]"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), VIEWS)
def test_a_view_is_the_index_that_makes_it_or_its_access_pattern(make, text):
    b = Builder(TRN2)
    t = b.allocate((8, 4, 16), float32, SBUF, "t")
    assert view_text(make(t)) == text
    round_trip(kernel_of(b, outputs=(make(t),), result=OutputRef(0)))


def test_hbm_views_drop_axes():
    t = tensor((4, 128, 32), SHARED_HBM)
    assert view_text(t[2]) == "%t[2, 0:128, 0:32]"
    assert view_text(t[2, 5]) == "%t[2, 5, 0:32]"
    assert view_text(t[:, 5, 3]) == "%t[0:4, 5, 3]"
    assert view_text(t[1, 5, 3]) == "%t[1, 5, 3:4]"
    assert view_text(t.reshape((512, 32))) == "%t[512x32 @ 0, strides 32x1]"


def test_views_outside_their_storage_are_written_and_read_as_they_stand():
    text = "nkir 1\nkernel k on trn2 {\n  storage %t: float32[4x8] in sbuf\n  return %t[9x9 @ -5, strides 100x7]\n}\n"
    assert round_trip(parse(text)) == text


# -- values ----------------------------------------------------------------------------------------------------------

VALUES = [
    (None, "None"), (True, "True"), (0, "0"), (-7, "-7"), (2**40, "1099511627776"), (0.1, "0.1"), (1e300, "1e+300"),
    (5e-324, "5e-324"), (-0.0, "-0.0"), (math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan"), ("a b", '"a b"'),
    ('q"\\\n', r'"q\"\\\n"'), ("café λ", '"café λ"'), ("\ud800\x00", r'"\ud800\u0000"'), ("", '""'),
    ((), "()"), ((1,), "(1,)"), ([], "[]"), ([1, (2.0, [])], "[1, (2.0, [])]"), ({}, "{}"),
    ({"a": (1, 2), 3: [None]}, '{"a": (1, 2), 3: [None]}'), (add, "nl.add"), (bfloat16, "nl.bfloat16"),
    (Engine.gpsimd, "nisa.engine.gpsimd"), (PSUM, "nl.psum"), (Opaque("Config"), "<Config>"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_values_are_written_exactly(value, text):
    assert value_text(value) == text
    round_trip(Kernel("k", TRN2, params=(Param("p", value),), result=(value,)))


def test_numpy_numbers_are_written_as_pythons():
    assert value_text((np.float32(0.5), np.int8(3), np.bool_(True))) == "(0.5, 3, True)"


def test_what_has_no_text_form_keeps_the_name_of_its_class():
    assert value_text([len, object()]) == "[<builtin_function_or_method>, <object>]"


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
leaves |= st.sampled_from([add, float32])
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=20,
)


@given(values, st.text(min_size=1))
def test_any_value_and_any_name_survive(value, name):
    storage = Storage(0, name, (2, 3), float32, PRIVATE_HBM)
    kernel = Kernel(name, TRN2, params=(Param(name, value),), storages=(storage,), result=value)
    round_trip(kernel)


@given(st.data())
@settings(max_examples=examples(200))
def test_any_view_survives(data):
    memory = data.draw(st.sampled_from([SBUF, SHARED_HBM]))
    sizes = st.lists(st.integers(1, 5), min_size=2, max_size=4)
    shape = data.draw(sizes)
    b = Builder(TRN2)
    t = b.allocate(shape, float32, memory, "t")
    count = data.draw(st.integers(2, 4))
    strides = data.draw(st.tuples(*[st.integers(-3, 60)] * count))
    pattern = data.draw(st.tuples(*[st.integers(1, 5)] * count))
    view = t._make(t.storage, pattern, strides, data.draw(st.integers(0, 60)), float32)
    round_trip(kernel_of(b, outputs=(view,), result=OutputRef(0)))


# -- the rest of a kernel --------------------------------------------------------------------------------------------


def test_arguments_that_have_their_default_are_left_out():
    b = Builder(TRN2)
    with b.active():
        t = b.allocate((8, 4), float32, SBUF, "t")
        probe_scale(t, t, scale=1.0)
        probe_scale(t, t, scale=1)
        probe_scale(t, t, op=add, bias=t[:, 0:1], axes=[1, 2], engine=Engine.gpsimd, name="third")
        probe_product(t, t, moving=t)
        probe_join(t, [t[:, 0:2], t], labels=("a", t))
    body = round_trip(kernel_of(b, placed=True)).splitlines()[4:-1]
    assert body == [
        "  probe_scale(dst=%t, data=%t) on vector",
        "  probe_scale(dst=%t, data=%t, scale=1) on vector",
        "  probe_scale(dst=%t, data=%t, op=nl.add, bias=%t[0:8, 0:1], axes=(1, 2), engine=nisa.engine.gpsimd,"
        ' name="third") on gpsimd',
        "  probe_product(dst=%t, stationary=%t, moving=%t) on tensor",
        '  probe_join(dst=%t, parts=(%t[0:8, 0:2], %t), labels=("a", %t)) on gpsimd',
    ]


def test_facts_of_storages():
    b = Builder(TRN2)
    for name in ("a", "a", "odd name", "nan", "while", "x.0"):
        b.allocate((8, 4), float32, SBUF, name, address=(32, 64))
    b.allocate((3,), int32, PRIVATE_HBM, "scratch")
    text = round_trip(
        kernel_of(b, addresses={0: Address(32, 64), 3: Address(0, 0)}, poisoned=frozenset({1, 3}),
                  tracked=frozenset({3}),
                  overlaps=(frozenset({0, 3}), frozenset({1, 2})))
    )  # fmt: skip
    assert text.splitlines()[2:-1] == [
        "  storage %a: float32[8x4] in sbuf, requested (32, 64), at (32, 64)",
        "  storage %a.1: float32[8x4] in sbuf, requested (32, 64), poisoned",
        '  storage %"odd name": float32[8x4] in sbuf, requested (32, 64)',
        "  storage %nan: float32[8x4] in sbuf, requested (32, 64), poisoned, tracked, at (0, 0)",
        "  storage %while: float32[8x4] in sbuf, requested (32, 64)",
        "  storage %x.0: float32[8x4] in sbuf, requested (32, 64)",
        "  storage %scratch: int32[3] in private_hbm",
        "  overlap %a, %nan",
        '  overlap %a.1, %"odd name"',
    ]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_constants_keep_every_bit(dtype, rng):
    bits = rng.integers(0, 2 if dtype.kind == "bool" else 256, 60 * dtype.itemsize, np.uint8)
    data = bits.view(dtype.np).reshape(5, 12)
    b = Builder(TRN2)
    b.allocate((5, 12), dtype, SHARED_HBM, "c", origin="constant", data=data)
    round_trip(kernel_of(b))


def test_runs_of_equal_elements_are_counted():
    b = Builder(TRN2)
    b.allocate((3, 3), float32, PRIVATE_HBM, "eye", origin="constant", data=np.eye(3, dtype="f4"))
    assert round_trip(kernel_of(b)).splitlines()[2:-1] == [
        "  storage %eye: float32[3x3] in private_hbm, constant, data",
        '    "3f800000 00000000*3 3f800000 00000000*3 3f800000"',
    ]


def test_loops_nest():
    b = scaled()
    load, scale, store, *rest = b.body
    inner = Loop("while", (), True, (scale,))
    kernel = kernel_of(b, body=(load, Loop("for", (0, 8, 2), None, (inner, store)), *rest))
    assert round_trip(kernel).splitlines()[7:14] == [
        "  probe_move(dst=%part, src=%x[0:128, 0:512])",
        "  for None in (0, 8, 2) {",
        "    while True {",
        "      probe_scale(dst=%part, data=%part, scale=0.1)",
        "    }",
        "    probe_move(dst=%out[0:128, 0:512], src=%part)",
        "  }",
    ]


def test_waiting_beyond_the_operands_is_kept_and_what_a_pass_removed_is_not():
    b = scaled()
    b.body[4].after = (b.body[0], b.body[2])
    b.body[5].after = (b.body[1],)
    kernel = kernel_of(b)
    assert ", scale=128.1) after #0, #2\n" in round_trip(kernel)
    without = kernel.with_(body=(b.body[0], *b.body[2:]))
    text = print_kernel(without, comments=False)
    assert ", scale=128.1) after #0, #1\n" in text
    assert text.endswith("src=%part.1)\n}\n")


def test_an_engine_other_than_the_definitions_choice_is_kept():
    text = FINISHED.replace("scale=0.1) on vector", "scale=0.1) on gpsimd")
    kernel = parse(text)
    engines = [i.form.engine.name for i in kernel.instructions]
    assert engines == ["dma", "gpsimd", "dma", "dma", "vector", "dma"]
    assert print_kernel(kernel, comments=False) == text


def test_instructions_of_one_signature_share_a_form():
    kernel = parse(FINISHED)
    assert kernel.instructions[1].form is not kernel.instructions[4].form  # scale is not opaque
    assert kernel.instructions[2].form is kernel.instructions[5].form
    assert set(kernel.forms.values()) == {i.form for i in kernel.instructions}


def test_white_space_comments_and_labels_are_free():
    text = FINISHED.replace("#0", "#70").replace("\n", " // note\n\n ").replace(", ", " ,\t")
    assert facts(parse(text)) == facts(finished())


def test_results_hold_their_outputs_where_they_stand():
    b = scaled()
    x, out, *_ = (whole_view(s) for s in b.storages)
    result = {"mean": OutputRef(0), "both": (OutputRef(1), 3), "rest": [None, OutputRef(2)]}
    text = round_trip(kernel_of(b, outputs=(x, out, out[0:1]), result=result))
    assert '  return {"mean": %x, "both": (%out, 3), "rest": [None, %out[0:1, 0:512]]}\n' in text
