"""Tests that the values around each executed instruction are those of the run itself, whichever way one got there."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import Choices
from nki_lab.errors import AddressOutOfRange, NotModelled
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.tensor.view import whole_view
from nki_lab.runtime import jit, run
from nki_lab.simulator import EagerRun, Program
from nki_lab.simulator.stepping import Around, Stepper
from tests.simulator.kernels import EXAMPLES, one
from tests.simulator.test_device_loops import ROWS, counted, summed_while


@jit
def nested(x, index):
    """Add rows that a tile of indices names, in a loop within a loop; a tile is made anew in each pass."""
    out = nl.ndarray((64, 6), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((64, 6), dtype=x.dtype)
    chosen = nl.ndarray((64, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(chosen, index)

    def outer(i):
        def inner(j):
            tile = nl.ndarray((64, 6), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, x.ap([[6, 64], [1, 6]], vector_offset=chosen))
            nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
            nisa.tensor_tensor(total, total, tile, nl.add)

        nl.fori_loop(0, 3, inner)
        nisa.tensor_scalar(total, total, nl.subtract, 1.0)

    nl.fori_loop(0, 2, outer)
    nisa.dma_copy(out, total)
    return out


@jit
def moved(x):
    """Move each row by a register of a loop, and print one."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def body(i):
        tile = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x.select(0, i).reshape((1, x.shape[1])))
        nl.device_print("row", tile)
        nisa.dma_copy(out.select(0, i).reshape((1, x.shape[1])), tile)

    nl.fori_loop(0, 4, body)
    return out


def arrays_of_nested() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    table = rng.integers(-9, 9, (40, 6)).astype(np.float32)
    return [table, rng.integers(0, 40, (64, 1)).astype(np.int32)]


LOOPS: dict[str, tuple[Any, Callable[[], list[np.ndarray]]]] = {
    "counted": (counted, lambda: [ROWS, one(384)]),
    "while": (summed_while, lambda: [one(5)]),
    "nested": (nested, arrays_of_nested),
    "moved": (moved, lambda: [np.arange(24, dtype=np.float32).reshape(4, 6) - 7]),
}
ALL = [*EXAMPLES, *LOOPS]


def compiled_for(name: str) -> tuple[Any, list[np.ndarray]]:
    """Return a kernel compiled in the author's order, and its inputs."""
    if name in LOOPS:
        kernel, make = LOOPS[name]
        arrays = make()
    else:
        kernel, arrays = EXAMPLES[name].kernel, EXAMPLES[name].arrays(np.random.default_rng(3))
    copies = [a.copy() for a in arrays]
    return run(kernel, *copies, target="trn2", skip_passes="schedule"), arrays


