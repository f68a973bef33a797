"""Tests that a trace keeps names, places, addresses and every mistake as the author wrote them."""

import linecache
import threading

import numpy as np
import pytest

from nki_lab.dtypes import bfloat16, float32
from nki_lab.errors import InstructionError, OutsideKernel, TensorArgument
from nki_lab.ir.building.builder import Builder, current
from nki_lab.source import Span
from nki_lab.targets import TRN1, TRN2, TRN3
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM
from tests.ir.programs import add, probe_join, probe_move, probe_product, probe_scale

# A function of nki_lab itself that makes tensors and instructions for its caller, as those of nki.language do.
COMPOSITE = compile(
    """\
def squared(b, x):
    out = b.allocate(x.shape, x.dtype)
    probe_scale(out, x, scale=-1.0)
    return out
""",
    "<nki_lab composite of a test>",
    "exec",
)


def trace(text, target=TRN2):
    """Run a text as a kernel and return its builder; `t` and `b` are there already."""
    filename = "<cell of a trace>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    b = Builder(target)
    scope = {
        "b": b, "t": b.allocate((8, 4), float32, SBUF, "t"), "np": np, "add": add, "probe_join": probe_join,
        "probe_move": probe_move, "probe_product": probe_product, "probe_scale": probe_scale,
    }  # fmt: skip
    exec(COMPOSITE, scope)
    code = compile(text, filename, "exec")
    b.root = code
    with b.active():
        exec(code, scope)
    return b


def names(b):
    return [s.name for s in b.storages[1:]]


def places(stack):
    return [(Span.of(p).line, Span.of(p).function) for p in stack]


# -- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "found"), [
    ("x = b.allocate((8, 4), 'float32')", ["x"]),
    ("größe = b.allocate((8, 4), 'float32')", ["größe"]),
    ("x = b.allocate((8, 4), 'float32', name='other')", ["other"]),
    ("for k in range(3):\n  x = b.allocate((8, 4), 'float32')", ["x", "x.1", "x.2"]),
    ("x = y = b.allocate((8, 4), 'float32')", ["x"]),
    ("print(x := b.allocate((8, 4), 'float32'))", ["x"]),
    ("tiles = [b.allocate((8, 4), 'float32')]", ["tile"]),
    ("b.allocate((8, 4), 'float32')", ["tile"]),
    ("def f():\n  x = b.allocate((8, 4), 'float32')\n  return x\ny = f()", ["x"]),
    ("def f():\n  return b.allocate((8, 4), 'float32')\ny = f()\nz = f()", ["y", "z"]),
    ("def f():\n  return b.allocate((8, 4), 'float32')\nprint(f())", ["tile"]),
    ("class A:\n  def __init__(self):\n    self.part = b.allocate((8, 4), 'float32')\nA()", ["part"]),
    ("def f():\n  global x\n  x = b.allocate((8, 4), 'float32')\nf()", ["x"]),
    ("def f():\n  x = b.allocate((8, 4), 'float32')\n  return lambda: x\nf()", ["x"]),
    ("y = squared(b, t)", ["y"]),
    ("x = b.allocate((8, 4), 'float32', name='x.1')\nfor k in range(2): x = b.allocate((8, 4), 'float32')",
     ["x.1", "x", "x.2"]),
])  # fmt: skip
def test_tiles_are_called_after_the_variable_they_are_assigned_to(text, found, capsys):
    assert names(trace(text)) == found


# -- places ----------------------------------------------------------------------------------------------------------


def test_an_instruction_over_several_lines_is_at_its_call():
    b = trace("x = 1\nprobe_scale(\n    t,\n    data=t,\n)\n")
    [span] = [Span.of(p) for p in b.body[0].stack]
    assert (span.line, span.end_line) == (2, 5)
    assert b.body[0].ident == 0


def test_helper_functions_are_in_the_stack_innermost_first():
    b = trace(
        "def inner(x):\n  probe_scale(x, x)\ndef outer(x):\n\n  inner(x)\nouter(t)\nouter(t)\n"
    )
    assert places(b.body[0].stack) == [(2, "inner"), (5, "outer"), (6, "<module>")]
    assert places(b.body[1].stack) == [(2, "inner"), (5, "outer"), (7, "<module>")]


def test_what_nki_lab_emits_for_a_composite_is_at_the_authors_line():
    b = trace("\ny = squared(b, t)\n")
    assert places(b.body[0].stack) == [(2, "<module>")]
    assert places(b.storages[1].stack) == [(2, "<module>")]
    [error] = b.errors
    # The author's call has other arguments, so all of it is marked.
    assert error.span.excerpt() == ["2 | y = squared(b, t)", "  |     ^^^^^^^^^^^^^"]


def test_the_stack_ends_at_the_kernel():
    b = trace("probe_scale(t, t)\n")
    assert len(b.body[0].stack) == 1
    other = Builder(TRN2)
    t = other.allocate((8, 4), float32)
    with other.active():
        probe_scale(t, t)
    assert len(other.body[0].stack) > 1  # without a root, up to the bottom


