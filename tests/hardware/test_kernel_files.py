"""A kernel goes to another process as text and data, and computes there what it computes here."""

import functools
import json
import math
import sys
from dataclasses import dataclass
from dis import Positions
from enum import Enum
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pytest

import nki_lab
from nki_lab import language as nl
from nki_lab.api import nki
from nki_lab.api.install import aliases
from nki_lab.choices import Choices
from nki_lab.errors import KernelArgument
from nki_lab.hardware import worker
from nki_lab.hardware.kernel_files import KernelFiles
from nki_lab.kernels import get
from nki_lab.runtime import as_kernel
from tests.magics.notebook import Notebook, bare, notebook, shell  # noqa: F401

X = np.random.default_rng(5).standard_normal((128, 24)).astype(np.float32)
Y = np.random.default_rng(6).standard_normal((128, 24)).astype(np.float32)
SCALE, TABLE = 3.0, np.array([2.0, -0.5, 7.0])
PARTS = {"rows": (128, 24), "shift": -0.25, "last": slice(4, 8), "kind": np.float16}


class Elsewhere:
    pass


def times(tile, factor=SCALE):
    return nl.multiply(tile, factor)


@nki.jit
def added(a, b):
    return nl.add(a, b)


def kernel(x, y, shift, dtype=nl.float32, table=None, *, name="k"):
    """Read helpers, other kernels, constants, defaults and containers."""
    out = nl.ndarray(PARTS["rows"], dtype, buffer=nl.shared_hbm)
    tile = added(times(nl.load(x)), nl.load(y[0]))
    total = (
        shift
        + PARTS["shift"]
        + float(TABLE[1])
        + math.sqrt(4.0)
        + len(name)
        + HTTPStatus.OK.value / 200
    )
    nl.store(out, nl.add(tile, total if table is None else table.lineno))
    return {"out": out, "parts": (out, [out])}


class There:
    """What the script of the child process sees of a call, in this process."""

    def __init__(self, folder: Path, function, *args, **kwargs) -> None:
        called = as_kernel(function)
        compiled = called.compile_with(Choices(), args, kwargs)
        retrace = compiled._retrace
        self.files = KernelFiles(called.source, called.source.dialect, retrace.args, retrace.kwargs)
        arrays = compiled.inputs(*args, **kwargs)
        request = {
            **self.files.request, "namespace": "nki", "grid": [], "schedule": [],
            "arrays": [{"file": f"{n}.bin", "dtype": a.dtype.name, "shape": a.shape} for n, a in enumerate(arrays)],
        }  # fmt: skip
        for n, array in enumerate(arrays):
            (folder / f"{n}.bin").write_bytes(array.tobytes())
        self.files.write(folder)
        self.call = worker.Call(str(folder), json.loads(json.dumps(request)))
        self.folder = folder

    def run(self):
        with aliases():
            made = self.call.jitted()
            args, kwargs = self.call.arguments()
            return made(*args, **kwargs)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((X, (Y,), 2.0), {}, lambda: 3 * X + Y + 2.0 - 0.25 - 0.5 + 2.0 + 1 + 1.0),
        ((X, (Y,), np.float32(2.0), nl.bfloat16), {"name": "kkk"}, lambda: 3 * X + Y + 7.25),
        ((X, (Y,), 0), {"table": Positions(5.0, 2)}, lambda: 3 * X + Y + 5.0),
    ],
    ids=["defaults", "dtype", "namedtuple"],
)
def test_a_kernel_computes_there_what_it_computes_here(tmp_path, args, kwargs, expected):
    value = There(tmp_path, kernel, *args, **kwargs).run()
    here = nki_lab.run(kernel, *args, **kwargs).value
    for one in (value["out"], value["parts"][0], value["parts"][1][0]):
        np.testing.assert_array_equal(one, here["out"])
    tolerance = 1e-5 if value["out"].dtype == np.float32 else 2e-2
    np.testing.assert_allclose(value["out"].astype(np.float32), expected(), tolerance, 0.1)


