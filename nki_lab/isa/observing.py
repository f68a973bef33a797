"""Instructions that only look at tensors: printing while a kernel runs, and assertions on values.

Both are part of a program, so that they survive passes and the text form, but no engine runs them: they take no time
and nothing waits for them, so a timeline is the same with and without them. On the device the runtime exports what is
printed (nki/api/nki/language/__init__.py:2660), in a time that no page gives. Examples of the official API check their
results with `assert nl.equal(a, b)`; each run looks at the values when it gets there. No chip has that: on a device a
tensor is always true.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import DType
from nki_lab.errors import CheckFailed, WrongOperand
from nki_lab.ir.definition.instruction import Shape, instruction, reads, rule
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.numerics import stored
from nki_lab.targets.engines import Engine
from nki_lab.targets.facts import LANGUAGE
from nki_lab.targets.spaces import HBM, PSUM, SBUF


@rule(
    "`print_prefix` must be a string known while the kernel is traced",
    "print_prefix",
    help='write nl.device_print("name", tensor)',
    error=WrongOperand,
    source=f"{LANGUAGE}:2671",
)
def _prefix_is_text(i, hw):
    return type(i.print_prefix) is str


@instruction(
    engine=(Engine.unknown,),
    tensor=reads(*HBM, SBUF, shape=Shape.OWN, wide=True),
    rules=(_prefix_is_text,),
    numerics=stored("tensor"),
    any_start=("tensor",),
    observes=True,
)
def device_print(print_prefix: str, tensor: NkiTensor, core: int | None = None) -> None:
    """Print a prefix and the values of a tensor when the kernel gets there.

    `core` is the one that prints, where there are two; where there are several ranks, each says which it is.

    Source: nki/api/nki/language/__init__.py:2660.
    """


@device_print.semantics
def _(print_prefix, tensor, core, dtypes, rank, world):
    printed = {"rank": rank if world > 1 else None, "core": core}
    who = ", ".join(f"{name} {number}" for name, number in printed.items() if number is not None)
    print(shown(print_prefix, tensor, dtypes["tensor"], who))


def shown(prefix: str, values: np.ndarray, dtype: DType, who: str = "") -> str:
    """Return what is printed: a line with prefix, dtype and shape, then the values, long tensors in part."""
    mark = f"[{who}] " if who else ""
    return f"{mark}{prefix}: {dtype} {list(values.shape)}\n{values_text(values, dtype)}"


def values_text(values: np.ndarray, dtype: DType) -> str:
    """Return values as text, those of large tensors in part; NumPy's print options do not change it."""
    formatter: Any = None
    if dtype.kind == "packed":  # several values in a word, shown as its bits
        formatter = {"int": f"0x{{:0{2 * values.itemsize}x}}".format}
    elif values.dtype.kind not in "biu":
        values = values.astype(np.float32)  # NumPy writes its own types alike on every machine
    with np.printoptions(
        precision=6, threshold=1000, edgeitems=3, linewidth=100, suppress=False, nanstr="nan",
        infstr="inf", sign="-", floatmode="maxprec", formatter=formatter, legacy=False,
    ):  # fmt: skip
        return np.array2string(values)


@instruction(
    engine=(Engine.unknown,),
    tensor=reads(*HBM, SBUF, PSUM, shape=Shape.OWN),
    numerics=stored("tensor"),
    any_start=("tensor",),
    observes=True,
)
def assert_true(tensor: NkiTensor) -> None:
    """Raise CheckFailed where the result of a comparison has an element that is false."""


@assert_true.semantics
def _(tensor):
    false = np.argwhere(tensor == 0)
    if len(false):
        first = [int(n) for n in false[0]]
        raise CheckFailed(
            f"the assertion does not hold: {len(false):,} of {tensor.size:,} elements are false, the first at {first}",
            help="look at both sides with nl.device_print",
        )