def test_equal_stacks_are_one_object():
    b = trace("for k in range(3): probe_scale(t, t, scale=k)\n")
    assert len({id(i.stack) for i in b.body}) == 1


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_all_mistakes_of_a_kernel_are_collected_with_the_argument_marked():
    b = trace(
        "h = b.allocate((8, 4), 'float32', t.buffer.private_hbm)\n"
        "probe_scale(t, h)\n"
        "probe_scale(dst=t, data=t[:, 0:2],\n            scale=-0.5)\n"
        "probe_product(t, t, t)\n"
    )
    assert ["\n".join(e.render()) for e in b.errors] == [
        "error[NKI202]: probe_scale: `data` must be in psum or sbuf\n"
        "  --> <cell of a trace>, line 2\n"
        "   2 | probe_scale(t, h)\n"
        "     |                ^\n"
        "  note: data = `h` [8, 4] float32 in private_hbm\n"
        "  help: load it into an SBUF tile first with nisa.dma_copy",
        "error[NKI203]: probe_scale: `dst` and `data` must have the same free size\n"
        "  --> <cell of a trace>, line 3\n"
        "   3 | probe_scale(dst=t, data=t[:, 0:2],\n"
        "     |                 ^\n"
        "  note: dst = `t` [8, 4] float32 in sbuf\n"
        "  note: data = `t` [8, 2] float32 in sbuf\n"
        "  help: slice the larger one",
        "error[NKI203]: probe_scale: `scale` must not be negative\n"
        "  --> <cell of a trace>, line 4\n"
        "   4 |             scale=-0.5)\n"
        "     |                   ^^^^\n"
        "  note: scale = -0.5",
        "error[NKI202]: probe_product: `dst` must be in psum\n"
        "  --> <cell of a trace>, line 5\n"
        "   5 | probe_product(t, t, t)\n"
        "     |               ^\n"
        "  note: dst = `t` [8, 4] float32 in sbuf\n"
        "  help: make it with nl.ndarray(shape, dtype, buffer=nl.psum)",
    ]
    assert len(b.body) == 3


def test_a_mistake_in_an_unrolled_loop_is_told_once():
    b = trace(
        "for k in range(5):\n  probe_scale(t, t, scale=-k - 1)\nprobe_scale(t, t, scale=-9)\n"
    )
    assert [e.span.line for e in b.errors] == [2, 3]


def test_tensors_of_another_kernel_are_refused_also_within_lists():
    other = Builder(TRN2).allocate((8, 4), float32, SBUF, "kept")
    b = Builder(TRN2)
    t = b.allocate((8, 4), float32)
    with b.active():
        for call in (lambda: probe_scale(t, other), lambda: probe_join(t, [t, other])):
            with pytest.raises(
                InstructionError, match=r"`kept` .* was made by another kernel call"
            ):
                call()
    assert b.body == []


def test_outside_a_kernel_nothing_is_emitted():
    t = Builder(TRN2).allocate((8, 4), float32)
    with pytest.raises(OutsideKernel, match=r"nki\.isa\.probe_scale was called outside a kernel"):
        probe_scale(t, t)
    with pytest.raises(OutsideKernel, match="outside a kernel"):
        current()


def test_a_builder_is_active_in_its_own_thread_and_block():
    a, b = Builder(TRN2), Builder(TRN2)
    seen = []

    def elsewhere():
        try:
            seen.append(current())
        except OutsideKernel:
            seen.append(None)

    with a.active():
        with b.active():
            assert current() is b
        assert current() is a
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert seen == [None]


def test_findings_are_told_once_per_place():
    b = trace(
        "for k in range(3):\n  b.find('advice', 'slow')\nb.find('advice', 'slow')\nb.find('hazard', 'slow')\n"
    )
    assert [(f.kind, Span.of(f.stack[0]).line) for f in b.findings.values()] == [
        ("advice", 2), ("advice", 3), ("hazard", 4),
    ]  # fmt: skip


# -- arguments -------------------------------------------------------------------------------------------------------


def test_arguments_are_kept_as_they_were_at_the_call():
    b = trace(
        "axes = [1, [2, np.int64(3)]]\nprobe_scale(t, t, scale=np.float32(0.5), axes=axes)\naxes[0] = 9\n"
    )
    i = b.body[0]
    assert i.axes == (1, (2, 3))
    assert [type(v) for v in (i.axes[1][1], i.scale)] == [int, float]


def test_forms_are_shared_by_what_rules_can_see():
    b = trace(
        "u = b.allocate((8, 4), 'float32')\n"
        "probe_scale(t, t)\n"
        "probe_scale(u, u)\n"  # another tensor of the same kind
        "probe_scale(u, u, name='z')\n"
        "probe_scale(u, u, scale=True)\n"
        "probe_scale(u, u, scale=1)\n"
        "probe_scale(u, u, op=add)\n"
        "probe_scale(u[0:4], u[0:4])\n"
    )
    forms = [i.form for i in b.body]
    assert forms[0] is forms[1] is forms[2]
    assert len({id(f) for f in forms[2:]}) == 5
    assert set(b.forms.values()) == set(forms)