def test_a_function_stands_on_its_lines_without_decorators(tmp_path):
    there = There(tmp_path, kernel, X, (Y,), 2.0)
    ((name, (author, text)),) = there.files.sources.items()
    assert author == __file__ and (tmp_path / name).read_text() == text
    own = Path(__file__).read_text().splitlines()
    written = text.splitlines()
    for number in (
        kernel.__code__.co_firstlineno,
        added.func.__code__.co_firstlineno + 1,
        times.__code__.co_firstlineno,
    ):
        assert written[number - 1] == own[number - 1] and written[number - 1].startswith("def ")
    assert "@nki.jit" not in text and "class " not in text


class Way(Enum):
    UP = 1.5
    DOWN = -2.0


def standard():
    return Way.UP


@dataclass(frozen=True)
class Plan:
    way: Way = standard()  # noqa: RUF009 - a helper that is needed while the class is made
    steps: tuple[int, ...] = (2, 3)

    def factor(self):
        return self.way.value * self.steps[1]


def test_classes_and_their_objects_go_as_text(tmp_path):
    def planned(x, plan, act=nl.multiply, *, helper=times):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, act(helper(nl.load(x)), plan.factor() + (plan.way is Way.DOWN)))
        return out

    np.testing.assert_array_equal(
        There(tmp_path, planned, X, Plan()).run(), 3 * X * np.float32(4.5)
    )
    there = There(tmp_path, planned, X, Plan(Way.DOWN), nl.add, helper=tripled)
    np.testing.assert_allclose(there.run(), 3 * X - 5.0, 1e-6, 1e-6)
    assert any("class Plan:" in text for _, text in there.files.sources.values())


def tripled(tile):
    return nl.multiply(tile, 3.0)


def test_a_class_of_a_cell_goes_as_text(notebook: Notebook, tmp_path):  # noqa: F811
    notebook.good(
        "from enum import Enum\nfrom typing import NamedTuple\n\n\nclass Kind(Enum):\n    A = 4.0\n\n\n"
        "class Pair(NamedTuple):\n    first: float\n    kind: Kind = Kind.A\n"
    )
    notebook.good(
        "%%nki\n@nki.jit\ndef k(x, pair):\n    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.multiply(nl.load(x), pair.first + pair.kind.value))\n    return out\n"
    )
    there = There(tmp_path, notebook["k"], X, notebook["Pair"](1.0))
    np.testing.assert_array_equal(there.run(), 5 * X)


def test_a_closure_keeps_its_values(tmp_path):
    def scaled_by(factor):
        def scaled(x):
            out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(out, twice(nl.load(x), factor))
            return out

        return scaled

    def twice(tile, factor):
        return nl.multiply(tile, 2 * factor)

    np.testing.assert_array_equal(There(tmp_path, scaled_by(3.0), X).run(), 6 * X)
    np.testing.assert_array_equal(There(tmp_path, scaled_by(-1.0), X).run(), -2 * X)


