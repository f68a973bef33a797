"""The older dialect, `neuronxcc.nki` of Beta 1, as a front end: its calls become instructions of the registry.

A call returns a new tile. It emits its instructions at once, so program order, places in the text and debug runs are
those of the author; `t[...] = value` lets the instruction that made `value` write into `t` where that computes the same
(writing.py). Nothing below this room knows the dialect.

    index.py         affine index expressions
    masks.py         masks, and the boxes that they leave
    indexing.py      what `t[...]` selects
    tile.py          the tensor that an author holds
    blocks.py        tensors with block axes, and zeros of PSUM
    results.py       new tiles for results, and operands as instructions take them: what each family of functions uses
    promotion.py     dtypes of results
    broadcasting.py  operands of different shapes
    writing.py       `t[...] = value`, `t[...] += value`
    creation.py      nl.ndarray, nl.zeros, ...
    memory.py        nl.load, nl.store, nl.copy
    elementwise.py   nl.add, nl.exp, ...: functions that are operators, too
    matmul.py        nl.matmul, nisa.nc_matmul, transposes
    returning.py     rows of functions that return a new tile: which instruction, which signature, which result
    instructions.py  the table of nki.isa
    reductions.py    nl.sum, nl.softmax, nl.gather_flattened, nl.rand, ...
    enums.py         named choices with the old numbers
    operators.py     operators that only the dialect has, and functions that stand for operators
    inserted.py      copies of operands that the old compiler inserted
    loops.py         nl.affine_range, ...
    repeatable.py    which loops have a variable that only moves what they access
    replay.py        copies the trips of such a loop, of which Python runs a few
    notes.py         what decides that copies are right
    program.py       the launch grid, and the program that runs
    launch.py        runs the programs of the grid, one after the other in one trace
    zeros.py         zeros of PSUM that no instruction writes
"""

# What tiles do at `t[...] = value` and at operators is said by these.
from nki_lab.beta1 import elementwise, writing  # noqa: F401