def test_lists_of_tensors_at_other_start_partitions_are_other_forms():
    b = Builder(TRN2)
    low = b.allocate((8, 4), float32, SBUF, "low", address=(32, 0))
    odd = b.allocate((8, 4), float32, SBUF, "odd", address=(8, 0))
    with b.active():
        probe_join(low, [low])
        probe_join(low, [odd])
    assert [e.message for e in b.errors] == [
        "probe_join: `parts` must start at partition 0, 32, 64 or 96 (over 32 partitions: 0 or 64; over 64: 0)"
    ]


def test_huge_integers_in_lists_do_no_harm():
    b = Builder(TRN2)
    t = b.allocate((8, 4), float32)
    with b.active():
        probe_scale(t, t, axes=[10**400])
    assert b.body[0].axes == (10**400,)


def test_partitions_that_are_stepped_over_are_for_dma_only():
    b = Builder(TRN2)
    t = b.allocate((64, 4), float32, SBUF, "t")
    u = b.allocate((32, 4), float32, SBUF, "u")
    with b.active():
        probe_move(u, t[::2])
        probe_scale(u, t[::2])
        probe_scale(u[0:1], t[0:2:2])
    assert [(e.message, e.help) for e in b.errors] == [
        ("probe_scale: `data` must be on adjacent partitions",
         "copy every other row with nisa.dma_copy, which may step over partitions"),
    ]  # fmt: skip


# -- tensors ---------------------------------------------------------------------------------------------------------


def test_a_tensor_is_what_was_asked_for():
    b = Builder(TRN3)
    t = b.allocate([128, np.int64(4)], float32, None, "t", address=(0, 64))
    s = t.storage
    assert (s.shape, s.dtype, s.buffer) == ((128, 4), float32, SBUF)
    assert (s.address, s.origin) == ((0, 64), "temporary")
    assert (s.nbytes, s.partitions, s.row_bytes, s.on_chip) == (2048, 128, 16, True)
    h = b.allocate(5, bfloat16, PRIVATE_HBM, "t", origin="constant", data=np.zeros(5)).storage
    assert (h.id, h.name, h.shape, h.nbytes, h.partitions, h.row_bytes) == (
        1,
        "t.1",
        (5,),
        10,
        1,
        10,
    )
    assert s.owner is h.owner is b


def _float(x):
    return x


_float.__name__ = "float"

BAD_TENSORS = [
    (((8, 0), float32), "shape (8, 0) must be positive integers"),
    (((8, -1), float32), "must be positive integers"),
    (((), float32), "must be positive integers"),
    (((8, 4.0), float32), "must be positive integers"),
    (("8x4", float32), "must be positive integers"),
    (((8, 4), "float33"), "dtype 'float33' is not an NKI dtype"),
    (((8, 4), np.float64), "is not an NKI dtype"),
    (((8, 4), float), "dtype float is not an NKI dtype"),
    (((8, 4), _float), "dtype float is not an NKI dtype"),
    (((8, 4), abs), "dtype abs is not an NKI dtype"),
    (((8, 4), object()), "dtype of type object is not an NKI dtype"),
    (((8, 4), float32, "sbuf"), "buffer='sbuf', the name of a memory, is refused since NKI 0.3"),
    (((8,), float32, SBUF), "SBUF and PSUM tensors have a partition axis and a free axis"),
    (((129, 4), float32, PSUM), "129 partitions, but the memory has 128"),
    (((8, 4), float32, SBUF, 7), "name must be a string, found int"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "message"), BAD_TENSORS)
def test_tensors_nki_does_not_have_are_refused(args, message):
    with pytest.raises(TensorArgument) as caught:
        Builder(TRN2).allocate(*args)
    assert message in caught.value.message
    assert " at 0x" not in caught.value.message
    if "dtype float " in message:
        assert caught.value.help == "write nl.float32"


BAD_ADDRESSES = [
    (SHARED_HBM, (0, 0), "only SBUF and PSUM have addresses"),
    (SBUF, 0, "address must be (start partition, byte within the partition)"),
    (SBUF, (0,), "address must be"),
    (SBUF, (0, "a"), "address must be"),
    (SBUF, (128, 0), "does not fit 128 partitions"),
    (SBUF, (97, 0), "address (97, 0) with 32 partitions does not fit 128 partitions"),
    (SBUF, (-32, 0), "does not fit"),
    (SBUF, (0, -4), "the byte must not be negative"),
    (PSUM, (0, 2048 - 12), "the tensor crosses a bank of 2048 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("memory", "address", "message"), BAD_ADDRESSES)
def test_addresses_a_memory_does_not_have_are_refused(memory, address, message):
    with pytest.raises(TensorArgument) as caught:
        Builder(TRN1).allocate((32, 4), float32, memory, address=address)
    assert message in caught.value.message


@pytest.mark.parametrize(("shape", "memory", "address"), [
    ((32, 4), SBUF, (96, 20)), ((32, 4), PSUM, (0, 2048 - 16)), ((32, 1024), PSUM, (0, 2048)),
])  # fmt: skip
def test_addresses_up_to_the_end_are_taken(shape, memory, address):
    assert (
        Builder(TRN2).allocate(shape, float32, memory, address=address).storage.address == address
    )
