"""Objects that raise where they are looked at, as globals of kernels: checks of the text leave them alone."""

import types
from functools import partial
from unittest import mock

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab import jit
from nki_lab.errors import NkiError
from nki_lab.source import Span, keep_lines


def refuse(*_):
    raise RuntimeError("an object of the author's")


def odd(**members):
    return type("Odd", (), members)()


def odd_class(**members):
    return type("Meta", (type,), {"__hash__": type.__hash__, **members})("Odd", (), {})


class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise ImportError("it is not installed")


class Lazier(types.ModuleType):
    def __getattribute__(self, name):
        raise ImportError("it is not installed")


class Endless:
    def __getattr__(self, name):
        return Endless()


nameless = types.ModuleType("nameless")
del nameless.__name__

ODD = {
    "getattr": odd(__getattr__=refuse),
    "getattribute": odd(__getattribute__=refuse),
    "class": odd(__class__=property(refuse)),
    "dict": odd(__dict__=property(refuse)),
    "wrapped": odd(__wrapped__=property(refuse)),
    "eq and bool": odd(__eq__=refuse, __bool__=refuse, __len__=refuse),
    "hash": odd(__hash__=refuse),
    "repr": odd(__repr__=refuse),
    "class of no module": type("Odd", (), {"__module__": None}),
    "of no module": odd(__module__=None),
    "metaclass": odd_class(__getattribute__=refuse),
    "of a metaclass": type.__call__(odd_class(__getattribute__=refuse)),
    "metaclass with eq": odd_class(__eq__=refuse),
    "of a metaclass with eq": odd_class(__eq__=refuse)(),
    "lazy module": Lazy("lazy"),
    "lazier module": Lazier("lazy"),
    "nameless module": nameless,
    "endless": Endless(),
    "mock": mock.MagicMock(),
    "partial": partial(mock.Mock()),
    "property": property(odd(__getattr__=refuse)),
}
X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def kernel_with(name, nki, statement):
    text = (
        f"def kernel(x):\n    {statement}\n    tile = nl.load(x)\n"
        "    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, tile)\n    return out\n"
    )
    filename = f"<odd {name} {nki} {statement}>"
    keep_lines(filename, text)
    scope = {"nl": nl, "thing": ODD[name]}
    exec(compile(text, filename, "exec"), scope)
    return jit(scope["kernel"], nki=nki)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("nki", ["0.5", "0.7"])
@pytest.mark.parametrize("name", ODD)
def test_a_global_that_raises_is_left_alone(name, nki):
    for statement in (
        "if x.shape[0] == 100: thing.of(thing, thing.part)",
        "kept = [thing, thing]",
    ):
        kernel = kernel_with(name, nki, statement)
        for _ in range(2):  # the second time without tracing, where nothing may have changed
            np.testing.assert_array_equal(kernel(X), X)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("nki", ["0.5", "0.7"])
@pytest.mark.parametrize("name", [n for n in ODD if n not in ("endless", "mock")])
def test_what_it_raises_where_the_kernel_asks_it_is_told_there(name, nki):
    with pytest.raises(NkiError) as caught:
        kernel_with(name, nki, "thing.part(x)")(X)
    places = [Span.of(place) for place in caught.value.stack]
    assert any(place.filename.startswith("<odd") and place.line == 2 for place in places)
    assert "thing.part(x)" in str(caught.value)
