"""Tests that state of Python is told wherever a body hides it, and that bodies whose passes agree run.

Each body is also called in a plain loop of Python, which adds to a float64 array: the device must give the same, or the
body must be told.
"""

import functools
import itertools
import operator
import random
import types

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import NkiError
from nki_lab.runtime import jit, run
from nki_lab.source import Span

X = np.random.default_rng(5).standard_normal((8, 4)).astype(np.float32)
PASSES = 6


class Counter:
    total = 0

    def __init__(self):
        self.n = 0

    def nxt(self):
        self.n += 1
        return self.n

    @classmethod
    def all(cls):
        cls.total += 1
        return cls.total

    @property
    def doubled(self):
        self.n += 1
        return 2 * self.n


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0

    def __call__(self):
        self.n += 1
        return self.n


class Later(Counter):
    def nxt(self):
        return 7 if super().nxt() == PASSES - 1 else 2


_total = 0
_shared = Counter()
other_module = types.ModuleType("other_module")
exec("n = 0\ndef nxt():\n    global n\n    n += 1\n    return n", vars(other_module))


def of_module():
    global _total
    _total += 1
    return _total


def shared():
    return _shared


def method(add):
    b = Counter()
    return lambda i: add(b.nxt())


def method_behind_a_call(add):
    def body(i):
        add(shared().nxt())

    return body


def class_attribute(add):
    def body(i):
        add(Counter.all())

    return body


def property_that_counts(add):
    b = Counter()

    def body(i):
        add(b.doubled)

    return body


def object_that_is_called(add):
    b = Slotted()
    return lambda i: add(b())


def only_a_late_pass_differs(add):
    b = Later()
    return lambda i: add(b.nxt())


def global_of_the_module(add):
    return lambda i: add(of_module())


def global_of_another_module(add):
    return lambda i: add(other_module.nxt())


def nonlocal_of_a_helper(add):
    n = 0

    def nxt():
        nonlocal n
        n += 1
        return n

    steps = {"next": nxt}
    return lambda i: add(steps["next"]())


def iterator_in_an_object(add):
    space = types.SimpleNamespace(it=itertools.count(3))
    return lambda i: add(operator.attrgetter("it")(space).__next__())


def generator_given_to_a_function(add):
    numbers = (k * k for k in range(1, 100))
    draw = functools.partial(next, numbers)
    return lambda i: add(draw())


def generator_of_random_numbers(add):
    rng = random.Random(7)
    draw = [rng.random]
    return lambda i: add(draw[0]())


def random_module(add):
    random.seed(7)
    return lambda i: add(random.random())


def random_module_of_a_function(add):
    import random as dice

    dice.seed(7)
    return lambda i: add(dice.uniform(1, 9))


def random_of_numpy(add):
    np.random.seed(7)
    return lambda i: add(np.random.standard_normal())


def first_call_of_a_cache(add):
    seen = []

    @functools.cache
    def once():
        seen.append(1)
        return 1

    def body(i):
        add(once() + len(seen))
        seen.append(2)

    return body


def body_without_a_text(add):
    space = {"add": add, "box": [0]}
    exec("def body(i):\n    box[0] += 1\n    add(box[0])", space)
    return space["body"]


def body_that_is_not_a_function(add):
    b = Counter()

    return functools.partial(operator.call, lambda i: add(b.nxt()))


def attribute_set_by_name(add):
    b = Counter()

    def body(i):
        setattr(b, "n", getattr(b, "n") + 1)  # noqa: B009, B010
        add(b.n)

    return body


def further_instruction_in_a_later_pass(add):
    b = Counter()

    def body(i):
        add(1)
        if b.nxt() == 3:
            add(5)

    return body


HIDDEN = [
    (method, "b.n"),
    (method_behind_a_call, "_shared.n"),
    (class_attribute, "Counter.total"),
    (property_that_counts, "b.n"),
    (object_that_is_called, "b.n"),
    (only_a_late_pass_differs, "b.n"),
    (global_of_the_module, "_total"),
    (global_of_another_module, "n"),
    (nonlocal_of_a_helper, "n"),
    (iterator_in_an_object, "space.it"),
    (generator_given_to_a_function, "draw[0]"),
    (generator_of_random_numbers, "draw[0]"),
    (random_module, "random's generator"),
    (random_module_of_a_function, "dice's generator"),
    (random_of_numpy, "np's generator"),
    (first_call_of_a_cache, "once()"),
    (body_without_a_text, "box"),
    (body_that_is_not_a_function, "b.n"),
    (attribute_set_by_name, "b.n"),
    (further_instruction_in_a_later_pass, "b.n"),
]


def kernel_of(make):
    @jit
    def kernel(x):
        t = nl.load(x)

        def add(value):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(value))

        nl.fori_loop(0, PASSES, make(add))
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    return kernel


def in_python(make):
    """Return what the body adds up to in a plain loop."""
    total = []
    body = make(total.append)
    for i in range(PASSES):
        body(i)
    return X.astype(np.float64) + float(sum(total))


