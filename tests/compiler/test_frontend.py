"""Tests that the front end keeps a kernel's text, and refuses what can never be a kernel at its exact place."""

import importlib.util
import linecache
import textwrap

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler.check_language import errors_of
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.errors import KernelErrors, NotAllowed, RuleBroken, UnknownName
from nki_lab.runtime.jit import jit
from nki_lab.versions import NEWEST
from tests.compiler.programs import compiled, line_of

X = np.ones((128, 4), np.float32)

HEADER = """\
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime.jit import jit


def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


"""


@pytest.fixture
def module(tmp_path):
    """Return a function that writes a module and imports it."""
    count = 0

    def load(text, name="authored"):
        nonlocal count
        count += 1
        path = tmp_path / f"{name}.py"
        path.write_text(HEADER + textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(f"{name}_{count}", path)
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    yield load
    linecache.clearcache()


def line_in(text):
    """Return the line of the module on which `text` first stands after the header."""
    return lambda source: next(
        n for n, line in enumerate((HEADER + source).splitlines(), 1) if text in line
    )


# -- what can never be a kernel -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("nki_0_6")
def test_everything_that_is_forbidden_is_told_at_once_by_line(module):
    source = """\
    def helper(x):
        global kept
        return copyed(x)

    class Holder:
        @staticmethod
        @jit
        def kernel(x):
            async def later():
                y = undefined_name
            global kept
            t = nl.load(x)
            nisa.tensor_copy(dst=t, src=t[:, 0:2])
            return helper(x)
    """
    kernel = module(source).Holder.kernel
    with pytest.raises(KernelErrors) as caught:
        kernel(X)
    errors = caught.value.errors
    dedented = textwrap.dedent(source)
    lines = [line_in(t)(dedented) for t in ("copyed", "async", "undefined_name", "tensor_copy")]
    assert [e.span.line for e in errors] == [lines[0] - 1, *lines[:3], lines[2] + 1, lines[3]]
    assert [type(e) for e in errors] == [
        NotAllowed,
        UnknownName,
        NotAllowed,
        UnknownName,
        NotAllowed,
        RuleBroken,
    ]
    shown = [e.span.text[e.span.column : e.span.end_column] for e in errors]
    assert shown[:2] == ["global kept", "copyed"]
    assert shown[3:5] == ["undefined_name", "global kept"]
    assert errors[1].help.startswith("did you mean `copied`")
    assert [[s.function for s in e.spans] for e in errors[:2]] == [["helper", "kernel"]] * 2


def test_constructs_that_work():
    def many(x, *more, scale: float = 2.0):
        """Text that reaches
the margin."""  # fmt: skip
        sizes = {k: v + 0 for k, v in zip("ab", (1, 2), strict=True)}
        total = sum(n for n in sizes.values() if (m := n) and m)
        pick = lambda n: n + 1 if n else 0  # noqa: E731
        *_, last = [pick(n) for n in range(3)]
        while total > 3 and not total % 2:
            total -= 1
        match last:
            case 3:
                total += 1
            case _:
                raise AssertionError
        with open("/dev/null") as _:
            pass
        assert f"{total=}" == "total=4"
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)
        for t2 in (t,):
            nisa.tensor_scalar(dst=t2, data=t2, op0=nl.multiply, operand0=scale * total)
        nl.store(out, t)
        return out

    np.testing.assert_array_equal(jit(many)(X), X * 8)


@pytest.mark.usefixtures("nki_0_6")
def test_a_function_whose_string_reaches_the_margin_is_checked_too():
    def kernel(x):
        """Text that reaches
the margin."""  # fmt: skip

        async def later():  # forbidden behind a string
            pass

        return x

    with pytest.raises(NotAllowed) as caught:
        compiled(kernel, X)
    assert caught.value.span.line == line_of(__file__, "# forbidden behind a string")
    assert caught.value.span.text.strip().startswith("async def later")


# -- names --------------------------------------------------------------------------------------------------------


def test_names_are_looked_up_when_the_kernel_is_called(module):
    made = module("@jit\ndef kernel(x):\n    return written_below(x)\n")
    with pytest.raises(UnknownName, match="name `written_below` is not defined") as caught:
        made.kernel(X)
    assert "define it in this cell or an earlier one" in caught.value.help
    made.written_below = made.copied
    np.testing.assert_array_equal(made.kernel(X), X)


