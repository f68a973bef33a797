"""Two dialects side by side in one module: each function is of the one that its names come from."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from nki_lab import language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.api.install import aliases, install, is_installed, uninstall
from nki_lab.dialects import DIALECTS, NKI
from nki_lab.errors import KernelArgument, MixedDialects, NotAllowed, WrongOperand
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.runtime.run import run

FILE = Path(__file__).with_name("older.py")
older = sys.modules["older_names"] = ModuleType("older_names")
exec(compile(FILE.read_text(), "<nki_lab, a dialect of the tests>", "exec"), vars(older))
older.nki = older
rng = np.random.default_rng(5)
X = rng.uniform(1, 2, (128, 8)).astype(np.float32)
Y = rng.uniform(1, 2, (128, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def both():
    """Know both dialects; the second is one row of the list."""
    DIALECTS.append(older.OLDER)
    yield
    DIALECTS.remove(older.OLDER)


def half(rows):
    return rows // 2


@older.jit(mode="simulation")
def ratio(x, y, out):
    first = older.program_id() * half(128)
    a = older.load(x[first : first + 64])
    b = older.load(y[first : first + 64])
    a[...] = a / b
    older.store(out[first : first + 64], a)


@nki.jit
def product(x, y):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    rows = half(2 * x.shape[0])
    nisa.tensor_tensor(dst=a[0:rows], data1=a, data2=b, op=nl.multiply)
    nl.store(out, a)
    return out


def test_a_kernel_of_each_runs_with_its_own_call_form_grid_and_operators():
    out = np.zeros_like(X)
    result = run(ratio[2, 1], X, Y, out)
    np.testing.assert_array_equal(out, X / Y)
    assert [i.definition.name for i in result.compiled.kernel.body].count("tensor_copy") == 0
    np.testing.assert_array_equal(product(X, Y), X * Y)


def test_grid_and_decorator_follow_the_rules_of_each():
    assert (ratio[3, 2].launched_on, ratio[3, 2].grid) == ((3, 2), 1)
    assert product[2].grid == 2
    with pytest.raises(KernelArgument, match=r"product\[3\]: a kernel is launched on 1 or 2 cores"):
        product[3]
    with pytest.raises(KernelArgument, match=r"older\.jit runs on the simulator"):
        older.jit(mode="baremetal")
    assert nki.jit(mode="baremetal")(product.func).source.dialect is NKI


def test_an_operator_with_a_row_in_one_dialect_is_written_and_read_under_its_name():
    text = print_kernel(ratio.compile(X, Y, np.zeros_like(X)).compiled.kernel)
    assert "op=older.divide" in text
    assert read_kernel(text).body[2].op.home == "older"

    @nki.jit
    def remainder(x, y):
        a, b = nl.load(x), nl.load(y)
        nisa.tensor_tensor(dst=a, data1=a, data2=b, op=nl.mod)

    with pytest.raises(WrongOperand, match="the remainder exists only as a function"):
        remainder(X, Y)


def in_older(x, out):
    sizes = [2 * n for n in (32, 32)]
    part = older.load(x[0 : sum(sizes)])
    older.store(out, part)


def in_older_refused(x, out):
    size = (lambda: 128)()
    older.store(out, older.load(x[0:size]))


def today(x):
    sizes = [2 * n for n in (32, 32)]
    size = (lambda: sum(sizes))()
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x[0:size]))
    return out


@pytest.mark.usefixtures("nki_0_6")
def test_a_construct_is_judged_by_the_table_of_the_functions_dialect():
    out = np.zeros_like(X)
    assert not run(in_older, X, out).findings
    np.testing.assert_array_equal(out, X)
    with pytest.raises(NotAllowed, match="a lambda is not supported"):
        run(in_older_refused, X, out)
    kinds = {f.message.partition(":")[0] for f in run(today, X).findings}
    assert kinds == {
        "a list comprehension",
        "`sum`",
        "a lambda, except as the body of a device loop",
    }


def uses_both(x, out):
    part = older.load(x)
    nl.store(out, part)


def calls_older(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    in_older(x, out)
    return out


def calls_today(x, out):
    older.store(out, older.load(x))
    today(x)


def imports_inside(x, out):
    import older.nki as old

    old.store(out, old.load(x))


@pytest.mark.parametrize(
    ("kernel", "arguments", "message"),
    [
        (uses_both, 2, r"`uses_both` uses two dialects: `older` of the older dialect \(older.nki\) and `nl` of"),
        (calls_older, 1, r"`in_older` is written in the older dialect \(older.nki\), and the kernel calls_older in"),
        (calls_today, 2, r"`today` is written in today's NKI \(nki\), and the kernel calls_today in the older"),
    ],
    ids=["one function", "a call from today's", "a call from the older"],
)  # fmt: skip
def test_dialects_that_are_mixed_are_one_error_at_the_place(kernel, arguments, message):
    with pytest.raises(MixedDialects, match=message) as caught:
        run(kernel, *(X, np.zeros_like(X))[:arguments])
    assert caught.value.span.function == kernel.__name__


def told_by_nothing(x, out):
    in_older(x, out)


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda: nki.jit(in_older), r"`in_older` is written in the older dialect \(older.nki\): `older` belongs"),
        (lambda: nki.simulate(ratio), r"`ratio` is written in the older dialect .*given to a decorator or runner of"),
        (lambda: older.jit(product), r"`product` is written in today's NKI \(nki\): `nl` belongs to it; it was given"),
        (lambda: nki.jit(older.jit(told_by_nothing)), r"`told_by_nothing` is written in the older dialect"),
    ],
    ids=["a function", "a kernel", "a kernel of today's", "names tell nothing"],
)  # fmt: skip
def test_decorators_and_runners_refuse_kernels_of_another_dialect(give, message):
    with pytest.raises(MixedDialects, match=message) as caught:
        give()
    assert "take the decorator from the modules of" in caught.value.help


def test_the_decorator_tells_the_dialect_where_names_do_not():
    assert older.jit(told_by_nothing).source.dialect is older.OLDER
    assert nki.jit(told_by_nothing).source.dialect is NKI
    out = np.zeros_like(X)
    older.jit(told_by_nothing)(X, out)
    np.testing.assert_array_equal(out, X)


@pytest.fixture
def _not_installed():
    """Take `import nki` back for a test, where another one has installed it for the process."""
    installed = is_installed()
    uninstall()
    yield
    if installed:
        install()


@pytest.mark.usefixtures("_not_installed")
def test_modules_of_each_are_found_by_its_root():
    with aliases():
        import older.nki as found

        assert found is older
        out = np.zeros_like(X)
        run(imports_inside, X, out)
    np.testing.assert_array_equal(out, X)
    assert "older.nki" not in sys.modules
