"""What do mistakes look like that only a run, a cell, a command or a file shows, and the same without them?"""

from __future__ import annotations

from nki_lab import errors as e
from nki_lab.options.error_examples import KERNEL_EXAMPLES, Example

_CELL = """\
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""

RUN_EXAMPLES: dict[type[e.NkiError], Example] = {
    e.SimulationError: Example(
        """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, rows):
    t = nl.load(x)
    out = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    found = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=found, data=t, indices=nl.load(rows))
    nl.store(out, found)
    return out

kernel(np.ones((32, 4), dtype=np.float32), np.full((32, 4), 9, dtype=np.uint32))
""",
        """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, rows):
    t = nl.load(x)
    out = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    found = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=found, data=t, indices=nl.load(rows))
    nl.store(out, found)
    return out

kernel(np.ones((32, 4), dtype=np.float32), np.full((32, 4), 3, dtype=np.uint32))
""",
    ),
    e.TooManyTrips: Example(
        """\
%%nki --run "kernel(x)" --max-trips 1000
def kernel(x):
    t = nl.load(x)
    more = nisa.register_alloc(3)

    def body(more):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        return more

    nl.while_loop(more, body)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
        """\
%%nki --run "kernel(x)" --max-trips 1000
def kernel(x):
    t = nl.load(x)
    more = nisa.register_alloc(3)
    count = nl.full((1, 1), 3, dtype=nl.int32)

    def body(more):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
        nisa.register_load(more, count)
        return more

    nl.while_loop(more, body)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
    ),
    e.UninitializedRead: Example(
        """\
%%nki --run "kernel(x)" --strict
def kernel(x):
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
        """\
%%nki --run "kernel(x)" --strict
def kernel(x):
    t = nl.load(x)
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
    ),
    e.AddressOutOfRange: Example(
        "row = nisa.register_alloc(200)\nnisa.dma_copy(dst=t[0:1, :], src=x.select(0, row).reshape((1, 4)))",
        "row = nisa.register_alloc(20)\nnisa.dma_copy(dst=t[0:1, :], src=x.select(0, row).reshape((1, 4)))",
    ),
    e.UnwrittenRegister: Example(
        "n = nisa.register_alloc()\n\ndef body(k):\n    nisa.memset(dst=t, value=1.0)\n\nnl.fori_loop(0, n, body)",
        "n = nisa.register_alloc(2)\n\ndef body(k):\n    nisa.memset(dst=t, value=1.0)\n\nnl.fori_loop(0, n, body)",
    ),
    e.MissingPartner: Example(
        """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(out, nl.load(x))
        nisa.core_barrier(out, cores=(0, 1))
    return out

kernel[2](np.ones((128, 4), dtype=np.float32))
""",
        """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nl.store(out, nl.load(x))
    nisa.core_barrier(out, cores=(0, 1))
    return out

kernel[2](np.ones((128, 4), dtype=np.float32))
""",
    ),
    e.RanksDiffer: Example(
        """\
import numpy as np
import nki
import nki.collectives as ncc
import nki.language as nl
import nki_lab

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce(srcs=[x], dsts=[out], replica_group=ncc.ReplicaGroup([[0]]), op=nl.add)
    return out

nki_lab.launch(kernel, ranks=2, inputs=[np.ones((128, 4), dtype=np.float32)] * 2)
""",
        """\
import numpy as np
import nki
import nki.collectives as ncc
import nki.language as nl
import nki_lab

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce(srcs=[x], dsts=[out], replica_group=ncc.ReplicaGroup([[0, 1]]), op=nl.add)
    return out

nki_lab.launch(kernel, ranks=2, inputs=[np.ones((128, 4), dtype=np.float32)] * 2)
""",
    ),
    e.ToolchainError: Example(
        "$ NKI_SIMULATOR=0 nki-lab run copy.py:copy --input x=randn:128x64",
        "$ nki-lab run copy.py:copy --input x=randn:128x64",
    ),
    e.UsageError: Example(
        f'%%nki --run "kernel(y)"\n{_CELL}', f'%%nki --run "kernel(x)"\n{_CELL}'
    ),
    e.CheckFailed: Example(
        f'%%nki --run "kernel(x)" --check "x + 1"\n{_CELL}',
        f'%%nki --run "kernel(x)" --check "x"\n{_CELL}',
    ),
    e.TimedOut: Example(
        f"%%nki --timeout 0.5\nwhile True:\n    pass\n\n{_CELL}",
        f"%%nki --timeout 60\n{_CELL}",
    ),
    e.UnknownOption: Example(
        f'%%nki --run "kernel(x)" --target trn9\n{_CELL}',
        f'%%nki --run "kernel(x)" --target trn3\n{_CELL}',
    ),
    e.BadFile: Example(
        "$ nki-lab execute copy.py", "$ nki-lab run copy.py --input x=randn:128x64"
    ),
    e.UnknownTarget: Example(
        'import nki_lab\n\nnki_lab.get_target("trn9")', 'import nki_lab\n\nnki_lab.get_target("trn3")'
    ),
    e.BadKernelText: Example(
        """\
nkir 1
kernel copied on trn2 {
  param x = %x
  storage %x: float32[128x4] in shared_hbm, input
  storage %t: float33[128x4] in sbuf

  dma_copy(dst=%t, src=%x)
  dma_copy(dst=%x, src=%t)
}
""",
        KERNEL_EXAMPLES[e.BrokenProgram].right,
    ),
    e.NoKernel: Example("%%nki\nsize = 128\n", f"%%nki\n{_CELL}"),
    e.UnknownTopic: Example("$ nki-lab explain nc_matmull", "$ nki-lab explain nc_matmul"),
    e.ErrorNotRaised: Example(
        f'%%nki --run "kernel(x)" --expect NKI203\n{_CELL}',
        """\
%%nki --run "kernel(x)" --expect NKI203
def kernel(x):
    t = nl.load(x)
    nisa.tensor_copy(dst=t, src=t[:, 0:2])
    return x
""",
    ),
    e.ExerciseFailed: Example(
        """\
import numpy as np
from nki_lab.exercises import check

check("01.3", np.ones(4))
""",
        """\
import nki
import nki.language as nl
from nki_lab.exercises import check

@nki.jit
def distance(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.abs(nl.subtract(nl.load(x), 1.0)))
    return out

check("01.3", distance)
""",
    ),
    e.UnknownExercise: Example(
        'from nki_lab.exercises import hint\n\nhint("01.22")',
        'from nki_lab.exercises import hint\n\nhint("01.2")',
    ),
}  # fmt: skip

EXAMPLES: dict[type[e.NkiError], Example] = KERNEL_EXAMPLES | RUN_EXAMPLES
