"""Tests that a kernel is traced again exactly when something that its trace reads has changed."""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math
import random
import sys
import time
from types import ModuleType

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.compiler import pipeline
from nki_lab.errors import NkiError
from nki_lab.runtime.configuration import CompileConfig

X = np.random.default_rng(5).standard_normal((128, 4)).astype(np.float32)


@pytest.fixture
def traces(monkeypatch):
    """Return a list with an entry for each trace since the test began."""
    calls, trace = [], pipeline.trace

    def counting(*args, **kwargs):
        calls.append(1)
        return trace(*args, **kwargs)

    monkeypatch.setattr(pipeline, "trace", counting)
    return calls


def times(x, factor):
    """Return the input times a number, in a kernel."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(factor))
    nisa.dma_copy(dst=out, src=tile)
    return out


@dataclasses.dataclass
class Config:
    factor: float
    parts: list = dataclasses.field(default_factory=list)


class Slotted:
    __slots__ = ("factor", "__hidden", "unset")

    def __init__(self, factor):
        self.factor, self.__hidden = factor, 0.0

    def total(self):
        return self.factor + self.__hidden


class Numbers(list):
    def __iter__(self):
        return iter(())


class Kind(enum.Enum):
    TWO = 2.0


class Base:
    factor = 2.0


class Derived(Base):
    pass


module = ModuleType("authors_module")
module.inner = ModuleType("authors_module.inner")
module.inner.factor = 2.0
FACTOR = 2.0
TABLE = {"a": {"b": [2.0]}}
CONFIG = Config(2.0)
SLOTTED = Slotted(2.0)
NUMBERS = Numbers([2.0])
ARRAY = np.array([2.0])
SCALED = functools.partial(times, factor=2.0)


def by_global(x):
    return times(x, FACTOR)


def helper():
    return FACTOR


def by_helper(x):
    return times(x, helper())


def by_table(x):
    return times(x, TABLE["a"]["b"][0])


def by_object(x):
    return times(x, CONFIG.factor + sum(CONFIG.parts))


def by_slots(x):
    return times(x, SLOTTED.total())


def by_subclass_of_list(x):
    return times(x, NUMBERS[0])


def by_class(x):
    return times(x, Derived.factor)


def by_instance(x):
    return times(x, Derived().factor)


def by_array(x):
    return times(x, ARRAY[0])


def by_module(x):
    return times(x, module.inner.factor)


def by_inner_function(x):
    def inner():
        return sum(FACTOR for _ in range(1))

    return times(x, inner())


def by_partial(x):
    return SCALED(x)


def scale(factor=2.0, *, more=0.0):
    return factor + more


def by_default(x):
    return times(x, scale())


def by_keyword_default(x):
    return times(x, scale())


@contextlib.contextmanager
def managed():
    yield FACTOR


def by_context(x):
    with managed() as factor:
        return times(x, factor)


def by_attribute(x):
    return times(x, getattr(by_attribute, "factor", 2.0))


@nki.jit
def nested(x):
    return times(x, FACTOR)


def by_kernel(x):
    return nested(x)


class Items:
    """A list or array as monkeypatch takes it."""

    def __init__(self, of):
        self.of = of

    def get(self, key, default):
        return self.of[key]

    def __setitem__(self, key, value):
        self.of[key] = value


def change(name, value):
    def apply(monkeypatch):
        monkeypatch.setitem(globals(), name, value)

    return apply


CHANGES = {
    by_global: change("FACTOR", 3.0),
    by_helper: change("FACTOR", 3.0),
    by_inner_function: change("FACTOR", 3.0),
    by_kernel: change("FACTOR", 3.0),
    by_table: lambda m: m.setitem(TABLE["a"], "b", [3.0]),
    by_object: lambda m: m.setattr(CONFIG, "parts", [1.0]),
    by_slots: lambda m: m.setattr(SLOTTED, "_Slotted__hidden", 1.0),
    by_subclass_of_list: lambda m: m.setitem(Items(NUMBERS), 0, 3.0),
    by_class: lambda m: m.setattr(Base, "factor", 3.0),
    by_instance: lambda m: m.setattr(Base, "factor", 3.0),
    by_array: lambda m: m.setitem(Items(ARRAY), 0, 3.0),
    by_module: lambda m: m.setattr(module.inner, "factor", 3.0),
    by_partial: change("SCALED", functools.partial(times, factor=3.0)),
    by_default: lambda m: m.setattr(scale, "__defaults__", (3.0,)),
    by_keyword_default: lambda m: m.setattr(scale, "__kwdefaults__", {"more": 1.0}),
    by_context: change("FACTOR", 3.0),
    by_attribute: lambda m: m.setattr(by_attribute, "factor", 3.0, raising=False),
}


class Planet(enum.Enum):
    EARTH = 1

    def __init__(self, number):
        self.mass = 2.0


class Vector(np.ndarray):
    pass


DEFAULTS = collections.defaultdict(lambda: 2.0)
PLACES = {2.0: 1}
KEYS = PLACES.keys()
VECTOR = np.ones(2).view(Vector)
VECTOR.factor = 2.0
RANGE = range(0, 2, 2)
RAISED = np.frompyfunc(lambda value: value * FACTOR, 1, 1)


@functools.wraps(nl.add)
def like_a_library():
    return FACTOR


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (lambda: Planet.EARTH.mass, lambda m: m.setattr(Planet.EARTH, "mass", 3.0)),
        (lambda: DEFAULTS.default_factory(), lambda m: setattr(DEFAULTS, "default_factory", lambda: 3.0)),
        (lambda: max(KEYS), lambda m: m.setitem(PLACES, 3.0, 1)),
        (lambda: VECTOR.factor, lambda m: m.setattr(VECTOR, "factor", 3.0)),
        (lambda: RANGE.stop, change("RANGE", range(0, 3, 3))),
        (lambda: RAISED(1.0), change("FACTOR", 3.0)),
        (lambda: like_a_library(), change("FACTOR", 3.0)),
        (lambda: helper.__globals__["FACTOR"], change("FACTOR", 3.0)),
    ],
)  # fmt: skip
def test_what_objects_hold_out_of_sight_is_noticed(read, change, monkeypatch):
    kernel = nki.jit(lambda x: times(x, read()))
    np.testing.assert_array_equal(kernel(X), X * np.float32(2))
    change(monkeypatch)
    np.testing.assert_array_equal(kernel(X), X * np.float32(3))


class Meta(type):
    def __eq__(cls, other):
        raise ValueError("not comparable")


class Raising:
    def __getattribute__(self, name):
        raise RuntimeError("nothing to see")


class Lying:
    __class__ = np.ndarray


class Numbered:
    __module__ = 5


class Closed:
    @property
    def __dict__(self):
        raise ValueError("closed")


@pytest.mark.parametrize(
    "odd",
    [[Meta("Odd", (), {})], [Raising()], [Lying()], [Numbered], [Closed()]],
    ids=["class", "attributes", "kind", "module", "dictionary"],
)  # fmt: skip
def test_objects_that_cannot_be_looked_at_are_no_error(odd):
    kernel = nki.jit(lambda x: times(x, 2.0 if odd is not None else 0.0))
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X), X * np.float32(2))


@pytest.mark.parametrize("function", CHANGES, ids=lambda f: f.__name__)
def test_what_has_changed_is_traced_again(function, traces, monkeypatch):
    kernel = nki.jit(function)
    for _ in range(3):
        np.testing.assert_array_equal(kernel(X), X * np.float32(2))
    assert len(traces) == 1, "nothing had changed"
    CHANGES[function](monkeypatch)
    np.testing.assert_array_equal(kernel(X), X * np.float32(3))
    monkeypatch.undo()
    np.testing.assert_array_equal(kernel(X), X * np.float32(2))


def test_every_door_traces_once(traces):
    kernel = nki.jit(by_global)
    kernel(X)
    nki_lab.run(kernel, X)
    nki_lab.launch(kernel, 2, [(X,), (X + 1,)])
    kernel.compile(X)
    nki.simulate(kernel)(X)
    assert len(traces) == 2, "nki.simulate is another choice"
    nki_lab.run(kernel, X, target="trn3")
    kernel(X[:, 0:2].copy())
    kernel[2](X)
    assert len(traces) == 6, "a chip, a shape and two cores are others"


def test_a_closure_is_read():
    factor = 2.0

    def kernel(x):
        return times(x, factor)

    kernel = nki.jit(kernel)
    np.testing.assert_array_equal(kernel(X), X * np.float32(2))
    factor = 3.0
    np.testing.assert_array_equal(kernel(X), X * np.float32(3))


def test_arguments_are_read(traces):
    kernel = nki.jit(lambda x, config: times(x, config.factor))
    config = Config(2.0)
    kernel(X, config)
    kernel(X, Config(2.0))
    assert len(traces) == 1
    config.factor = 3.0
    np.testing.assert_array_equal(kernel(X, config), X * np.float32(3))


def test_the_configuration_of_a_nested_kernel_is_read():
    def function(x):
        return times(x, 2.0)

    inner = nki.jit(function)
    outer = nki.jit(lambda x: inner(x))
    outer(X)
    inner = nki.jit(function, compile_config=CompileConfig(prefetch_auto=True))
    with pytest.raises(NkiError, match="another configuration"):
        outer(X)


def test_a_method_is_traced_again_with_its_object(traces):
    class Layer:
        def __init__(self, factor):
            self.factor = factor

        @nki.jit
        def run(self, x):
            return times(x, self.factor)

    layer = Layer(2.0)
    for _ in range(2):
        np.testing.assert_array_equal(layer.run(X), X * np.float32(2))
    assert len(traces) == 1
    layer.factor = 3.0
    np.testing.assert_array_equal(layer.run(X), X * np.float32(3))
    np.testing.assert_array_equal(Layer(4.0).run(X), X * np.float32(4))


GENERATOR = random.Random(7)
COUNTER = itertools.count(2)
CALLS = []


class Hidden(random.Random):
    pass


HIDDEN = Hidden(7)
ITERATOR = iter([1.0, 2.0, 3.0])


def by_clock(x):
    return times(x, time.perf_counter() % 7)


def by_random(x):
    return times(x, GENERATOR.random())


def by_hidden_state(x):
    return times(x, HIDDEN.random())


def by_numpy_random(x):
    return times(x, np.random.uniform())


def by_random_of_another_name(x):
    import numpy

    return times(x, numpy.random.uniform())


def by_imported_random(x):
    from numpy import random

    return times(x, random.uniform())


def by_list_iterator(x):
    return times(x, next(ITERATOR))


def by_iterator(x):
    return times(x, next(COUNTER))


def by_bare_module(x):
    return times(x, len(vars(sys)))


def by_passed_module(x):
    return times(x, factor_of(module))


def factor_of(of):
    return of.inner.factor


def by_imported(x):
    import os

    return times(x, len(os.environ))


def that_prints(x):
    print("traced")
    return times(x, 2.0)


def that_counts(x):
    CALLS.append(1)
    return times(x, len(CALLS))


@pytest.mark.parametrize(
    "function",
    [by_clock, by_random, by_hidden_state, by_numpy_random, by_iterator, by_list_iterator,
     by_random_of_another_name, by_imported_random, by_bare_module, by_passed_module,
     by_imported, that_prints, that_counts],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_cannot_be_taken_down_is_traced_in_every_call(function, traces):
    kernel = nki.jit(function)
    for calls in (1, 2, 3):
        kernel(X)
        assert len(traces) == calls


def by_pure_parts(x):
    return times(x, math.sqrt(4) * Kind.TWO.value / np.float32(2).item() * nl.tile_size.pmax / 128)


def test_libraries_that_give_the_same_again(traces):
    kernel = nki.jit(by_pure_parts)
    for _ in range(2):
        np.testing.assert_array_equal(kernel(X), X * np.float32(2))
    assert len(traces) == 1


def test_an_error_is_told_in_every_call(traces):
    kernel = nki.jit(lambda x: nl.load(nl.load(x)))
    for _ in range(2):
        with pytest.raises(NkiError):
            kernel(X)


def test_findings_are_told_in_every_call():
    @nki.jit
    def unwritten(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=out, src=tile)
        return out

    first, second = (nki_lab.run(unwritten, X) for _ in range(2))
    assert first.findings and first.findings == second.findings
