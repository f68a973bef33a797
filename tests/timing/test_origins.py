"""Tests that each instruction knows the functions it was called through and the loops it was traced in."""

# ruff: noqa: B007, C416 - loops are what is tested

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.profiler.analyses.loops import loop_values
from nki_lab.profiler.analyses.source_lines import positions
from nki_lab.profiler.profile import Profile

dma_copy, memset = registry["dma_copy"], registry["memset"]
X = np.ones((4, 8), np.float32)


def values(kernel, *args, opcode: str = "MEMSET", **options) -> list[str | None]:
    """Return the loop variables of core 0's instructions with an opcode, in the order of the kernel's text."""
    profile = nki_lab.run(kernel, *args, skip_passes="schedule,remove_dead", **options).profile
    codes = profile.strings("Instruction", "opcode").to_list()
    rows = zip(positions(profile), codes, loop_values(profile).to_list(), strict=True)
    found = [(position, text) for position, code, text in rows if code == opcode and position >= 0]
    return [text for _, text in sorted(found, key=lambda pair: pair[0])]


def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, tile)
    return out, nl.ndarray((4, 8), dtype=nl.float32, buffer=nl.sbuf)


def test_loops_within_loops_whatever_range_they_use() -> None:
    def kernel(x):
        out, t = copied(x)
        for i in range(2):
            for j in nl.affine_range(3):
                memset(dst=t, value=float(10 * i + j))
        for k in nl.static_range(5, 9, 2):
            memset(dst=t, value=float(k))
        memset(dst=t, value=0.0)
        return out

    expected = [f"i={i}, j={j}" for i, j in product(range(2), range(3))]
    assert values(kernel, X) == [*expected, "k=5", "k=7", None]


def test_loops_of_the_functions_that_are_called() -> None:
    def helper(t, count):
        for k in range(count):
            memset(dst=t, value=float(k))

    def kernel(x):
        out, t = copied(x)
        for i in range(2):
            helper(t, i + 1)
        helper(t, 1)
        return out

    assert values(kernel, X) == ["i=0, k=0", "i=1, k=0", "i=1, k=1", "k=0"]


def test_targets_of_several_names_and_values_that_are_no_numbers() -> None:
    def kernel(x):
        out, t = copied(x)
        for i, (name, n) in enumerate([("a", 7), ("b", 8)]):
            memset(dst=t, value=float(n))
        for scale in (0.5, np.int64(3), True):
            memset(dst=t, value=float(scale))
        return out

    expected = ["i=0, name=?, n=7", "i=1, name=?, n=8", "scale=?", "scale=3", "scale=1"]
    assert values(kernel, X) == expected


def test_comprehensions_and_generators() -> None:
    def kernel(x):
        out, t = copied(x)
        [memset(dst=t, value=float(a * b)) for a in range(2) for b in range(1, 3)]
        for _ in (memset(dst=t, value=float(c)) for c in range(2)):
            pass
        return out

    pairs = [f"a={a}, b={b}" for a in range(2) for b in (1, 2)]
    assert values(kernel, X) == [*pairs, "c=0", "c=1"]


def test_a_name_is_a_loop_variable_only_inside_its_loop() -> None:
    def kernel(x):
        out, t = copied(x)
        for i in range(2):
            pass
        memset(dst=t, value=float(i))
        for i in range(3, 4):
            [i for i in range(9)]
            memset(dst=t, value=0.0)

            def inner(i=i):
                memset(dst=t, value=float(i))

            inner()
        return out

    assert values(kernel, X) == [None, "i=3", "i=3"]


@pytest.mark.usefixtures("nki_0_6")
def test_device_loops_have_a_variable_whose_value_only_the_device_knows() -> None:
    def kernel(x):
        out, t = copied(x)

        def body(row):
            for k in range(2):
                memset(dst=t, value=float(k))

        for i in range(2):
            nl.fori_loop(0, 3, body)
        for m in nl.dynamic_range(2):
            memset(dst=t, value=0.0)
        return out

    found = [f"i={i}, row=?, k={k}" for i in range(2) for _ in range(3) for k in range(2)]
    assert sorted(map(str, values(kernel, X))) == sorted([*found, "m=?", "m=?"])


def test_each_core_has_its_own_loops() -> None:
    def kernel(x):
        out, t = copied(x)
        for i in range(1 + nl.program_id(0), 3):
            memset(dst=t, value=float(i))
        return out

    assert values(nki_lab.runtime.jit(kernel)[2], X, target="trn2") == ["i=1", "i=2"]