@pytest.mark.parametrize("name", ["softmax", "rmsnorm", "rope"])
def test_prebuilt_kernels_go_as_text(tmp_path, name):
    prebuilt = get(name)
    given = prebuilt.given(prebuilt.example(prebuilt.tested[0], prebuilt.dtypes[0]))
    here = nki_lab.run(prebuilt.kernel, **given).value
    there = There(tmp_path, prebuilt.kernel, **given).run()
    for one, other in zip(worker._flat(there), worker._flat(here), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "int32", "uint8"]
)
def test_arrays_go_by_their_bits(tmp_path, dtype):
    def copied(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    bits = np.random.default_rng(3).integers(0, 60, (128, 6), np.uint8)
    array = np.repeat(bits, worker.dtype_named(dtype).itemsize, 1).view(worker.dtype_named(dtype))
    there = There(tmp_path, copied, array)
    told = there.call.written(there.run())
    assert told["outputs"][0]["dtype"] == dtype and told["updated"] == {} and told["neff"] is None
    assert (tmp_path / told["outputs"][0]["file"]).read_bytes() == array.tobytes()


def test_what_a_kernel_writes_into_its_inputs_is_told(tmp_path):
    def negated(x):
        nl.store(x, nl.multiply(nl.load(x), -1.0))
        return x

    there = There(tmp_path, negated, X.copy())
    told = there.call.written(there.run())
    updated = np.frombuffer((tmp_path / told["updated"]["0"]["file"]).read_bytes(), np.float32)
    np.testing.assert_array_equal(updated.reshape(X.shape), -X)


def test_texts_and_values_tell_kernels_apart(tmp_path):
    def digest(factor):
        def scaled(x):
            return nl.multiply(x, factor)

        return KernelFiles(as_kernel(scaled).source, as_kernel(scaled).source.dialect).digest

    assert digest(2.0) == digest(2.0) != digest(2.5)


def packed(function, **names):
    scope = dict(vars(sys.modules[__name__]), **names)
    made = type(function)(function.__code__, scope, function.__name__)
    source = as_kernel(made).source
    return KernelFiles(source, source.dialect)


def reads_thing(x):
    return nl.multiply(x, THING)  # noqa: F821


def tenfold(function):
    @functools.wraps(function)
    def wrapper(tile):
        return nl.multiply(function(tile), 10.0)

    return wrapper


def wrapped():
    @tenfold
    def add_three(tile):
        return nl.add(tile, 3.0)

    return add_three


def imports_ours(x):
    from nki_lab import dtypes

    return nl.multiply(x, dtypes)


@pytest.mark.parametrize(
    ("function", "thing", "words"),
    [
        (reads_thing, nki_lab, "module nki_lab.*official package has no such names"),
        (reads_thing, lambda tile: tile, "is a lambda"),
        (reads_thing, wrapped(), "is wrapped by a decorator"),
        (reads_thing, Elsewhere(), "an object of tests.hardware"),
        (reads_thing, np.zeros(1 << 18), "array of 2,097,152 bytes(.|\n)*pass it as an argument"),
        (reads_thing, [[None, {1: Elsewhere()}]], "an object of tests.hardware"),
        (imports_ours, 1, "imports nki_lab(.|\n)*import from nki"),
    ],
    ids=["ours", "lambda", "wrapped", "object", "large", "nested", "import"],
)
def test_what_cannot_go_says_so(function, thing, words):
    with pytest.raises(KernelArgument, match=f"(?s)cannot go to the process.*{words}"):
        packed(function, THING=thing)


def test_other_values_go_as_they_are():
    values = (
        functools.partial(max, 3), Ellipsis, np.int16(-4), b"", frozenset({2}), range(4), np.exp, math.inf,
        HTTPStatus.OK, np.dtype("int8"), nl.sbuf, nl, {1: [None, True]},
    )  # fmt: skip
    with pytest.raises(KernelArgument, match="bytes"):
        packed(reads_thing, THING=values)
    files = packed(reads_thing, THING=tuple(v for v in values if v != b""))
    call = worker.Call(".", {**files.request, "arrays": [], "namespace": "nki"})
    encoded = json.loads(json.dumps(files.namespaces[0]["THING"]))
    with aliases():
        there = call.value(encoded)
    assert there[0](2) == 3 and there[1:] == tuple(v for v in values if v != b"")[1:]


def test_a_module_of_the_author_is_imported_there(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "hw_tiles.py").write_text(
        "import nki.language as nl\n\n\ndef half(t):\n    return nl.multiply(t, 0.5)\n"
    )
    (tmp_path / "hw_ours.py").write_text("import nki_lab\n\n\ndef f(t):\n    return t\n")
    with aliases():
        import hw_ours
        import hw_tiles

        files = packed(reads_thing, THING=hw_tiles.half)
    assert files.namespaces[0]["THING"] == {"name": ["hw_tiles", "half"]}
    assert files.folders == [str(tmp_path)]
    with pytest.raises(KernelArgument, match=r"hw_ours\.py, which imports nki_lab"):
        packed(reads_thing, THING=hw_ours.f)
