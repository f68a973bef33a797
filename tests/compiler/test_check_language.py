"""Tests which functions and classes are checked with a kernel, each once, and the errors and their places."""

import importlib.util
import linecache
import textwrap

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api.install import aliases
from nki_lab.compiler import check_language, function_text
from nki_lab.errors import KernelErrors, KernelRaised, NotAllowed, UnknownName
from nki_lab.runtime.run import run
from nki_lab.source import Span

pytestmark = pytest.mark.usefixtures("nki_0_6")

X = np.arange(512, dtype=np.float32).reshape(128, 4)
HEAD = """\
import functools
import nki
import nki.isa as nisa
import nki.language as nl


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


"""


@pytest.fixture
def module(tmp_path):
    """Return a function that imports a module with this text."""

    def load(text, name="authored", folder=tmp_path):
        path = folder / f"{name}.py"
        path.write_text(HEAD + textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        made = importlib.util.module_from_spec(spec)
        with aliases():
            spec.loader.exec_module(made)
        return made

    return load


def told(kernel, *args, **kwargs):
    """Return (construct, function, functions that called it) of each finding about the language."""
    found = []
    for f in run(kernel, X, *args, **kwargs).findings:
        if f.kind == "portability":
            spans = [Span.of(place) for place in f.stack]
            assert spans[0].text.strip(), f
            found.append((f.message.partition(":")[0], *(s.function for s in spans)))
    return sorted(found)


def test_what_a_kernel_calls_is_checked_whether_it_emits_or_not(module):
    made = module("""\
    def size_of(x):
        return sum(n for n in x.shape)

    def filled(t, value):
        for k, _ in enumerate(range(2)):
            nisa.memset(dst=t[:, k : k + 1], value=value)

    def deep(t):
        filled(t, float(size_of(t)))

    @nki.jit
    def kernel(x):
        t = nl.load(x)
        deep(t)
        return stored(t)
    """)
    assert told(made.kernel) == [
        ("`enumerate`", "filled", "deep", "kernel"),
        ("`sum`", "size_of", "deep", "kernel"),
        ("a generator expression", "size_of", "deep", "kernel"),
        ("a target of a `for` other than one name", "filled", "deep", "kernel"),
    ]


def test_one_construct_of_a_function_is_told_once_with_its_lines(module):
    made = module("""\
    @nki.jit
    def kernel(x):
        for round in range(3):
            sizes = sorted((3, 2))
            more = sorted((1, 0))
            most = sorted((1, 2))
        return stored(nl.load(x))
    """)
    (finding,) = run(made.kernel, X).findings
    line = HEAD.count("\n") + 4
    assert finding.message.endswith(f"its parser does not (also in lines {line + 1}, {line + 2})")
    assert Span.of(finding.stack[0]).line == line


def test_methods_closures_partials_and_objects_are_checked(module):
    made = module("""\
    class Plain:
        def __init__(self, value):
            self.value = value

        def fill(self, t):
            assert sorted([self.value])
            nisa.memset(dst=t, value=self.value)

    class Kept(nl.NKIObject):
        value: float = 1.0

        def all(self):
            return any([self.value])

    def made_by(value):
        def fill(t):
            assert all([value])
            nisa.memset(dst=t, value=value)

        return fill

    def bound(t, value):
        nisa.memset(dst=t, value=round(value))

    @nki.jit
    def kernel(x, given):
        t = nl.load(x)
        given(t)
        Plain(2.0).fill(t)
        assert Kept().all()
        functools.partial(bound, t)(2.0)
        return stored(t)
    """)
    assert told(made.kernel, given=made.made_by(3.0)) == [
        ("`all`", "fill", "kernel"),
        ("`any`", "all", "kernel"),
        ("`round`", "bound", "kernel"),
        ("`sorted`", "fill", "kernel"),
        ("class `Plain`, whose base is not NKIObject, Enum or NamedTuple", "kernel"),
    ]


def test_what_decorators_wrap_properties_and_lambdas_are_checked(module):
    made = module("""\
    import functools

    def traced(function):
        @functools.wraps(function)
        def inner(tile):
            return function(tile)

        return inner

    @traced
    def fill(tile):
        nisa.memset(dst=tile, value=round(1.5))

    @functools.lru_cache
    def size(n):
        return sum((n, 1))

    class Kept(nl.NKIObject):
        value: float = 1.0

        @property
        def all(self):
            return any([self.value])

    shifted = lambda n: max([n])

    @nki.jit
    def kernel(x, given):
        t = nl.load(x)
        fill(t)
        size(3)
        assert Kept().all and shifted(2) == given(2)
        return stored(t)
    """)
    assert told(made.kernel, given=made.shifted) == [
        ("`any`", "all", "kernel"),
        ("`round`", "fill", "inner", "kernel"),
        ("`sum`", "size", "kernel"),
        ("a lambda, except as the body of a device loop", "<lambda>", "kernel"),
        ("decorator `functools.lru_cache`", "size", "kernel"),
        ("decorator `functools.wraps`", "inner", "kernel"),
        ("decorator `property`", "all", "kernel"),
        ("decorator `traced`", "fill", "inner", "kernel"),
    ]


def test_a_class_is_looked_at_where_only_its_attributes_are_used(module):
    made = module("""\
    class Sizes:
        rows = 128

        def all(self):
            return sum((self.rows,))

    @nki.jit
    def kernel(x):
        assert Sizes.rows == 128
        return stored(nl.load(x))
    """)
    assert told(made.kernel) == [
        ("`sum`", "all", "kernel"),
        ("class `Sizes`, whose base is not NKIObject, Enum or NamedTuple", "kernel"),
    ]


def test_functions_inside_functions_are_told_once(module):
    made = module("""\
    @nki.jit
    def kernel(x):
        t = nl.load(x)

        def body(i):
            nisa.memset(dst=t, value=float(sum((1, 2))))

        nl.fori_loop(0, 2, body)
        return stored(t)
    """)
    assert told(made.kernel) == [("`sum`", "kernel")]


def test_calls_into_libraries_are_told_and_their_text_is_left_alone(module):
    made = module("""\
    import textwrap
    import typing
    from itertools import product
    import numpy as np

    @nki.jit
    def kernel(x, kind=np.float32):
        textwrap.dedent("text")
        t = nl.load(x)
        assert kind is not None and np.pi > 3
        for pair in product((0, 1), (2, 3)):
            nisa.memset(dst=t, value=float(np.mean([1.0, 3.0])))
        typing.cast(int, 3)
        functools.partial(stored)
        return stored(t)
    """)
    assert told(made.kernel, kind=nl.float32) == [
        ("`np.mean`", "kernel"),
        ("`product`", "kernel"),
        ("`textwrap.dedent`", "kernel"),
    ]


def test_names_of_the_author_hide_those_of_python(module):
    made = module("""\
    def sum(values):
        return values[0]

    @nki.jit
    def kernel(x, sorted=len):
        size = sum(x.shape) + sorted(x.shape)
        return stored(nl.load(x))
    """)
    assert told(made.kernel) == []


# -- errors ---------------------------------------------------------------------------------------------------------


def test_unknown_names_in_called_functions_are_errors_at_their_lines(module):
    made = module("""\
    def filled(t, more):
        nisa.memset(dst=t, value=1.0)
        if more:
            nisa.memset(dst=t, value=valeu)

    @nki.jit
    def kernel(x, value=1.0, more=False):
        t = nl.load(x)
        filled(t, more)
        return stored(t)
    """)
    for more in (False, True):
        with pytest.raises(UnknownName) as caught:
            run(made.kernel, X, more=more)
        assert caught.value.message == "name `valeu` is not defined"
        assert [s.function for s in caught.value.spans] == ["filled", "kernel"]
        assert "valeu" in caught.value.span.text


def test_close_matches_of_a_name_that_a_call_could_not_find(module):
    made = module("""\
    @nki.jit
    def kernel(x):
        return fetch("stord")(nl.load(x))

    def fetch(name):
        return eval(name)
    """)
    with pytest.raises(UnknownName, match="name `stord` is not defined") as caught:
        run(made.kernel, X)
    assert caught.value.help.startswith("did you mean `stored`")


def test_a_local_name_that_has_no_value_yet_is_pythons_own_error(module):
    made = module("""\
    @nki.jit
    def kernel(x):
        if x.shape[0] == 1:
            t = nl.load(x)
        return stored(t)
    """)
    with pytest.raises(KernelRaised, match="UnboundLocalError"):
        run(made.kernel, X)


def test_an_error_in_what_is_never_called_is_a_finding(module):
    made = module("""\
    def counted():
        global count
        count = 1

    @nki.jit
    def kernel(x, call):
        t = nl.load(x)
        if call:
            counted()
            nisa.memset(dst=t, value=nowhere)
        return stored(t)
    """)
    made.nowhere = 1.0
    assert told(made.kernel, call=False) == [
        ("`global` is not supported in a kernel", "counted", "kernel")
    ]


def test_errors_of_text_calls_and_instructions_come_together_by_line(module):
    made = module("""\
    def filled(t):
        global count
        count = 1
        nisa.tensor_copy(dst=t, src=t[:, 0:1])

    @nki.jit
    def kernel(x):
        t = nl.load(x)
        nisa.tensor_copy(dst=t, src=t[:, 0:2])
        filled(t)
        nisa.memset(dst=t, value=valeu)
        return stored(t)
    """)
    with pytest.raises(KernelErrors) as caught:
        run(made.kernel, X)
    lines = [e.span.line - HEAD.count("\n") for e in caught.value.errors]
    assert lines == [2, 4, 9, 11]
    assert [e.code for e in caught.value.errors] == ["NKI110", "NKI203", "NKI203", "NKI108"]


@pytest.mark.parametrize("word", ["yield stored(nl.load(x))", "return [(yield)]"])
def test_a_kernel_that_would_never_run_is_refused_at_once(word, module):
    made = module(f"@nki.jit\ndef kernel(x):\n    {word}\n")
    with pytest.raises(NotAllowed, match="`yield` is not supported in a kernel"):
        run(made.kernel, X)


# -- cost -----------------------------------------------------------------------------------------------------------


def test_a_function_is_read_once_however_often_kernels_run(module, monkeypatch):
    made = module("""\
    def filled(t):
        nisa.memset(dst=t, value=1.0)

    @nki.jit
    def kernel(x, n):
        t = nl.load(x)
        for k in range(n):
            filled(t)
        return stored(t)
    """)
    read = []
    facts_of = function_text.facts_of
    monkeypatch.setattr(
        function_text, "facts_of", lambda node: read.append(node.name) or facts_of(node)
    )
    for n in (1, 300):
        run(made.kernel, X, n)
    assert sorted(read) == ["filled", "kernel", "stored"]


def test_a_text_that_has_changed_since_is_not_looked_at(module, tmp_path):
    made = module("""\
    def filled(t):
        nisa.memset(dst=t, value=float(sum((1, 2))))

    @nki.jit
    def kernel(x):
        t = nl.load(x)
        filled(t)
        return stored(t)
    """)
    (tmp_path / "authored.py").write_text("# all is gone\n")
    linecache.checkcache()
    assert told(made.kernel) == []
    assert check_language.text_of(made.filled.__code__) is None
