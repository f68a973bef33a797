"""Tests that Python state that changes in the body of a device loop is reported, and nothing that does not change.

What should be told is decided by Python: each kernel below is also run with plain Python loops, where the state changes
from pass to pass, and the two results differ.
"""

import dataclasses
import functools
from collections import deque

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab import NkiWarning
from nki_lab.api import isa as nisa
from nki_lab.runtime import jit, run, simulate

pytestmark = pytest.mark.usefixtures("nki_0_6")

X = np.random.default_rng(2).standard_normal((8, 4)).astype(np.float32)


def stored(t):
    out = nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)
    return out


def add(t, value):
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(value))


class Unrolled:
    """The loops of the language as Python runs them."""

    @staticmethod
    def dynamic_range(*bounds):
        return range(*bounds)

    @staticmethod
    def fori_loop(lower, upper, body, step=1):
        for k in range(lower, upper, step):
            body(k)


# -- what is told -----------------------------------------------------------------------------------------------------


def counter(x, loops):
    t, n = nl.load(x), 0
    for _ in loops.dynamic_range(3):
        n += 1  # noqa: SIM113
        add(t, n)
    return stored(t)


def counter_written_out(x, loops):
    t, n = nl.load(x), 1
    for _ in loops.dynamic_range(3):
        add(t, n)
        n = n * 2
    return stored(t)


def flag(x, loops):
    t, first = nl.load(x), True
    for _ in loops.dynamic_range(3):
        if first:
            add(t, 5)
        first = False
    return stored(t)


def swapped(x, loops):
    t, a, b = nl.load(x), 1, 10
    for _ in loops.dynamic_range(3):
        add(t, a)
        a, b = b, a
    return stored(t)


def appended(x, loops):
    t, seen = nl.load(x), []
    for _ in loops.dynamic_range(3):
        seen.append(1)
        add(t, len(seen))
    return stored(t)


def appended_and_read_after(x, loops):
    t, seen = nl.load(x), []
    for _ in loops.dynamic_range(3):
        seen.append(1)
        add(t, 1)
    add(t, len(seen))
    return stored(t)


def popped(x, loops):
    t, values = nl.load(x), [1, 2, 3]
    for _ in loops.dynamic_range(3):
        add(t, values.pop())
    return stored(t)


def rotated(x, loops):
    t, values = nl.load(x), deque([1, 2, 3])
    for _ in loops.dynamic_range(3):
        add(t, values[0])
        values.rotate(1)
    return stored(t)


def kept_in_dict(x, loops):
    t, state = nl.load(x), {"n": 0}
    for _ in loops.dynamic_range(3):
        state["n"] += 1
        add(t, state["n"])
    return stored(t)


def set_in_dict(x, loops):
    t, state = nl.load(x), {"n": 0}
    for _ in loops.dynamic_range(3):
        state["n"] = state.get("n") + 1
        add(t, state["n"])
    return stored(t)


def in_a_set(x, loops):
    t, seen = nl.load(x), set()
    for _ in loops.dynamic_range(3):
        add(t, 1 if "once" in seen else 7)
        seen.add("once")
    return stored(t)


@dataclasses.dataclass
class State:
    n: int = 0
    items: list = dataclasses.field(default_factory=list)


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


def attribute(x, loops):
    t, state = nl.load(x), State()
    for _ in loops.dynamic_range(3):
        state.n += 1
        add(t, state.n)
    return stored(t)


def slot(x, loops):
    t, state = nl.load(x), Slotted()
    for _ in loops.dynamic_range(3):
        state.n = state.n + 1
        add(t, state.n)
    return stored(t)


def list_of_an_object(x, loops):
    t, state = nl.load(x), State()
    for _ in loops.dynamic_range(3):
        state.items.append(1)
        add(t, len(state.items))
    return stored(t)


def list_around_a_body(x, loops):
    t, seen = nl.load(x), []

    def body(i):
        seen.append(1)
        add(t, len(seen))

    loops.fori_loop(0, 3, body)
    return stored(t)


def list_in_a_lambda(x, loops):
    t, values = nl.load(x), [1, 2, 3]
    loops.fori_loop(0, 3, lambda i: add(t, values.pop(0)))
    return stored(t)


def pushed_to(seen, t):
    seen.append(1)
    add(t, len(seen))