def test_names_in_nested_functions_and_comprehensions(module):
    source = """\
    @jit
    def kernel(x):
        class Local:
            size = 3
            double = size * 2
        def inner(y):
            return [nonexistent for _ in range(y)]
        return copied(x)
    """
    with pytest.raises(UnknownName, match="`nonexistent`") as caught:
        module(source).kernel(X)
    assert caught.value.span.line == line_in("nonexistent")(textwrap.dedent(source))


def test_builtins_and_names_bound_in_the_kernel_are_known(module):
    source = """\
    @jit
    def kernel(x):
        import math as m
        n = len(list(map(abs, range(3)))) + int(m.pi)
        for k in range(n):
            last = k
        return copied(x) if last == 5 and __name__ else None
    """
    np.testing.assert_array_equal(module(source).kernel(X), X)


# -- the text -----------------------------------------------------------------------------------------------------

RAISES = "@jit\ndef kernel(x):\n    t = nl.load(x)\n    t.shape[7]  # {}\n    return copied(x)\n"


def rendered(kernel):
    with pytest.raises(IndexError) as caught:
        kernel(X)
    return str(caught.value)


def test_errors_show_the_text_a_kernel_was_defined_with(module):
    before = module(RAISES.format("before"))
    after = module("\n\n\n" + RAISES.format("after"))  # the same file, edited
    for _ in range(2):
        assert "t.shape[7]  # before" in rendered(before.kernel)
        assert "t.shape[7]  # after" in rendered(after.kernel)
    linecache.clearcache()
    assert "t.shape[7]  # before" in rendered(before.kernel)


def test_errors_show_the_text_after_the_file_is_gone(module, tmp_path):
    made = module(RAISES.format("gone"))
    (tmp_path / "authored.py").unlink()
    linecache.checkcache()
    assert "t.shape[7]  # gone" in rendered(made.kernel)
    line = line_in("t.shape")(RAISES)
    assert f"authored.py, line {line}" in rendered(made.kernel)


def test_restored_text_keeps_its_columns(module, tmp_path):
    source = (
        "def make():\n" + textwrap.indent(RAISES.format("indented"), "    ") + "    return kernel\n"
    )
    kernel = module(source).make()
    (tmp_path / "authored.py").unlink()
    linecache.checkcache()
    assert "     t.shape[7]  # indented\n" in rendered(kernel)
    marked = rendered(kernel).splitlines()[3]
    text = rendered(kernel).splitlines()[2]
    assert text[marked.index("^") : marked.rindex("^") + 1] == "t.shape[7]"


def test_a_kernel_without_any_text_works():
    space = {"nl": nl}
    exec(
        "def kernel(x):\n    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)\n"
        "    nl.store(out, nl.load(x))\n    return out\n"
        "def broken(x):\n    return x.shape[9]\n",
        space,
    )
    np.testing.assert_array_equal(jit(space["kernel"])(X), X)
    assert SourceKernel.of(space["kernel"]).text == ""
    assert "error[NKI109]: IndexError" in rendered(jit(space["broken"]))


def test_lambdas_are_kernels():
    def copied(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    pair = jit(lambda x: copied(x)), jit(lambda x: (copied(x), copied(x)))
    np.testing.assert_array_equal(pair[0](X), X)
    assert len(pair[1](X)) == 2
    with pytest.raises(UnknownName, match="`nowhere`"):
        jit(lambda x: nowhere(x))(X)  # noqa: F821


@pytest.mark.usefixtures("nki_0_6")
def test_the_text_of_a_lambda_is_looked_at_where_it_is_the_only_one_of_its_statement():
    one = lambda x: (yield x)  # noqa: E731
    several = (lambda x: (yield x)), (lambda x: [x])
    (error,) = errors_of(SourceKernel.of(one), NEWEST)
    assert error.message == "`yield` is not supported in a kernel"
    assert [errors_of(SourceKernel.of(function), NEWEST) for function in several] == [[], []]


def test_decorators_and_comments_do_not_shift_lines(module):
    source = """\
    def twice(fn):
        return fn

    @jit
    @twice  # a comment
    # and another

    def kernel(
        x,
    ):
        t = nl.load(x)
        nisa.tensor_copy(
            dst=t,
            # the mistake
            src=t[:, 0:2],
        )
        return copied(x)
    """
    with pytest.raises(ValueError, match="same number of elements") as caught:
        module(source).kernel(X)
    text = textwrap.dedent(source)
    assert line_in("tensor_copy")(text) <= caught.value.span.line <= line_in("src=t")(text)
