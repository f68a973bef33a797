"""What do the registers that no operand names hold before a kernel sets them?"""

from __future__ import annotations

import numpy as np

from nki_lab.ir.definition.operands import State
from nki_lab.isa import xorwow
from nki_lab.targets.spec import Target

Registers = dict[State, np.ndarray]


def new_registers(target: Target) -> Registers:
    """Return arrays for all registers, a row per partition, in the state before a run."""
    registers = {s: np.empty((target.partitions, s.words), s.dtype) for s in State}
    reset_registers(registers)
    return registers


def reset_registers(registers: Registers) -> None:
    """Put the registers into the state before a run.

    Accumulators keep their values from one kernel to the next and no page says what the first one finds, so they are
    NaN, as memory is that nothing has written (nki/guides/nki_simulator.rst): a sum that was not reset cannot look
    right. Random states outlive a kernel too (nki/api/nki/isa/__init__.py:2156); here they start from the seed 0, so
    that a run can be repeated.
    """
    for state, register in registers.items():
        if state.is_accumulator:
            register.fill(np.nan)
        else:
            xorwow.seed(register, 0)