def list_in_a_helper(x, loops):
    t, seen = nl.load(x), []
    for _ in loops.dynamic_range(3):
        pushed_to(seen, t)
    return stored(t)


def list_of_a_partial(x, loops):
    t = nl.load(x)

    def body(seen, i):
        pushed_to(seen, t)

    loops.fori_loop(0, 3, functools.partial(body, []))
    return stored(t)


class Body:
    def __init__(self, t):
        self.t, self.n = t, 0

    def step(self, i):
        self.n += 1
        add(self.t, self.n)

    def __call__(self, i):
        self.step(i)
        self.n += 1
        add(self.t, self.n)


def method_as_body(x, loops):
    t = nl.load(x)
    loops.fori_loop(0, 3, Body(t).step)
    return stored(t)


def object_as_body(x, loops):
    t = nl.load(x)
    loops.fori_loop(0, 3, Body(t))
    return stored(t)


def another_part_of_a_tile(x, loops):
    t = nl.load(x)
    part = t[:, 0:2]
    for _ in loops.dynamic_range(2):
        add(part, 1)
        part = t[:, 2:4]
    return stored(t)


def another_tile(x, loops):
    t, u = nl.load(x), nl.load(x)
    source = u
    for _ in loops.dynamic_range(3):
        nisa.tensor_tensor(dst=t, data1=t, data2=source, op=nl.add)
        source = t
    return stored(t)


def in_a_nested_loop(x, loops):
    t, n = nl.load(x), 0
    for _ in loops.dynamic_range(2):
        for _ in loops.dynamic_range(3):
            n += 1
            add(t, n)
    return stored(t)


TOLD = [
    (counter, "n", "0"),
    (counter_written_out, "n", "1"),
    (flag, "first", "True"),
    (swapped, "a", "1"),
    (appended, "seen", ""),
    (appended_and_read_after, "seen", ""),
    (popped, "values", ""),
    (rotated, "values", ""),
    (kept_in_dict, "state", ""),
    (set_in_dict, "state", ""),
    (in_a_set, "seen", ""),
    (attribute, "state.n", "0"),
    (slot, "state.n", "0"),
    (list_of_an_object, "state.items", ""),
    (list_around_a_body, "seen", ""),
    (list_in_a_lambda, "values", ""),
    (list_in_a_helper, "seen", ""),
    (list_of_a_partial, "seen", ""),
    (method_as_body, "self.n", "0"),
    (object_as_body, "self.n", "0"),
    (in_a_nested_loop, "n", "0"),
    (another_part_of_a_tile, "part", ""),
    (another_tile, "source", ""),
]


def of_state(kernel, *args):
    result = run(kernel, *args)
    return [
        f for f in result.findings if "changes in the body of a device loop" in f.message
    ], result


@pytest.mark.parametrize(("kernel", "name", "value"), TOLD)
def test_state_that_changes_is_told(kernel, name, value):
    found, result = of_state(kernel, X, nl)
    assert not np.allclose(result.value, run(kernel, X, Unrolled).value)
    assert {f.kind for f in found} == {"hazard"}
    (message,) = [f.message for f in found if f.message.startswith(f"`{name}` ")]
    ends = f"before the loop: {value}" if value else "before the loop"
    assert message.partition("; ")[0].endswith(ends)


def test_it_is_told_through_every_door():
    kernel = counter
    for way in (jit(kernel), simulate(kernel), jit(kernel).compile(X, nl), jit(kernel, debug=True)):
        with pytest.warns(NkiWarning, match="`n` changes in the body of a device loop") as told:
            way(X, nl)
        lines = open(__file__, encoding="utf-8").read().splitlines()  # noqa: SIM115
        (line,) = {w.lineno for w in told if "`n`" in str(w.message)}
        assert lines[line - 1].strip().startswith("n += 1")
    assert "hazard" in {f.kind for f in nki_lab.benchmark(kernel, X, nl).findings}


def older_while(x):
    t, n = nl.load(x), 0
    more = nisa.register_alloc(2)
    left = nl.full((1, 1), 2, nl.int32)
    while more:
        n += 1
        add(t, n)
        nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1)
        nisa.register_load(more, left)
    return stored(t)


