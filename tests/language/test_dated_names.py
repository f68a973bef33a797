"""Tests that a name which a version of NKI does not have is an error, however a kernel reaches it."""

import importlib
import operator
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import collectives as ncc
from nki_lab.api import isa as nisa
from nki_lab.errors import UnknownName
from nki_lab.runtime import run

X = np.random.default_rng(11).standard_normal((8, 4)).astype(np.float32)
TABLE = {"loop": nl.fori_loop}
STAR: dict = {}
exec("from nki_lab.language import *", STAR)


def in_a_function(t, body):
    getattr(nl, "fori" + "_loop")(0, 3, body)


def local_import(t, body):
    from nki_lab.language import fori_loop as loop

    loop(0, 3, body)


LOOPS = [
    lambda t, body: getattr(nl, "fori_loop")(0, 3, body),  # noqa: B009
    lambda t, body: vars(nl)["fori_loop"](0, 3, body),
    lambda t, body: STAR["fori_loop"](0, 3, body),
    lambda t, body: TABLE["loop"](0, 3, body),
    lambda t, body: importlib.import_module("nki_lab.language").fori_loop(0, 3, body),
    lambda t, body: operator.attrgetter("fori_loop")(nl)(0, 3, body),
    in_a_function,
    local_import,
]


def kernel_of(use):
    def kernel(x):
        t = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(dst=t, src=x)
        use(t, lambda i: nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0))
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=t)
        return out

    return kernel


@pytest.mark.parametrize("use", LOOPS)
def test_a_function_by_another_way(use):
    with pytest.raises(
        UnknownName, match=r"`nki\.language\.fori_loop` is new in NKI 0\.6.*for NKI 0\.5"
    ):
        run(kernel_of(use), X, nki="0.5")
    np.testing.assert_allclose(run(kernel_of(use), X, nki="0.7").value, X + 3, rtol=1e-6)


OTHERS = [
    ("nki.isa.scalar_load", "0.6", lambda t, _: getattr(nisa, "scalar_load")(nl.zeros((1, 1), nl.int32))),  # noqa: B009
    ("nki.language.prelu", "0.3", lambda t, _: nisa.activation(dst=t, data=t, op=vars(nl)["prelu"])),
    ("nki.language.relu", "0.2", lambda t, _: vars(nl)["relu"](t)),
    ("nki.language.copy", "0.2", lambda t, _: vars(nl)["copy"](t)),
    ("nki.language.exp", "0.2", lambda t, _: nl.exp(t)),
    ("nki.language.float8_e8m0fnu", "0.4", lambda t, _: nl.ndarray((8, 4), vars(nl)["float8_e8m0fnu"])),
    ("nki.language.dynamic_range", "0.1", lambda t, _: [*getattr(nl, "dynamic_range")(2)]),  # noqa: B009
    ("nki.isa.get_nc_sub_version", "0.4", lambda t, _: vars(nisa)["get_nc_sub_version"]()),
    ("nki.collectives.all_to_all_v_prepare", "0.6", lambda t, _: vars(ncc)["all_to_all_v_prepare"](t, t, [], t)),
    ("nki.language.softmax", "0.2", lambda t, _: vars(nl)["softmax"](t, axis=1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "version", "use"), OTHERS)
def test_an_instruction_an_operator_or_a_dtype_by_another_way(name, version, use):
    with pytest.raises(UnknownName, match=f"`{name}` is new in NKI .*for NKI {version}"):
        run(kernel_of(use), X, nki=version)


def test_a_name_that_the_text_shows_is_told_once():
    def use(t, body):
        nl.fori_loop(0, 3, body)

    with pytest.raises(UnknownName, match=r"`nl\.fori_loop` is new in NKI 0\.6"):
        run(kernel_of(use), X, nki="0.5")


TABLED = (
    "arctan copy erf erf_dx exp gelu gelu_apprx_tanh gelu_dx log mish relu sigmoid sign silu silu_dx sin softplus sqrt"
    " square tanh"
).split()
FORMULAS = {
    "arctan": np.arctan, "copy": np.positive, "exp": np.exp, "relu": lambda x: np.maximum(x, 0), "sign": np.sign,
    "sin": np.sin, "square": np.square, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


@pytest.mark.parametrize("version", ["0.1", "0.2"])
def test_operators_are_older_than_functions_of_their_name(version):
    """nki/api/nki.api.shared.rst of 2.27 and 2.28 lists them as `op`; the stubs have the functions from 2.29 on."""

    def kernel(x):
        out = nl.ndarray((len(TABLED), *x.shape), x.dtype, buffer=nl.shared_hbm)
        for k in range(len(TABLED)):
            t = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x)
            nisa.activation(
                dst=t, op=nl.exp if TABLED[k] == "exp" else getattr(nl, TABLED[k]), data=t
            )
            nisa.dma_copy(dst=out[k], src=t)
        return out

    x = np.linspace(-1.5, 1.4, 32, dtype=np.float32).reshape(8, 4)
    values = run(kernel, x, nki=version, target="trn2").value
    for name, formula in FORMULAS.items():
        np.testing.assert_allclose(values[TABLED.index(name)], formula(x), rtol=1e-2, atol=1e-3)


def through_tiles(x, out):
    nisa.dma_copy(dst=nl.tiles(out, tile_shape=(8, 4))[0, 0].data, src=x)


def by_hasattr(x, out):
    through_tiles(x, out) if hasattr(nl, "tiles") else nisa.dma_copy(dst=out, src=x)


def by_default(x, out):
    found = getattr(nl, "tiles", None)
    through_tiles(x, out) if found else nisa.dma_copy(dst=out, src=x)


def by_try(x, out):
    try:
        nl.tiles  # noqa: B018
    except AttributeError:
        nisa.dma_copy(dst=out, src=x)
    else:
        through_tiles(x, out)


def by_branch(x, out, newer=False):
    if newer:
        through_tiles(x, out)
        nl.tiles(out, tile_shape=(8, 4))
    nisa.dma_copy(dst=out, src=x)


@pytest.mark.parametrize("moved", [by_hasattr, by_default, by_try, by_branch])
def test_a_kernel_for_several_versions_may_ask_what_its_version_has(moved):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        moved(x, out)
        return out

    for version in ("0.6", "0.7"):
        np.testing.assert_array_equal(run(kernel, X, nki=version).value, X)
    assert hasattr(nl, "tiles") and type(nl).__name__ == "module"


def test_a_thread_that_ends_first_leaves_the_names_of_another_alone():
    first_inside, second_inside = threading.Event(), threading.Event()

    def traced(begin, before_asking):
        def kernel(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            begin.set()
            before_asking()
            by_hasattr(x, out)
            return out

        return lambda: run(kernel, X, nki="0.6").value

    ended = threading.Event()
    first = traced(first_inside, lambda: second_inside.wait(20))
    second = traced(second_inside, lambda: ended.wait(20))
    with ThreadPoolExecutor(2) as pool:
        earlier = pool.submit(first)
        assert first_inside.wait(20)
        later = pool.submit(second)
        np.testing.assert_array_equal(earlier.result(20), X)
        ended.set()
        np.testing.assert_array_equal(later.result(20), X)
    assert type(nl).__name__ == "module"
