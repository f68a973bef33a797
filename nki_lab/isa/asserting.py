"""How does `assert nl.equal(a, b)` hold, when only a run knows the values?

Examples of the official API check their results so. While tracing, such an assertion joins the program; each run looks
at the values when it gets there, in no time. No chip has it: on a device a tensor is always true.
"""

from __future__ import annotations

import numpy as np

from nki_lab.errors import CheckFailed
from nki_lab.ir.definition.instruction import Shape, instruction, reads
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.numerics import stored
from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import HBM, PSUM, SBUF


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