@pytest.mark.parametrize(("make", "name"), HIDDEN)
def test_hidden_state_is_told(make, name):
    with pytest.raises(NkiError) as told:
        kernel_of(make)(X)
    errors = getattr(told.value, "exceptions", [told.value])
    assert [e.code for e in errors] == ["NKI124"]
    assert errors[0].message.startswith(f"`{name}` ")
    assert "changes in the body of a device loop" in errors[0].message
    allowed = run(kernel_of(make), X, allow="NKI124")
    assert not np.allclose(allowed.value, in_python(make), rtol=1e-3)


def test_the_first_difference_is_told_where_it_is_written_to_a_tile_of_the_pass():
    @jit
    def kernel(x):
        out, b = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), Counter()

        def body(i):
            t = nl.load(x[nl.ds(i, 1)])
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(b.nxt()))
            nisa.dma_copy(out[nl.ds(i, 1)], t)

        nl.fori_loop(0, 8, body)
        return out

    with pytest.raises(
        NkiError, match=r"in pass 2 Python gives operand0=2\.0 instead of 1\.0"
    ) as told:
        kernel(X)
    assert "tensor_scalar" in told.value.span.text


# -- bodies that need no state from other passes ----------------------------------------------------------------------


def counts_and_never_reads(add):
    b = Counter()

    def body(i):
        b.nxt()
        add(3)

    return body


def names_of_tiles(add):
    b = Counter()

    def body(i):
        tile = nl.ndarray((8, 4), nl.float32, name=f"tile{b.nxt()}")
        nisa.memset(dst=tile, value=1.0)
        add(2)

    return body if add.__name__ == "add" else (lambda i: add(2))


class Allocator:
    """Hands out bytes of SBUF, as kernel libraries do."""

    def __init__(self):
        self.at, self.made = 4096, []

    def tile(self, shape):
        tile = nl.ndarray(shape, nl.float32, address=(0, self.at))
        self.at += 4 * shape[1]
        self.made.append(tile)
        return tile


def addresses_of_tiles(add):
    sbuf = Allocator()

    def body(i):
        tile = sbuf.tile((8, 4))
        nisa.memset(dst=tile, value=1.0)
        nisa.tensor_copy(dst=sbuf.tile((8, 4)), src=tile)
        add(2)

    return body if add.__name__ == "add" else (lambda i: add(2))


def cached_number(add):
    @functools.cache
    def number():
        return 4

    return lambda i: add(number())


def drawn_before_the_loop(add):
    value = random.Random(3).randint(2, 9)
    return lambda i: add(value)


AGREE = [
    counts_and_never_reads,
    names_of_tiles,
    addresses_of_tiles,
    cached_number,
    drawn_before_the_loop,
]


@pytest.mark.parametrize("make", AGREE)
def test_state_that_no_pass_needs_is_not_told(make):
    result = run(kernel_of(make), X)
    assert [f for f in result.findings if f.kind in ("hazard", "unchecked")] == []
    np.testing.assert_allclose(result.value, in_python(make), rtol=1e-6)


def test_what_is_collected_and_read_behind_the_loop_is_told():
    def kernel(x):
        t, done = nl.load(x), []

        def body(i):
            done.append(nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0))

        nl.fori_loop(0, 3, body)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=float(len(done)))
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    with pytest.raises(
        NkiError, match=r"`done` changes .* after all passes Python gives operand0=3.0"
    ) as told:
        run(kernel, X)
    assert Span.of(told.value.stack[0]).line == kernel.__code__.co_firstlineno + 7


def test_a_tile_that_only_the_first_pass_sets_is_told():
    def kernel(x):
        t, kept = nl.load(x), {}

        def body(i):
            if "sum" not in kept:
                kept["sum"] = nl.ndarray((8, 4), nl.float32)
                nisa.memset(dst=kept["sum"], value=0.0)
            nisa.tensor_tensor(dst=kept["sum"], data1=kept["sum"], data2=t, op=nl.add)
            nisa.tensor_copy(dst=t, src=kept["sum"])

        nl.fori_loop(0, 3, body)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    with pytest.raises(
        NkiError, match="the device repeats what Python does in the first pass only"
    ):
        run(kernel, X)


def test_a_second_pass_that_fails_leaves_it_unchecked():
    def kernel(x):
        t, room = nl.load(x), iter([1])
        space = types.SimpleNamespace(room=room)

        def take():
            return next(space.room)

        takers = [take]
        nl.fori_loop(0, 3, lambda i: (takers[0](), add_one(t))[1])
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, t)
        return out

    def add_one(t):
        return nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    result = run(kernel, X)
    (finding,) = [f for f in result.findings if f.kind == "unchecked"]
    assert "a second pass ends with StopIteration" in finding.message
    np.testing.assert_allclose(result.value, X + 3, rtol=1e-6)