def test_the_second_trace_is_silent(capsys) -> None:
    traced = []

    def kernel(x):
        traced.append(1)
        print("traced")
        out, t = copied(x)
        for i in range(2):
            memset(dst=t, value=float(i))
        return out

    result = nki_lab.run(kernel, X, skip_passes="remove_dead")
    assert capsys.readouterr().out == "traced\n"
    assert result.profile.total_ns and result.profile.summary and repr(result)
    assert len(traced) == 1  # nobody has asked for loop variables
    assert loop_values(result.profile).to_list().count("i=1") == 1
    assert len(traced) == 2
    assert capsys.readouterr() == ("", "")


def test_a_kernel_that_does_something_else_by_now_has_no_loop_variables() -> None:
    count = [2]

    def kernel(x):
        out, t = copied(x)
        for i in range(count[0]):
            memset(dst=t, value=float(i))
        return out

    for later in (1, None):
        count[0] = 2
        result = nki_lab.run(kernel, X, skip_passes="remove_dead")
        count[0] = later  # type: ignore[assignment]
        profile = result.profile
        assert set(loop_values(profile).to_list()) == {None}
        assert profile.count("KernelIterationVariables") == 0
        assert profile.column("KernelInstructions", "iteration_variable_depth") is None
        assert profile.count("KernelInstructions") == len(result.kernel.instructions)


# -- the tables ------------------------------------------------------------------------------------------------------


def outer(x):
    out, t = copied(x)
    for i in range(2):
        filled(t, i)
    return out


def filled(t, i):
    for j in range(2):
        memset(dst=t, value=float(i + j))


@pytest.fixture(scope="module")
def profile() -> Profile:
    return nki_lab.run(outer, X, skip_passes="schedule,remove_dead").profile


def test_frames_link_to_their_callers(profile) -> None:
    frames = {r["stack_frame_id"]: r for r in profile.records("KernelStackFrames")}
    names = [r["fully_qualified_function_name"] for r in frames.values()]
    module = __name__
    assert sorted(names) == [f"{module}.copied", f"{module}.filled", f"{module}.outer"]
    memsets = [r for r in profile.records("KernelInstructions") if r["stack_frame_depth"] == 2]
    for row in memsets:
        frame = frames[row["stack_frame_id"]]
        caller = frames[frame["parent_stack_frame_id"]]
        assert caller["fully_qualified_function_name"] == f"{module}.outer"
        assert caller["parent_stack_frame_id"] is None
        assert caller["line_number"] == outer.__code__.co_firstlineno
        assert frame["file_path"] == "test_origins.py"


def test_variables_link_to_the_loop_around(profile) -> None:
    rows = {r["iteration_variable_id"]: r for r in profile.records("KernelIterationVariables")}
    first = outer.__code__.co_firstlineno
    assert [(r["variable_name"], r["variable_value"]) for r in rows.values()] == [
        ("i", 0), ("j", 0), ("j", 1), ("i", 1), ("j", 0), ("j", 1),
    ]  # fmt: skip
    assert [r["parent_iteration_variable_id"] for r in rows.values()] == [None, 1, 1, None, 4, 4]
    lines = {r["variable_name"]: r["line_number"] for r in rows.values()}
    assert lines == {"i": first + 2, "j": filled.__code__.co_firstlineno + 1}
    found = [
        (r["iteration_variables_id"], r["iteration_variable_depth"], r["line_number"])
        for r in profile.records("KernelInstructions")
    ]
    inner = filled.__code__.co_firstlineno + 2
    assert [f for f in found if f[1]] == [(n, 2, inner) for n in (2, 3, 5, 6)]
    assert all(number is None for number, depth, _ in found if not depth)


def test_outer_loops_alone(profile) -> None:
    assert loop_values(profile, 1).to_list().count("i=1") == 2
    assert set(loop_values(profile, 0).to_list()) == {None}


def test_a_kernel_from_a_file_knows_its_calls_and_no_loops(tmp_path) -> None:
    path = nki_lab.runtime.jit(outer).compile(X).save(tmp_path / "outer.nkic")
    profile = nki_lab.load(path).launch(X).profile
    names = profile.strings("KernelStackFrames", "fully_qualified_function_name").to_list()
    assert set(names) == {"copied", "outer"}  # what `filled` does was removed
    assert profile.column("KernelStackFrames", "line_number") is None
    assert set(loop_values(profile).to_list()) == {None}
