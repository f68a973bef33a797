"""Tests that the verifier finds everything that is wrong with a kernel, each thing once and in order."""

from pathlib import Path

import numpy as np
import pytest

from nki_lab.dtypes import bfloat16, float32
from nki_lab.errors import (
    AddressConflict,
    BrokenProgram,
    KernelResult,
    OutOfBounds,
    OverCapacity,
    RuleBroken,
    WrongOperand,
)
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.nodes import Kernel, Loop, OutputRef
from nki_lab.ir.program.verify import verify
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.view import whole_view
from nki_lab.ir.text.parser import parse_kernel
from nki_lab.targets import TRN2
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF, SHARED_HBM
from tests.ir.programs import (
    DEFINITIONS,
    NAMES,
    finished,
    kernel_of,
    probe_join,
    probe_move,
    probe_scale,
    scaled,
)


def found(kernel):
    return [(type(error), error.message) for error in verify(kernel)]


def read(text):
    return parse_kernel("nkir 1\nkernel k on trn2 " + text, DEFINITIONS, NAMES)


def test_a_sound_kernel_has_nothing_to_say():
    assert verify(finished()) == []
    assert verify(Kernel("nothing", TRN2)) == []


def test_every_rule_of_every_instruction_is_reported_in_the_order_of_the_lines():
    b = Builder(TRN2)
    with b.active():
        t = b.allocate((8, 4), float32, SBUF, "t")
        h = b.allocate((8, 4), float32, SHARED_HBM, "h")
        late = b.body
        probe_join(t, [h, t])
        probe_scale(t, t[:, 0:2], scale=-1)
        b.body = [*late[1:], late[0]]
    errors = verify(kernel_of(b))
    assert [(type(e), e.message) for e in errors] == [
        (WrongOperand, "probe_join: `parts` must be in sbuf"),
        (RuleBroken, "probe_scale: `dst` and `data` must have the same free size"),
        (RuleBroken, "probe_scale: `scale` must not be negative"),
    ]
    here = Path(__file__).read_text().splitlines()
    assert ["probe_join(t, [h, t])" in here[e.span.line - 1] for e in errors] == [
        True,
        False,
        False,
    ]
    assert errors[0].notes == (
        "parts = `h` [8, 4] float32 in shared_hbm",
        "parts = `t` [8, 4] float32 in sbuf",
    )
    assert errors[1].help == "slice the larger one"


def test_an_unrolled_loop_makes_a_mistake_once():
    b = Builder(TRN2)
    with b.active():
        t = b.allocate((8, 4), float32, SBUF, "t")
        for k in range(3):
            probe_scale(t, t, scale=-1 - k)
    assert [m for _, m in found(kernel_of(b))] == ["probe_scale: `scale` must not be negative"]


def test_rules_inside_loops_and_of_instructions_that_a_pass_made_are_checked():
    b = scaled()
    broken = b.body[1].with_args(scale=-2.0)
    kernel = kernel_of(b, body=(Loop("while", (), True, (broken,)),))
    assert found(kernel) == [(RuleBroken, "probe_scale: `scale` must not be negative")]


def test_tensors_of_another_kernel():
    a, b = scaled(), scaled()
    kernel = kernel_of(a, body=(a.body[0], b.body[1]))
    assert found(kernel) == [
        (BrokenProgram, "probe_scale: `part` [128, 512] bfloat16 in sbuf is not in this kernel")
    ]


@pytest.mark.parametrize(("view", "message"), [
    ("9x8 @ 0, strides 8x1", "reaches partitions 0 to 8 of 8"),
    ("8x8 @ 8, strides 8x1", "reaches partitions 1 to 8 of 8"),
    ("2x8 @ -8, strides 8x1", "reaches partitions -1 to 0 of 8"),
    ("8x9 @ 0, strides 8x1", "reaches elements 0 to 8 of each partition, which has 8"),
    ("8x3 @ 1, strides 8x-1", "reaches elements -1 to 1 of each partition, which has 8"),
    ("8x8 @ 0, strides 7x1", "steps 7 elements along the partitions, which hold 8 each"),
    ("8x8 @ 0, strides 8x1, int32", ""),
    ("8x17 @ 0, strides 16x1, bfloat16", "reaches elements 0 to 16 of each partition, which has 16"),
    ("1x8 @ 56, strides 5x1", ""),
])  # fmt: skip
def test_views_stay_inside_their_storage(view, message):
    kernel = read(f"{{ storage %t: float32[8x8] in sbuf probe_scale(dst=%t[{view}], data=%t[{view}]) }}")  # fmt: skip
    errors = [e for e in found(kernel) if e[0] is OutOfBounds]
    assert [m.split("in sbuf ")[1] for _, m in errors] == ([message] if message else [])


def test_hbm_views_may_run_over_rows_but_not_over_the_end():
    text = "{{ storage %t: float32[8x8] in shared_hbm probe_move(dst=%t, src=%t[{0} @ {1}, strides 1]) }}"  # fmt: skip
    assert verify(read(text.format(64, 0))) == []
    assert found(read(text.format(64, 1))) == [
        (OutOfBounds, "probe_move: the view `t` [64] float32 in shared_hbm reaches elements 1 to 64, which has 64")
    ]  # fmt: skip


def allocated(shape, dtype, memory, address, asked=None):
    b = Builder(TRN2)
    t = b.allocate(shape, dtype, memory, "t", address=asked)
    with b.active():
        probe_move(t, t)
    return kernel_of(b, addresses={0: Address(*address)})