def while_loop(x):
    t, seen = nl.load(x), []
    more = nisa.register_alloc(2)
    left = nl.full((1, 1), 2, nl.int32)

    def body(more):
        seen.append(1)
        add(t, len(seen))
        nisa.tensor_scalar(dst=left, data=left, op0=nl.subtract, operand0=1)
        nisa.register_load(more, left)
        return more

    nl.while_loop(more, body)
    return stored(t)


@pytest.mark.parametrize("kernel", [older_while, while_loop])
def test_loops_over_a_register_are_looked_at_too(kernel):
    found, result = of_state(kernel, X)
    assert len(found) == 1
    assert np.array_equal(result.value, X + 1 + 1)


# -- what is not ------------------------------------------------------------------------------------------------------


def names_made_in_the_body(x, loops):
    t, k, kept = nl.load(x), 7, None
    tiles = []
    for _ in loops.dynamic_range(3):
        kept = [1, 2]
        kept.append(3)
        for k in range(2):
            add(t, k + len(kept))
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.tensor_copy(dst=tile, src=t)
        nisa.tensor_copy(dst=t, src=tile)
        total = sum(v for v in kept)
        add(t, total)
    assert tiles == []
    return stored(t)


def the_same_value_in_each_pass(x, loops):
    t, scale = nl.load(x), 2
    for _ in loops.dynamic_range(3):
        scale = scale + 0
        add(t, scale)
    return stored(t)


def tiles_by_name(x, loops):
    t, cache = nl.load(x), {}
    for _ in loops.dynamic_range(3):
        if "two" not in cache:
            cache["two"] = 2
        add(t, cache["two"])
    return stored(t)


def instructions_in_a_list(x, loops):
    t, done = nl.load(x), []
    for _ in loops.dynamic_range(3):
        done.append(nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0))
    return stored(t)


def taken_and_put_back(x, loops):
    t, free = nl.load(x), [1, 2]
    for _ in loops.dynamic_range(3):
        value = free.pop()
        add(t, value)
        free.append(value)
    return stored(t)


def an_objects_own_counter(x, loops):
    class Maker:
        def __init__(self):
            self.made = 0

        def tile(self, like):
            self.made += 1
            return nl.ndarray(like.shape, like.dtype, name=f"tile{self.made}")

    t, maker = nl.load(x), Maker()

    def body(i):
        tile = maker.tile(x)
        nisa.tensor_copy(dst=tile, src=t)
        add(t, 1)

    loops.fori_loop(0, 3, body)
    return stored(t)


def locals_of_a_body(x, loops):
    t, n = nl.load(x), 3

    def body(i):
        n = 0
        n += 1
        add(t, n)

    loops.fori_loop(0, 3, body)
    add(t, n)
    return stored(t)


def state_in_a_tensor(x, loops):
    t, one = nl.load(x), nl.full((8, 4), 1.0, nl.float32)
    for _ in loops.dynamic_range(3):
        nisa.tensor_tensor(dst=t, data1=t, data2=one, op=nl.add)
    return stored(t)


def changed_between_loops(x, loops):
    t, n = nl.load(x), 0
    for k in range(2):
        n += 1  # noqa: SIM113
        for _ in loops.dynamic_range(2):
            add(t, n * k)
    return stored(t)


def an_argument_that_a_helper_names_anew(x, loops):
    def helper(value):
        value = value + 1
        add(t, value)

    t, value = nl.load(x), 5
    for _ in loops.dynamic_range(2):
        value = 2
        helper(value)
    return stored(t)


def another_shape_of_a_tile(x, loops):
    t = nl.load(x)
    for _ in loops.dynamic_range(3):
        t = t.reshape((8, 2, 2))
        add(t, 1)
        t = t.reshape((8, 4))
        add(t[:, 0:2], 1)
    t = t.reshape((8, 4))
    return stored(t)


NOT_TOLD = [
    another_shape_of_a_tile,
    names_made_in_the_body,
    the_same_value_in_each_pass,
    tiles_by_name,
    instructions_in_a_list,
    taken_and_put_back,
    an_objects_own_counter,
    locals_of_a_body,
    state_in_a_tensor,
    changed_between_loops,
    an_argument_that_a_helper_names_anew,
]


@pytest.mark.parametrize("kernel", NOT_TOLD)
def test_what_is_the_same_in_python_is_not_told(kernel):
    found, result = of_state(kernel, X, nl)
    assert found == []
    assert np.array_equal(result.value, run(kernel, X, Unrolled).value)
