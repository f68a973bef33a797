"""Tests every row of the language table: what it accepts runs, what it reports is reported, what it forbids is
refused."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from nki_lab import errors
from nki_lab.api.install import aliases
from nki_lab.dialects import NKI
from nki_lab.dialects.construct import ACCEPTED, DEPRECATED, ERROR, PORTABILITY, Construct
from nki_lab.errors import StrictFinding
from nki_lab.runtime.run import run

pytestmark = pytest.mark.usefixtures("nki_0_6")

X = np.random.default_rng(7).standard_normal((128, 4)).astype(np.float32)
CONSTRUCTS, module_of = NKI.subset.rows, NKI.subset.module_of
CODES = {kind.code: kind for kind in errors.error_classes()}
TODAY = {key: row for key, row in CONSTRUCTS.items() if key != "type alias"}  # needs Python 3.12


def kernel_of(text: str, folder: Path, name: str = "rule.py"):
    """Return the kernel of a module with this text, as an import gives it."""
    file = folder / name
    file.write_text(text)
    space = {"__name__": "rule"}
    with aliases():
        exec(compile(text, str(file), "exec"), space)
    return space["kernel"]


def findings_of(text: str, folder: Path) -> list:
    with aliases():
        return list(run(kernel_of(text, folder), X).findings)


def rows(*levels: str):
    chosen = {key: row for key, row in TODAY.items() if row.level in levels}
    return pytest.mark.parametrize("row", chosen.values(), ids=chosen)


def test_the_table_has_every_level_and_each_row_says_what_to_do():
    assert {row.level for row in CONSTRUCTS.values()} == {ACCEPTED, PORTABILITY, DEPRECATED, ERROR}
    assert len({row.what for row in CONSTRUCTS.values()}) == len(CONSTRUCTS) > 80
    for row in CONSTRUCTS.values():
        assert row.instead
        assert re.match(
            r"nki/[\w/-]+\.(rst|py)|KLR (interop/klr|KLR/\w+)/\w+\.(c|lean)", row.source
        )
        assert row.level in (ERROR, ACCEPTED) or row.code == "NKI110"


@rows(ACCEPTED)
def test_what_is_accepted_runs_without_a_finding(row: Construct, tmp_path: Path):
    assert findings_of(module_of(row.example), tmp_path) == []


def told(row: Construct, findings: list) -> list:
    kind = "deprecation" if row.level == DEPRECATED else "portability"
    return [f for f in findings if f.kind == kind]


@rows(PORTABILITY, DEPRECATED)
def test_what_one_front_end_refuses_is_a_finding_and_an_error_under_strict(
    row: Construct, tmp_path: Path
):
    text = module_of(row.example)
    (finding,) = told(row, findings_of(text, tmp_path))
    assert row.instead in finding.help
    if row.level == PORTABILITY and row is not CONSTRUCTS["truth of a tensor"]:  # has an own code
        assert finding.message.endswith(": NKI's tracer accepts it, its parser does not")
    assert finding.stack
    kernel = kernel_of(text, tmp_path)
    kind = CODES[finding.code] if finding.code else StrictFinding
    with aliases(), pytest.raises(kind) as caught:
        run(kernel, X, strict=True)
    assert caught.value.span.line == errors.NkiError("", stack=finding.stack).span.line


@rows(PORTABILITY, DEPRECATED, ERROR)
def test_what_is_better_has_no_finding(row: Construct, tmp_path: Path):
    if row.better:
        assert findings_of(module_of(row.better), tmp_path) == []
    else:
        assert row.level == ERROR or row.source


@rows(ERROR)
def test_what_is_refused_has_its_code_and_its_line(row: Construct, tmp_path: Path):
    text = module_of(row.example)
    kernel = kernel_of(text, tmp_path)
    with aliases(), pytest.raises((CODES[row.code], errors.KernelErrors)) as caught:
        run(kernel, X)
    error = caught.value
    if isinstance(error, errors.KernelErrors):  # `await` stands in `async def`
        (error,) = [e for e in error.errors if e.message == row.message()]
    assert type(error).code == row.code
    assert error.span is not None
    assert error.span.filename.endswith("rule.py")
    head = module_of("pass").count("\n", 0, module_of("pass").index("@nki.jit"))
    assert head < error.span.line <= text.count("\n")
    if row.code == "NKI110":
        assert error.message == f"{row.what} is not supported in a kernel"
        assert error.help == row.instead


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the `type` statement is Python 3.12's")
def test_a_type_statement_is_a_finding(tmp_path: Path):
    row = CONSTRUCTS["type alias"]
    (finding,) = findings_of(module_of(row.example), tmp_path)
    assert finding.message == row.message()


def test_what_nki_language_calls_its_own_tiles_is_nobodys_mistake(tmp_path: Path):
    """Functions that make several tiles, called twice: their names come again, and the author gave none."""
    text = module_of("""\
        for k in range(2):
            nisa.tensor_copy(dst=t, src=nl.sin(nl.trunc(nl.softmax(t, axis=-1))))
            nisa.tensor_copy(dst=t, src=nl.where(nl.less(t, t), t, nl.broadcast_to(t[:, 0:1], (128, 4))))
            nisa.tensor_copy(dst=t, src=nl.rand((128, 4), dtype=nl.float32))
        """)
    assert [f for f in findings_of(text, tmp_path) if f.kind == "portability"] == []


@pytest.mark.parametrize("made", ["zeros", "ones", "rand", "ndarray"])
def test_a_name_given_twice_is_told_whatever_makes_the_tensors(made: str, tmp_path: Path):
    text = module_of(f"for k in range(2):\n    nl.{made}((128, 4), dtype=nl.float32, name='mine')")
    (finding,) = [f for f in findings_of(text, tmp_path) if f.kind == "portability"]
    assert finding.message.startswith("two tensors with name='mine'")


# -- 0.7: all of Python ----------------------------------------------------------------------------------------------


@rows(PORTABILITY)
def test_what_only_the_parser_refuses_is_plain_in_0_7(
    row: Construct, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NKI_LAB_NKI", "0.7")
    text = module_of(row.example)
    told_of_row = [f for f in findings_of(text, tmp_path) if row.instead in f.help]
    assert told_of_row == [] or row is CONSTRUCTS["truth of a tensor"]
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", "custom")
    assert any(row.instead in f.help for f in findings_of(text, tmp_path))


PLAIN = """
import functools
from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl


class Base:
    factor = 2.0

    def scaled(self, tile):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=self.factor)


@dataclass
class Scale(Base):
    factor: float = 3.0


def parts(count, *, width=1):
    for k in range(count):
        yield k, slice(k * width, (k + 1) * width)


@nki.jit
def kernel(x):
    t = nl.load(x)
    steps = {k: where for k, where in parts(x.shape[1])}
    first, *rest = sorted(steps)
    shift = functools.partial(nisa.tensor_scalar, op0=nl.add)
    try:
        for k in (first, *rest):
            shift(dst=t[:, steps[k]], data=t[:, steps[k]], operand0=float(k))
    except KeyError as error:
        raise ValueError(f"{error!s:>3}") from None
    Scale().scaled(t)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
"""


def test_generators_inheritance_closures_and_dataclasses_are_plain_in_0_7(tmp_path, monkeypatch):
    assert findings_of(PLAIN, tmp_path) != []
    monkeypatch.setenv("NKI_LAB_NKI", "0.7")
    with aliases():
        result = run(kernel_of(PLAIN, tmp_path), X, strict=True)
    np.testing.assert_array_equal(result.value, (X + np.arange(4, dtype=np.float32)) * 3)
    assert not result.findings
