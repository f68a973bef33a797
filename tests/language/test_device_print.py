"""Tests that nl.device_print shows what a tensor holds when the kernel gets there, and changes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler.passes.dependences import dependences
from nki_lab.errors import WrongOperand
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.reading import read_kernel
from nki_lab.runtime import jit, run
from nki_lab.simulator import Program

X = np.array([[1.5, -2.25, 0.0], [np.nan, np.inf, 1e-20]], np.float32)


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@jit
def doubled(x):
    tile = nl.load(x)
    nl.device_print("before", tile)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nl.device_print("after", tile)
    nl.device_print("first column", tile[:, 0:1])
    return stored(tile)


SHOWN = """\
before: float32 [2, 3]
[[ 1.50e+00 -2.25e+00  0.00e+00]
 [      nan       inf  1.00e-20]]
after: float32 [2, 3]
[[ 3.0e+00 -4.5e+00  0.0e+00]
 [     nan      inf  2.0e-20]]
first column: float32 [2, 1]
[[ 3.]
 [nan]]
"""


def test_values_of_the_moment_are_shown_in_every_run_and_not_while_tracing(capsys):
    compiled = doubled.compile(X)
    assert capsys.readouterr().out == ""
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), 2 * X)
        assert capsys.readouterr().out == SHOWN


def test_the_text_does_not_depend_on_settings_of_numpy(capsys):
    with np.printoptions(precision=2, threshold=2, floatmode="fixed", suppress=True, nanstr="NaN"):
        doubled(X)
    assert capsys.readouterr().out == SHOWN


def test_printing_stays_in_the_program_and_in_its_text(capsys):
    result = run(doubled, X)
    capsys.readouterr()
    text = print_kernel(result.kernel, comments=False)
    assert text.count('device_print(print_prefix="') == 3
    again = read_kernel(text)
    assert print_kernel(again, comments=False) == text
    Program(again).run([X])
    assert capsys.readouterr().out == SHOWN


def test_a_tile_that_is_only_printed_is_computed(capsys):
    def kernel(x):
        tile = nl.load(x)
        nl.device_print("sum", nl.add(tile, tile))
        return stored(tile)

    result = run(jit(kernel), X)
    assert not result.findings
    assert capsys.readouterr().out.startswith("sum: float32 [2, 3]\n[[ 3.0e+00 -4.5e+00")


def test_no_time_is_made_up(capsys):
    def silent(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        return stored(tile)

    loud, quiet = run(doubled, X), run(jit(silent), X)
    for table in ("Instruction", "DmaPacketAggregated", "SbufUsage"):
        a, b = loud.profile.table(table), quiet.profile.table(table)
        for column in ("start_ts", "end_ts", "timestamp", "usage_bytes"):
            if column in a:
                assert list(a[column]) == list(b[column]), (table, column)
    assert [loud.kernel.instructions[n].definition.name for n in loud.execution.order].count(
        "device_print"
    ) == 3


def test_what_waits_on_the_device_does_not_wait_for_printing():
    kernel = run(doubled, X).kernel
    printing = [n for n, i in enumerate(kernel.instructions) if i.definition.name == "device_print"]
    assert all(kernel.waits[n] == () for n in printing)
    assert not {w for waits in kernel.waits for w in waits} & set(printing)
    # Where instructions are put in another order, printing keeps its place: after what it shows, before what
    # overwrites that, and after what was printed before.
    before = dependences(kernel)
    first, second, third = printing
    assert first - 1 in before[first] and first in before[first + 1]
    assert {first, second - 1} <= set(before[second]) and second in before[third]


def test_a_loop_of_the_device_prints_in_every_pass(capsys):
    @jit
    def kernel(x):
        tile = nl.load(x)

        def body(i):
            nl.device_print("column", tile.select(1, i))

        nl.fori_loop(0, nisa.register_alloc(3), body)
        return stored(tile)

    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    result = run(kernel, x)
    assert capsys.readouterr().out == "".join(
        f"column: int32 [2, 1]\n[[{k}]\n [{k + 3}]]\n" for k in range(3)
    )
    assert result.profile.total_ns > 0


@pytest.mark.parametrize(
    ("dtype", "values", "shown"),
    [
        (nl.bfloat16, [[1.0, 0.1]], "bfloat16 [1, 2]\n[[1.       0.100098]]"),
        (nl.float8_e4m3, [[-3.5, 240.0]], "float8_e4m3 [1, 2]\n[[ -3.5 240. ]]"),
        (nl.uint8, [[0, 255]], "uint8 [1, 2]\n[[  0 255]]"),
        (nl.int32, [[-(2**31), 7]], "int32 [1, 2]\n[[-2147483648           7]]"),
    ],
    ids=str,
)
def test_every_kind_of_element(capsys, dtype, values, shown):
    def kernel(x):
        tile = nl.load(x)
        nl.device_print("x", tile)
        return stored(tile)

    run(jit(kernel), np.array(values, np.float64).astype(dtype.np))
    assert capsys.readouterr().out == f"x: {shown}\n"


def test_packed_elements_are_shown_as_their_bits(capsys):
    def kernel(x):
        tile = nl.load(x)
        nl.device_print("x", tile.view(nl.float8_e4m3fn_x4))
        return stored(tile)

    run(jit(kernel), np.array([[0x12345678, 0xAB]], np.uint32), target="trn3")
    assert capsys.readouterr().out == "x: float8_e4m3fn_x4 [1, 2]\n[[0x12345678 0x000000ab]]\n"


def test_long_tensors_are_shown_in_part_and_hbm_has_any_rank(capsys):
    def kernel(x):
        nl.device_print("row", x)
        return x

    run(jit(kernel), np.arange(5000, dtype=np.int32))
    assert capsys.readouterr().out == "row: int32 [5000]\n[   0    1    2 ... 4997 4998 4999]\n"


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (lambda t: nl.device_print("p", nl.ndarray((2, 3), dtype=nl.float32, buffer=nl.psum)), "must be in"),
        (lambda t: nl.device_print(3, t), "`print_prefix` must be a string"),
        (lambda t: nl.device_print("x", 3), "`tensor` must be a tensor"),
    ],
)  # fmt: skip
def test_what_cannot_be_printed(of, words):
    def kernel(x):
        of(nl.load(x))
        return x

    with pytest.raises(WrongOperand, match=words):
        run(jit(kernel), X)


def test_an_unwritten_tile_is_found(capsys):
    def kernel(x):
        nl.device_print("nothing", nl.ndarray((2, 2), dtype=nl.float32, buffer=nl.sbuf))
        return x

    (finding,) = run(jit(kernel), X).findings
    assert finding.kind == "uninitialized" and "device_print" in finding.message
    assert capsys.readouterr().out == "nothing: float32 [2, 2]\n[[nan nan]\n [nan nan]]\n"


def test_two_cores_say_who_prints(capsys):
    @jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        row = nl.program_id()
        tile = nl.load(x[row : row + 1])
        nl.device_print("mine", tile)
        nisa.dma_copy(out[row : row + 1], tile)
        return out

    x = np.array([[1.0], [2.0]], np.float32)
    run(kernel[2], x, target="trn2")
    expected = "[core 0] mine: float32 [1, 1]\n[[1.]]\n[core 1] mine: float32 [1, 1]\n[[2.]]\n"
    assert capsys.readouterr().out == expected