class Noting(EagerRun):
    """Notes what every executed instruction has written."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: list[tuple[str, list[np.ndarray]]] = []

    def _run(self, i: Any) -> None:
        readers = [self._late.reader(view, i) for view in i.written()]
        super()._run(i)
        self.seen.append((i.definition.name, [read() for read in readers]))


def noted(name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[np.ndarray]]]:
    """Return what every instruction writes, of a run while the kernel is traced."""
    made: list[Noting] = []

    def noting(*args: Any) -> Noting:
        made.append(Noting(*args))
        return made[-1]

    monkeypatch.setattr(import_module("nki_lab.runtime.jit"), "EagerRun", noting)
    kernel = LOOPS[name][0] if name in LOOPS else EXAMPLES[name].kernel
    arrays = LOOPS[name][1]() if name in LOOPS else EXAMPLES[name].arrays(np.random.default_rng(3))
    run(kernel, *arrays, target="trn2", skip_passes="schedule", debug=True)
    return made[0].seen


def bits(array: np.ndarray | None) -> bytes | None:
    return None if array is None else np.ascontiguousarray(array).tobytes()


def written_by(around: Around) -> list[bytes | None]:
    return [bits(o.after) for o in around.operands if o.role != "read"]


def image(around: Around) -> Any:
    """Return everything a step tells, so that it can be compared."""
    operands = [(o.name, o.role, bits(o.before), bits(o.after)) for o in around.operands]
    passes = [(p.loop.number, p.number, p.total, p.value) for p in around.passes]
    return around.number, around.position, operands, passes, around.registers, around.printed


@pytest.mark.parametrize("name", ALL)
def test_values_are_those_of_a_run_while_the_kernel_is_traced(name, monkeypatch, capsys) -> None:
    result, arrays = compiled_for(name)
    expected = noted(name, monkeypatch)
    capsys.readouterr()
    stepper = Stepper(result.kernel, arrays)
    assert stepper.count == len(result.execution.order) == len(expected)
    assert stepper.order.tolist() == list(result.execution.order)
    for number, (instruction, values) in enumerate(expected):
        around = stepper.around(number)
        assert result.kernel.instructions[around.position].definition.name == instruction
        assert written_by(around) == [bits(v) for v in values], (number, instruction)
    assert capsys.readouterr().out == ""  # what a kernel prints has been printed when it ran


@pytest.mark.parametrize("name", EXAMPLES)
def test_values_after_an_instruction_are_those_of_a_run_cut_after_it(name) -> None:
    result, arrays = compiled_for(name)
    kernel = result.kernel
    stepper = Stepper(kernel, arrays)
    for number in range(0, stepper.count, max(1, stepper.count // 12)):
        cut = kernel.with_(body=kernel.instructions[: number + 1])
        program = Program(cut, Choices(shared_bytes=True))
        for held in program.memory.held().values():
            held.fill(0xFF)  # so that bytes nothing has written are alike
        program.run([a.copy() for a in arrays])
        for operand in stepper.around(number).operands:
            if operand.role != "read" and operand.view.dynamic is None:
                assert bits(operand.after) == bits(program.memory.array(operand.view))
        life = kernel.lifetimes
        for storage in kernel.storages:
            if storage.id in cut.lifetimes and life[storage.id].last >= number:
                held = stepper.values(number + 1, storage)
                if held is not None and storage.id not in (v.storage.id for v in kernel.outputs):
                    assert bits(held) == bits(program.memory.array(whole_view(storage))), (
                        storage.name
                    )


@pytest.mark.parametrize("budget", [0, 200_000, 1 << 30])
@pytest.mark.parametrize("name", ALL)
def test_values_are_the_same_forward_back_and_in_leaps(name, budget) -> None:
    result, arrays = compiled_for(name)
    stepper = Stepper(result.kernel, arrays)
    straight = [image(stepper.around(n)) for n in range(stepper.count)]
    leaping = Stepper(result.kernel, arrays, snapshot_bytes=budget)
    leaping._kept.interval = 3
    numbers = np.random.default_rng(1).integers(0, stepper.count, 25).tolist()
    for number in [*numbers, *range(stepper.count - 1, max(-1, stepper.count - 12), -1)]:
        assert image(leaping.around(number)) == straight[number]
        assert leaping.snapshot_bytes <= budget


def test_all_steppers_share_the_memory_of_snapshots() -> None:
    result, arrays = compiled_for("matmul")
    alone = Stepper(result.kernel, arrays)
    budget = 2 * alone.snapshot_bytes
    assert budget
    made = [Stepper(result.kernel, arrays, snapshot_bytes=budget) for _ in range(4)]
    assert sum(s.snapshot_bytes for s in made) <= budget
    assert made[-1].snapshot_bytes > 0
    expected = image(alone.around(alone.count - 2))
    assert [image(s.around(s.count - 2)) for s in made] == [expected] * 4
    assert sum(s.snapshot_bytes for s in made) <= budget


@pytest.mark.parametrize("name", ALL)
def test_the_outputs_are_those_of_the_run_and_the_callers_arrays_stay(name) -> None:
    result, arrays = compiled_for(name)
    before = [bits(a) for a in arrays]
    stepper = Stepper(result.kernel, arrays)
    stepper.around(stepper.count - 1)
    assert [bits(o) for o in stepper.outputs] == [bits(o) for o in result.outputs]
    assert [bits(a) for a in arrays] == before


def test_passes_of_loops_are_told_with_their_registers() -> None:
    result, arrays = compiled_for("nested")
    stepper = Stepper(result.kernel, arrays)
    body = next(n for n in result.kernel.body if isinstance(n, Loop))
    positions = [n for n, k in enumerate(result.kernel.loop_numbers) if k]
    inner = [n for n in range(stepper.count) if len(stepper.around(n).passes) == 2]
    assert len(inner) == 2 * 3 * 3
    seen = [[(p.number, p.total, p.value) for p in stepper.around(n).passes] for n in inner[::3]]
    assert seen == [[(i, 2, i), (j, 3, j)] for i in range(2) for j in range(3)]
    assert set(stepper.order[inner].tolist()) < set(positions) and body.kind == "for"


def test_what_nothing_has_written_has_no_values() -> None:
    result, arrays = compiled_for("nested")
    stepper = Stepper(result.kernel, arrays)
    for number in range(stepper.count):
        around = stepper.around(number)
        name = result.kernel.instructions[around.position].definition.name
        dst = around.operands[0]
        if dst.view.name.startswith("tile") and name == "dma_copy":  # made anew in each pass
            assert dst.before is None and dst.after is not None
        if dst.view.name.startswith("tile") and name == "tensor_scalar":
            np.testing.assert_array_equal(dst.after, 3 * dst.before)
    assert stepper.values(0, result.kernel.outputs[0].storage) is None


@jit
def in_parts(x):
    out = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((4, 6), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile[:, 0:2], x[:, 0:2])
    nisa.dma_copy(tile[:, 1:6:2], x[:, 1:6:2])
    nisa.dma_copy(tile[:, 2:6], x[:, 2:6])
    nisa.dma_copy(out[0:2], tile[0:2])
    nisa.dma_copy(out[2:4], tile[2:4])
    return out


def test_elements_that_nothing_has_written_are_told_apart() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    stepper = Stepper(run(in_parts, x, target="trn2", skip_passes="schedule").kernel, [x])
    first, odd, rest, upper, lower = (stepper.around(n).operands[0] for n in range(5))
    assert first.before is None and upper.before is None and lower.before is None
    assert odd.unwritten.tolist() == [[False, True, True]] * 4
    np.testing.assert_array_equal(odd.before[:, 0], x[:, 1])
    assert rest.unwritten.tolist() == [[True, False, True, False]] * 4
    assert stepper.around(1).operands[1].unwritten is None


def test_gathered_rows_are_those_the_indices_name() -> None:
    result, (table, index) = compiled_for("nested")
    stepper = Stepper(result.kernel, [table, index])
    gathers = [
        o
        for n in range(stepper.count)
        for o in stepper.around(n).operands
        if o.view.dynamic is not None
    ]
    assert len(gathers) == 6
    for operand in gathers:
        np.testing.assert_array_equal(operand.before, table[index[:, 0]])


def test_what_is_printed_belongs_to_its_instruction() -> None:
    result, arrays = compiled_for("moved")
    stepper = Stepper(result.kernel, arrays)
    printed = [p for n in range(stepper.count) if (p := stepper.around(n).printed)]
    assert len(printed) == 4
    assert all(f"{arrays[0][k, 0]:g}." in text for k, text in enumerate(printed))


@jit
def logarithms(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nisa.reciprocal(tile, tile)
    nisa.tensor_scalar(tile, tile, nl.multiply, 0.0)
    nisa.dma_copy(out, tile)
    return out


def test_the_first_value_that_is_no_number_is_found() -> None:
    x = (
        np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    )  # 1 / (x + 1) is infinite once, then inf * 0 is NaN
    result = run(logarithms, x, target="trn2", skip_passes="schedule")
    stepper = Stepper(result.kernel, [x])
    names = [result.kernel.instructions[p].definition.name for p in stepper.order]
    first = stepper.next_not_finite(0)
    assert names[first] == "reciprocal"
    assert np.isinf(stepper.around(first).operands[0].after).sum() == 1
    assert np.isfinite(stepper.around(first).operands[1].before).all()
    assert stepper.next_not_finite(first + 1) == first + 1
    assert np.isnan(stepper.around(first + 1).operands[0].after).sum() == 1
    assert stepper.next_not_finite(stepper.count) is None
    fine = run(logarithms, np.abs(x), target="trn2")
    assert Stepper(fine.kernel, [np.abs(x)]).next_not_finite(0) is None


def test_touches_of_a_tensor_are_those_of_the_executed_instructions() -> None:
    result, arrays = compiled_for("nested")
    stepper = Stepper(result.kernel, arrays)
    total = next(s for s in result.kernel.storages if s.name.startswith("total"))
    written = stepper.touching(total, writes=True, reads=False).tolist()
    expected = [
        n
        for n in range(stepper.count)
        if any(o.view.storage is total and o.role != "read" for o in stepper.around(n).operands)
    ]
    assert written == expected and len(written) == 1 + 6 + 2


@jit
def too_far(x, index):
    out = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((1, 6), dtype=x.dtype, buffer=nl.sbuf)
    chosen = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(chosen, index)
    register = nisa.register_alloc()
    nisa.register_load(register, chosen)
    nisa.dma_copy(tile, x.select(0, register).reshape((1, 6)))
    nisa.dma_copy(out, tile)
    return out


def test_a_run_that_fails_can_be_looked_at_up_to_its_end() -> None:
    x = np.ones((4, 6), np.float32)
    kernel = run(too_far, x, one(2), target="trn2", skip_passes="schedule").kernel
    stepper = Stepper(kernel, [x, one(9)])
    assert isinstance(stepper.error, AddressOutOfRange) and stepper.outputs == []
    assert stepper.count == 3
    last = stepper.around(2)
    assert last.error is stepper.error
    assert [o.after for o in last.operands] == [None, None]
    assert 9 in last.registers.values()
    assert stepper.around(0).operands[0].after == 9


def test_two_cores_are_refused_with_the_way_out() -> None:
    kernel = compiled_for("matmul")[0].kernel.with_(program=(0, 2))
    with pytest.raises(NotModelled, match="a stepper follows one core") as caught:
        Stepper(kernel, [])
    assert "kernel[1]" in caught.value.help


def test_a_number_past_the_end_is_refused() -> None:
    result, arrays = compiled_for("while")
    stepper = Stepper(result.kernel, arrays)
    for number in (-1, stepper.count):
        with pytest.raises(IndexError, match=f"{stepper.count} instructions ran"):
            stepper.around(number)
