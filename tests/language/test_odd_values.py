"""Tests that values of a wrong type are refused by name, with what to write, and never by an error of Python's own."""

import inspect
import random
import re

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import (
    LoopControl,
    NkiError,
    NotModelled,
    RegisterValue,
    TensorArgument,
    TensorOperator,
    WrongCall,
    WrongOperand,
)
from nki_lab.runtime.run import run

X = np.random.default_rng(17).standard_normal((4, 6)).astype(np.float32)
COUNTS = np.array([[2, -3]], np.int32)


def refused(use, *arrays):
    """Return the error of a kernel that does one thing."""

    @nki.jit
    def kernel(x):
        use(x)
        return x

    with pytest.raises(NkiError) as caught:
        run(kernel, *(arrays or (X,)))
    return caught.value


def called_behind(x):
    scalars = []
    nl.fori_loop(0, 2, lambda i: scalars.append(nisa.scalar_load(x[0:1, 0:1])))
    nl.fori_loop(0, scalars[0], lambda i: None)


def counter_behind(x):
    counters = []
    nl.fori_loop(0, 2, lambda i: counters.append(i))
    nl.load(x[:, nl.ds(counters[0], 1)])


def assigned(x):
    nisa.scalar_load(x[0:1, 0:1]).dtype = nl.int64


def sized_by_scalar(x):
    nl.ndarray((4, nisa.scalar_load(x[0:1, 0:1])), nl.float32)


@pytest.mark.parametrize(
    ("use", "error", "message", "help"),
    [
        (lambda x: nl.fori_loop(0, 2, 7), LoopControl, "takes one argument, found int 7", "def body"),
        (lambda x: nl.fori_loop(0, 2, lambda: None), LoopControl, r"found <lambda>\(\)", "def body"),
        (lambda x: nl.fori_loop(0, 2, max, -1), LoopControl, "positive integer .* found -1", "- i"),
        (lambda x: nl.while_loop(nisa.register_alloc(1), None), LoopControl, "one argument", "def"),
        (lambda x: nl.affine_range("4"), LoopControl, "must be integers, found str '4'", "give"),
        (lambda x: nl.sequential_range(4 / 2), LoopControl, "found float 2.0", "//"),
        (lambda x: nl.static_range(0, 4, 0), LoopControl, "must not be 0", "leave it out"),
        (called_behind, NotModelled, "`scalar` was set in a device loop that has", "scalar_store"),
        (counter_behind, NotModelled, "`i` was set in a device loop that has ended", "in the body"),
        (assigned, RegisterValue, "is int32 and cannot be assigned", "scalar_load"),
        (sized_by_scalar, TensorArgument, "must be positive integers", "largest size"),
        (lambda x: nl.tiles(x, tile_shape=(2, 2))[0, 0] + 1, TensorOperator, "on <grid", r"\.data"),
        (lambda x: 2.0 * nl.tiles(x, tile_shape=(2, 2)), TensorOperator, "not a number", r"\.data"),
        (lambda x: nl.load(nl.tiles(x, tile_shape=(2, 2))[0, 0]), WrongOperand, "in HBM", r"\.data"),
        (lambda x: nl.exp(nl.tiles(nl.load(x), tile_shape=(2, 2))), WrongOperand, "a tile", r"\.data"),
        (lambda x: nl.add(nl.tiles(nl.load(x), tile_shape=(2, 2)), 1), WrongOperand, "a tile", r"\.data"),
        (lambda x: nl.empty_like(5), WrongOperand, "`x` must be a tensor, found int 5", "ndarray"),
        (lambda x: nl.zeros_like(None), WrongOperand, "found NoneType", "nl.ndarray"),
        (lambda x: nl.shared_identity_matrix(4, dst=3), WrongOperand, "`dst` must be a", "ndarray"),
        (lambda x: nl.broadcast_to(nl.load(x), None), TensorArgument, "shape None", "tuple"),
        (lambda x: nl.where(nl.load(x), 1.0, "a"), WrongOperand, "`y` must be a tile", "nl.load"),
        (lambda x: nl.ndarray((4, 4), dtype=x), TensorArgument, "dtype .* not an NKI", "float32"),
        (lambda x: nl.tiles(x), NkiError, "needs a tile_shape", "tile_shape="),
        (lambda x: nl.blocks(x, tile_shape=(2, 2)), WrongCall, "block_shape", r"\*, tile_shape=None"),
        (lambda x: nl.tiles(x, tile_shape=(0, 2)), TensorArgument, "must be positive", "1 or more"),
        (lambda x: nl.tiles(x, tile_shape=(2, 2))[9, 0], NkiError, "valid are 0 to 1", "range"),
        (lambda x: nl.rms_norm(*[nl.load(x)] * 2, 1, "a"), WrongOperand, "nl.rms_norm cannot use", "exp"),
    ],
)  # fmt: skip
def test_refused_with_what_to_write(use, error, message, help):
    arrays = () if use not in (called_behind, assigned, sized_by_scalar) else (COUNTS,)
    found = refused(use, *arrays)
    assert isinstance(found, error)
    assert found.stack
    assert re.search(message, found.message)
    assert re.search(help, found.help)


def test_no_function_lets_an_error_of_python_out():
    chance = random.Random(71)
    odd = [5, "a", None, [1], np.ones((2, 2)), object(), 2.5, len, {}, 2**70, nl.float32]
    usual = {"shape": (4, 6), "dtype": nl.float32, "buffer": nl.sbuf, "axis": 1, "dim": 1}
    for name in nl.__all__:
        function = getattr(nl, name)
        if not (callable(function) and not isinstance(function, type)):
            continue
        parameters = inspect.signature(function).parameters.values()
        for wrong in parameters:
            given, tried = chance.choice(odd), chance.random() < 0.3
            if not tried:
                continue

            def use(x, function=function, parameters=parameters, wrong=wrong, given=given):
                tile = nl.load(x)
                values = {
                    p.name: given if p is wrong else usual.get(p.name, tile)
                    for p in parameters
                    if p is wrong or p.default is p.empty
                }
                positions = [values.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY]
                function(*positions, **values)
                raise LoopControl(
                    "done", help="done"
                )  # no run: what is asked is said while tracing

            error = refused(use)
            codes = {e.code for e in getattr(error, "errors", (error,))}
            assert "NKI109" not in codes, (name, wrong.name, given)
