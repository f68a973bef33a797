"""Tests that changing state is reported deep in containers, arrays, iterators, defaults, closures and classes.

As in `test_loop_state`, plain Python loops say what should be told.
"""

import collections
import itertools

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import run
from tests.language.test_loop_state import State, Unrolled, X, add, of_state, stored

pytestmark = pytest.mark.usefixtures("nki_0_6")


def deep_in_a_dict(x, loops):
    t, d = nl.load(x), {"a": [1.0]}
    for _ in loops.dynamic_range(3):
        d["a"][0] += 1.0
        add(t, d["a"][0])
    return stored(t)


def deep_in_a_list(x, loops):
    t, d = nl.load(x), [[0.0], [0.0]]
    for _ in loops.dynamic_range(3):
        d[1][0] = d[1][0] + 2.0
        add(t, d[1][0])
    return stored(t)


def deeper(x, loops):
    t, d = nl.load(x), {"a": [{"b": (1, [2.0])}]}
    for _ in loops.dynamic_range(3):
        d["a"][0]["b"][1].append(1)
        add(t, len(d["a"][0]["b"][1]))
    return stored(t)


def new_list_of_a_dict(x, loops):
    t, d = nl.load(x), collections.defaultdict(list)
    for _ in loops.dynamic_range(3):
        d["a"].append(1)
        add(t, len(d["a"]))
    return stored(t)


def swapped_deep(x, loops):
    t, u = nl.load(x), nl.load(x)
    bufs = [[t, u]]
    for _ in loops.dynamic_range(3):
        nisa.tensor_tensor(dst=bufs[0][0], data1=bufs[0][0], data2=bufs[0][1], op=nl.add)
        bufs[0][0], bufs[0][1] = bufs[0][1], bufs[0][0]
    return stored(t)


def under_another_name(x, loops):
    t, d = nl.load(x), [[0.0], [0.0]]
    for _ in loops.dynamic_range(3):
        row = d[1]
        row[0] += 1.0
        add(t, row[0])
    return stored(t)


def in_an_inner_loop(x, loops):
    t, d = nl.load(x), [[1.0], [2.0]]
    for _ in loops.dynamic_range(3):
        for _, row in enumerate(d):
            row[0] *= 2.0
            add(t, row[0])
    return stored(t)


def object_in_a_list(x, loops):
    t, states = nl.load(x), [State()]
    for _ in loops.dynamic_range(3):
        states[0].n += 1
        add(t, states[0].n)
    return stored(t)


def numpy_array(x, loops):
    t, a = nl.load(x), np.zeros(1)
    for _ in loops.dynamic_range(3):
        a[0] += 1.0
        add(t, a[0])
    return stored(t)


def array_in_a_dict(x, loops):
    t, d = nl.load(x), {"a": np.ones((2, 2))}
    for _ in loops.dynamic_range(3):
        d["a"][1][0] = d["a"][1][0] * 2
        add(t, d["a"].sum())
    return stored(t)


def whole_array(x, loops):
    t, a = nl.load(x), np.zeros(2)
    for _ in loops.dynamic_range(3):
        b = a
        b += 1
        add(t, a[1])
    return stored(t)


def iterator(x, loops):
    t, it = nl.load(x), iter([1.0, 2.0, 3.0])
    for _ in loops.dynamic_range(3):
        add(t, next(it))
    return stored(t)


def generator(x, loops):
    t, it = nl.load(x), (k * k for k in range(1, 9))
    for _ in loops.dynamic_range(3):
        add(t, next(it))
    return stored(t)


def counted(x, loops):
    t, it = nl.load(x), itertools.count(1)
    for _ in loops.dynamic_range(3):
        add(t, next(it))
    return stored(t)


def zipped(x, loops):
    t, it = nl.load(x), zip([1, 2, 3], itertools.cycle([4, 5]), strict=False)
    for _ in loops.dynamic_range(3):
        for a, b in it:
            add(t, a * b)
            break
    return stored(t)


def random_numbers(x, loops):
    t, rng = nl.load(x), np.random.default_rng(1)
    for _ in loops.dynamic_range(3):
        add(t, rng.random())
    return stored(t)


def changed_default(x, loops):
    def counter(c=[0.0]):  # noqa: B006
        c[0] += 1.0
        return c[0]

    t = nl.load(x)
    for _ in loops.dynamic_range(3):
        add(t, counter())
    return stored(t)


def changed_closure(x, loops):
    def make():
        n = 0

        def following():
            nonlocal n
            n += 1
            return n

        return following

    t, following = nl.load(x), make()
    for _ in loops.dynamic_range(3):
        add(t, following())
    return stored(t)