SBUF_LIMIT = TRN2.sbuf_usable_bytes_per_partition


@pytest.mark.parametrize(("kernel", "error", "message"), [
    (allocated((64, 4), float32, SBUF, (96, 0)), AddressConflict, "reaches partition 159, but the memory has 128"),
    (allocated((64, 4), float32, SBUF, (-1, 0)), AddressConflict, "reaches partition 62"),
    (allocated((64, 4), float32, SBUF, (0, -1)), OverCapacity, "takes bytes -1 to 15 of each partition"),
    (allocated((64, 4), float32, SBUF, (0, SBUF_LIMIT - 15)), OverCapacity, f" to {SBUF_LIMIT + 1} of each partition"),
    (allocated((64, 4), float32, PSUM, (0, 8 * 2048 - 8)), OverCapacity, "which has 16384 to use"),
    (allocated((64, 8), bfloat16, PSUM, (0, 2040)), AddressConflict, "crosses a bank of 2048 bytes"),
    (allocated((64, 4), float32, SHARED_HBM, (0, 0)), AddressConflict, "only SBUF and PSUM have addresses"),
    (allocated((64, 4), float32, SBUF, (0, 64), (0, 0)), BrokenProgram, "is at (0, 64), the author asked for (0, 0)"),
])  # fmt: skip
def test_addresses_lie_in_their_memory(kernel, error, message):
    [(kind, text)] = [f for f in found(kernel) if f[0] is not BrokenProgram] or found(kernel)
    assert kind is error
    assert text.startswith("`t` [64, ")
    assert message in text


@pytest.mark.parametrize("kernel", [
    allocated((64, 4), float32, SBUF, (64, SBUF_LIMIT - 16)),
    allocated((128, 4), float32, PSUM, (0, 8 * 2048 - 16)),
    allocated((128, 1024), float32, PSUM, (0, 4096)),  # whole banks
    allocated((64, 4), float32, SBUF, (0, 64), (0, 64)),
])  # fmt: skip
def test_addresses_up_to_the_end_are_fine(kernel):
    assert verify(kernel) == []


def test_every_tile_in_use_has_an_address_once_its_memory_is_allocated():
    kernel = finished()
    assert found(kernel.with_(addresses={2: Address(0, 0)})) == [
        (BrokenProgram, "`part.1` [128, 512] bfloat16 in sbuf is used but has no address")
    ]
    assert verify(kernel.with_(addresses={})) == []
    stray = {**kernel.addresses, 9: Address(0, 0)}
    assert found(kernel.with_(addresses=stray)) == [
        (BrokenProgram, "there is an address for storage 9, which is not in the kernel")
    ]


def test_storages_are_numbered_named_and_filled():
    data = np.zeros((4, 4), np.float32)
    storages = (
        Storage(1, "a", (4, 4), float32, PRIVATE_HBM, data=data),
        Storage(1, "a", (4, 8), float32, PRIVATE_HBM, data=data),
        Storage(2, "b", (4, 8), float32, SBUF, address=Address(126, 0)),
    )
    assert found(Kernel("k", TRN2, storages=storages)) == [
        (BrokenProgram, "`a` [4, 4] float32 in private_hbm has id 1 at position 0"),
        (BrokenProgram, "two storages are called `a`"),
        (BrokenProgram, "`a` [4, 8] float32 in private_hbm holds data of shape [4, 4]"),
        (AddressConflict, "`b` [4, 8] float32 in sbuf requested at (126, 0):"
         " reaches partition 129, but the memory has 128"),
    ]  # fmt: skip


def test_waits_are_for_earlier_instructions():
    kernel = finished().with_(waits=((0,), (0,), (4,), (), (99,), (-1,)))
    assert [m for _, m in found(kernel)] == [
        "probe_move: #0 waits for #0 probe_move, which does not come before it",
        "probe_scale: #4 waits for #99, which does not come before it",
        "probe_move: #2 waits for #4 probe_scale, which does not come before it",
        "probe_move: #5 waits for #-1, which does not come before it",
    ]
    assert found(kernel.with_(waits=((),))) == [
        (BrokenProgram, "there are waits for 1 instructions, the kernel has 6")
    ]


def test_an_instruction_depends_on_earlier_ones_or_on_what_was_removed():
    b = scaled()
    b.body[2].after = (b.body[4], b.body[0])
    assert found(kernel_of(b)) == [
        (BrokenProgram, "probe_move: #2 depends on #4 probe_scale, which does not come before it")
    ]
    assert verify(kernel_of(b, body=tuple(b.body[1:4]))) == []


def test_results_are_outputs_in_shared_memory():
    b = scaled()
    x, out, part, _ = (whole_view(s) for s in b.storages)
    assert found(kernel_of(b, outputs=(part,), result=OutputRef(0))) == [
        (KernelResult, "probe returns `part` [128, 512] bfloat16 in sbuf: a result must be in shared_hbm")
    ]  # fmt: skip
    message = "probe has 2 outputs, its result holds [0, 2]"
    result = {"a": (OutputRef(2), [3]), "b": OutputRef(0)}
    assert found(kernel_of(b, outputs=(x, out), result=result)) == [(BrokenProgram, message)]
    beyond = x.ap([[512, 256], [1, 512]])._make(x.storage, (256, 513), (512, 1), 0, float32)
    assert found(kernel_of(b, outputs=(beyond,), result=OutputRef(0))) == [
        (OutOfBounds, "result: the view `x` [256, 513] float32 in shared_hbm reaches elements 0 to 131072,"
         " which has 131072")
    ]  # fmt: skip
