"""What each iteration of a loop asks for: against sums over the rows that the program's order says are its own."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.profiler.answers import ANALYSES
from nki_lab.profiler.formats.profile_json import from_json, to_json
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.targets import ALL_TARGETS
from tests.timing import kernels

from .example import profile

X = np.random.default_rng(8).standard_normal((256, 1024), dtype=np.float32)
IN_ORDER = {"skip_passes": "schedule"}


@pytest.mark.parametrize("target", [t.name for t in ALL_TARGETS])
def test_nested_loops_against_positions(target) -> None:
    """Without scheduling, iteration (m, n) is 2 x 3 instructions for k, a copy and a store: 8 in a row."""
    p = nki_lab.run(kernels.tiled_matmul, X[:, :256], X, target=target, **IN_ORDER).profile
    found = p.iterations()
    blocks = found.of("n")
    assert [(*i.outer, (i.variable, i.value)) for i in blocks] == [
        (("m", m), ("n", n)) for m in range(2) for n in range(2)
    ]
    names = p.strings("Instruction", "kernel_instruction_name").to_list()
    block = np.array([int(name.split(".")[1].split(":")[0]) // 8 for name in names])
    duration = p.numbers("Instruction", "duration_ns")
    start, moved = p.numbers("Instruction", "start_ts"), p.numbers(TRANSFERS, "duration_ns")
    ends = p.numbers(TRANSFERS, "end_ts")
    for number, iteration in enumerate(blocks):
        own = block == number
        assert iteration.instructions == own.sum()
        assert iteration.engine_ns == duration[own].sum()
        assert iteration.start_ns == start[own].min()
        # Five transfers each: two for every k, and the store.
        assert iteration.transfer_ns == moved[5 * number : 5 * number + 5].sum()
        assert iteration.end_ns == ends[5 * number + 4]
        assert iteration.elapsed_ns == iteration.end_ns - iteration.start_ns
    # An outer iteration is made of its inner ones; the loop over k leaves copy and store out.
    for m, whole in enumerate(found.of("m")):
        parts = [i for i in blocks if i.outer == (("m", m),)]
        assert whole.instructions == sum(i.instructions for i in parts)
        assert whole.engine_ns == sum(i.engine_ns for i in parts)
        assert (whole.start_ns, whole.end_ns) == (parts[0].start_ns, parts[-1].end_ns)
    inner = found.of("k")
    assert len(inner) == 2 * 2 * 2 and {i.value for i in inner} == {0, 1}
    assert sum(i.transfer_ns for i in inner) < sum(i.transfer_ns for i in blocks)


def looped(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    registry["dma_copy"](t, x)

    def double(passed):
        registry["tensor_scalar"](t, t, op0=nl.multiply, operand0=2.0)

    nl.fori_loop(0, 5, double)
    registry["dma_copy"](out, t)
    return out


def test_passes_of_a_device_loop_are_counted() -> None:
    p = nki_lab.run(looped, X[:128], target="trn2").profile
    found = p.iterations()
    rows = p.strings("Instruction", "opcode").equal_to("SCALAR")
    assert [i.value for i in found] == [0, 1, 2, 3, 4]
    assert [i.start_ns for i in found] == p.numbers("Instruction", "start_ts")[rows].tolist()
    assert {i.instructions for i in found} == {1}


def test_texts_and_saved_profiles() -> None:
    p = nki_lab.run(kernels.tiled_matmul, X, X, target="trn2").profile
    found = p.iterations()
    again = Profile.of(from_json(to_json(p))).iterations()
    assert again == found and str(again) == str(found)
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["m", "n", "k"]
    assert len(str(found.of("k")).splitlines()) == 1 + 24 + 1  # and how many more there are
    assert str(profile().iterations()) == "no loop is known"


def test_of_two_cores_the_one_that_ends_last_is_asked() -> None:
    kernel = nki_lab.jit(kernels.streamed)
    x = np.ones((1024, 128), np.float32)
    one, two = (nki_lab.run(k, x, target="trn2") for k in (kernel, kernel[2]))
    assert len(two.profile.cores) == 2
    assert [i.value for i in two.iterations()] == list(range(8))
    assert [i.instructions for i in two.iterations()] == [i.instructions for i in one.iterations()]
    for name in ("path", "stalls", "iterations", "roofline"):
        head, _, answer = ANALYSES[name](two.profile).partition("\n")
        assert head == f"core {two.profile.slowest.cores[0]}, the last to end"
        assert answer and not ANALYSES[name](one.profile).startswith("core ")