class Box:
    v = 0.0


def value_of_a_class(x, loops):
    t, b = nl.load(x), Box()
    for _ in loops.dynamic_range(3):
        b.v = b.v + 1
        add(t, b.v)
    return stored(t)


TOLD = [
    (deep_in_a_dict, "d", ""),
    (deep_in_a_list, "d", ""),
    (deeper, "d['a'][0]['b'][1]", ""),
    (new_list_of_a_dict, "d['a']", ""),
    (swapped_deep, "bufs", ""),
    (under_another_name, "d", ""),
    (in_an_inner_loop, "d", ""),
    (object_in_a_list, "states[...].n", "0"),
    (numpy_array, "a", ""),
    (array_in_a_dict, "d[...]", ""),
    (whole_array, "a", ""),
    (iterator, "it", ""),
    (generator, "it", ""),
    (counted, "it", ""),
    (zipped, "it", ""),
    (random_numbers, "rng", ""),
    (changed_default, "counter: c", ""),
    (changed_closure, "following: n", "0"),
    (value_of_a_class, "b.v", "0.0"),
]


@pytest.mark.parametrize(("kernel", "name", "value"), TOLD)
def test_deep_state_that_changes_is_told(kernel, name, value):
    found, result = of_state(kernel, X, nl)
    assert not np.allclose(result.value, run(kernel, X, Unrolled).value)
    (message,) = [f.message for f in found]
    assert message.startswith(f"`{name}` ")
    ends = f"before the loop: {value}" if value else "before the loop"
    assert message.partition("; ")[0].endswith(ends)


def made_deep_in_the_body(x, loops):
    t, d = nl.load(x), {"a": [1.0], "rows": [[2.0]]}
    for _ in loops.dynamic_range(3):
        d["rows"] = [[2.0]]
        rows = [[1.0], [3.0]]
        rows[0][0] += d["a"][0]
        for row in rows:
            row[0] += 1
        add(t, rows[0][0] + rows[1][0] + d["rows"][0][0])
    return stored(t)


def iterators_of_the_body(x, loops):
    t, values = nl.load(x), [1.0, 2.0]
    for _ in loops.dynamic_range(3):
        it = iter(values)
        add(t, next(it))
        add(t, sum(v for v in it))
        for k, v in enumerate(values):
            add(t, k * v)
    return stored(t)


def restored(x, loops):
    t, a, d = nl.load(x), np.zeros(2), [[1, 2]]
    for _ in loops.dynamic_range(3):
        a[0] += 1
        add(t, a[0])
        a[0] -= 1
        d[0][0], d[0][1] = d[0][1], d[0][0]
        d[0].reverse()
        add(t, d[0][0])
    return stored(t)


def tiles_deep_in_lists(x, loops):
    t = nl.load(x)
    tiles = [[t, nl.load(x)]]
    names = {"in": {}}
    for _ in loops.dynamic_range(3):
        pair = tiles[0]
        nisa.tensor_tensor(dst=pair[0], data1=pair[0], data2=pair[1], op=nl.add)
        tiles[0][1][...] = pair[1]
        names["in"]["first"] = pair[0]
        add(names["in"]["first"], 1)
    return stored(t)


def defaults_that_stay(x, loops):
    def helper(tile, by=2.0, parts=(0, 2), seen=None, scale=[1.0]):  # noqa: B006
        seen = [] if seen is None else seen
        for start in parts:
            seen.append(start)
            by = by + len(seen) * scale[0]
            add(tile[:, start : start + 2], by)

    t = nl.load(x)
    for _ in loops.dynamic_range(3):
        helper(t)
    return stored(t)


def allocators_in_a_list(x, loops):
    class Pool:
        made = 0

        def tile(self, like):
            self.made += 1
            return nl.ndarray(like.shape, like.dtype, name=f"pool{self.made}")

    t, pools = nl.load(x), [Pool()]
    for _ in loops.dynamic_range(3):
        tile = pools[0].tile(x)
        nisa.tensor_copy(dst=tile, src=t)
        add(t, 1)
    return stored(t)


NOT_TOLD = [
    made_deep_in_the_body,
    iterators_of_the_body,
    restored,
    tiles_deep_in_lists,
    defaults_that_stay,
    allocators_in_a_list,
]


@pytest.mark.parametrize("kernel", NOT_TOLD)
def test_deep_state_that_stays_is_not_told(kernel):
    found, result = of_state(kernel, X, nl)
    assert found == []
    assert np.array_equal(result.value, run(kernel, X, Unrolled).value)
