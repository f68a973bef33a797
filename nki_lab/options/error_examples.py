"""What does each mistake look like, and the same without it?

Examples up to NKI3xx, which a kernel's text shows; those of later stages stand in `run_examples`. Both are run by
tests: the wrong one ends with exactly the error it is about, the right one without any.
"""

from __future__ import annotations

from typing import NamedTuple

from nki_lab import errors as e


class Example(NamedTuple):
    """A mistake and its correction.

    A text is a `%%nki` cell, a command (`$ nki-lab ...`), a kernel in text form (`nkir 1`), a script (it begins with
    an import), a module with `kernel`, or lines of a kernel that has loaded its argument `x` [128, 4] into a tile `t`.
    """

    wrong: str
    right: str

    @property
    def setting(self) -> str:
        """What a reader must know of the lines around it; "" where the text is whole."""
        whole = ("%%nki", "$ ", "nkir", "import ")
        if self.wrong.startswith(whole) or "def kernel(" in self.wrong:
            return ""
        return " (lines of a kernel that has loaded its argument `x` [128, 4] into the tile `t`)"


KERNEL_EXAMPLES: dict[type[e.NkiError], Example] = {
    e.KernelErrors: Example(
        "nisa.tensor_copy(dst=t, src=t[:, 0:2])\nnisa.memset(dst=t, value=one)",
        "nisa.tensor_copy(dst=t[:, 2:4], src=t[:, 0:2])\nnisa.memset(dst=t, value=1.0)",
    ),
    e.OutsideKernel: Example(
        "import nki.language as nl\n\ntile = nl.zeros((128, 4), dtype=nl.float32)",
        """\
@nki.jit
def kernel(x):
    tile = nl.zeros((128, 4), dtype=nl.float32)
    return stored(tile)
""",
    ),
    e.NotModelled: Example(
        "import nki.compiler\n\nnki.compiler.enable_stack_allocator",
        "import nki.isa",
    ),
    e.TensorOperator: Example(
        "nisa.tensor_copy(dst=t, src=t + t)",
        "nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)",
    ),
    e.TileAssignment: Example("t[:, 0:2] = 1.0", "nisa.memset(dst=t[:, 0:2], value=1.0)"),
    e.ViewError: Example(
        "nisa.memset(dst=t.reshape((128, 3)), value=1.0)",
        "nisa.memset(dst=t.reshape((128, 2, 2)), value=1.0)",
    ),
    e.OutOfBounds: Example(
        "nisa.memset(dst=t[:, 2:6], value=1.0)", "nisa.memset(dst=t[:, 2:4], value=1.0)"
    ),
    e.TensorArgument: Example(
        "row = nl.ndarray((256, 4), dtype=nl.float32, buffer=nl.sbuf)\nnisa.memset(dst=row, value=1.0)",
        "row = nl.ndarray((128, 2, 4), dtype=nl.float32, buffer=nl.sbuf)\nnisa.memset(dst=row, value=1.0)\n"
        "nisa.tensor_copy(dst=t, src=row[:, 0, :])",
    ),
    e.UnknownName: Example(
        "nisa.tensor_coppy(dst=t, src=t)", "nisa.tensor_copy(dst=t[:, 0:2], src=t[:, 2:4])"
    ),
    e.KernelRaised: Example(
        "sizes = [2, 4]\nnisa.memset(dst=t[:, 0 : sizes[2]], value=1.0)",
        "sizes = [2, 4]\nnisa.memset(dst=t[:, 0 : sizes[1]], value=1.0)",
    ),
    e.NotAllowed: Example(
        """\
@nki.jit
def kernel(x):
    yield stored(nl.load(x))
""",
        """\
@nki.jit
def kernel(x):
    return stored(nl.load(x))
""",
    ),
    e.KernelResult: Example(
        """\
@nki.jit
def kernel(x):
    return nl.load(x)
""",
        """\
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
""",
    ),
    e.KernelArgument: Example(
        """\
import numpy as np
import nki
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out

kernel(np.zeros((128, 4)))
""",
        """\
import numpy as np
import nki
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out

kernel(np.zeros((128, 4), dtype=np.float32))
""",
    ),
    e.ObjectFields: Example(
        """\
class Sizes(nl.NKIObject):
    rows: int = 128

@nki.jit
def kernel(x):
    sizes = Sizes(row=64)
    return stored(nl.load(x[0 : sizes.rows]))
""",
        """\
class Sizes(nl.NKIObject):
    rows: int = 128

@nki.jit
def kernel(x):
    sizes = Sizes(rows=64)
    return stored(nl.load(x[0 : sizes.rows]))
""",
    ),
    e.OlderDialect: Example("import neuronxcc.nki.language as nl", "import nki.language as nl"),
    e.RemovedLoop: Example(
        """\
%%nki --run "kernel(x)" --strict
def kernel(x):
    t = nl.load(x)
    for i in nl.dynamic_range(4):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
        """\
%%nki --run "kernel(x)" --strict
def kernel(x):
    t = nl.load(x)

    def body(i):
        nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 4, body)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
    ),
    e.RawEnum: Example(
        "nisa.dma_copy(dst=t, src=x, dge_mode=2)",
        "nisa.dma_copy(dst=t, src=x, dge_mode=nisa.dge_mode.hwdge)",
    ),
    e.StrictFinding: Example(
        """\
%%nki --run "kernel(x)" --strict
def kernel(x):
    t = nl.load(x)
    for k, value in enumerate((1.0, 2.0)):
        nisa.memset(dst=t[:, k : k + 1], value=value)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
        """\
%%nki --run "kernel(x)" --strict
def kernel(x):
    t = nl.load(x)
    for k in range(2):
        nisa.memset(dst=t[:, k : k + 1], value=k + 1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
    ),
    e.BadSyntax: Example(
        "%%nki\ndef kernel(x):\n    return nl.load(x\n",
        "%%nki\ndef kernel(x):\n    return nl.load(x)\n",
    ),
    e.RegisterValue: Example(
        "n = nisa.register_alloc(2)\nfor k in range(n):\n"
        "    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)",
        "n = nisa.register_alloc(2)\n\ndef body(k):\n"
        "    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)\n\nnl.fori_loop(0, n, body)",
    ),
    e.LoopControl: Example(
        "made = []\n\ndef body(k):\n    made.append(nl.load(x))\n\nnl.fori_loop(0, 2, body)\n"
        "nisa.tensor_copy(dst=t, src=made[0])",
        "made = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)\n\ndef body(k):\n"
        "    nisa.dma_copy(dst=made, src=x)\n\nnl.fori_loop(0, 2, body)\nnisa.tensor_copy(dst=t, src=made)",
    ),
    e.CoresDiffer: Example(
        """\
import numpy as np
import nki
import nki.language as nl

@nki.jit
def kernel(x):
    rows = 64 * (1 + nl.program_id(0))
    out = nl.ndarray((rows, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x[0:rows]))
    return out

kernel[2](np.ones((128, 4), dtype=np.float32))
""",
        """\
import numpy as np
import nki
import nki.language as nl

@nki.jit
def kernel(x):
    first = 64 * nl.program_id(0)
    out = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[first : first + 64], nl.load(x[first : first + 64]))
    return out

kernel[2](np.ones((128, 4), dtype=np.float32))
""",
    ),
    e.InstructionError: Example(
        "nisa.core_barrier(t, cores=(0, 1))",
        "if nl.num_programs() == 2:\n    nisa.core_barrier(t, cores=(0, 1))",
    ),
    e.WrongCall: Example(
        "nisa.memset(t, 1.0, shape=(128, 4))", "nisa.memset(t, 1.0)"
    ),
    e.WrongOperand: Example(
        "nisa.tensor_copy(dst=t, src=x)", "nisa.dma_copy(dst=t, src=x)"
    ),
    e.RuleBroken: Example(
        "nisa.tensor_tensor(dst=t, data1=t, data2=t[:, 0:2], op=nl.add)",
        "nisa.tensor_tensor(dst=t[:, 0:2], data1=t[:, 2:4], data2=t[:, 0:2], op=nl.add)",
    ),
    e.NotOnTarget: Example(
        """\
%%nki --run "kernel(x)" --target trn1
def kernel(x):
    t = nl.load(x)
    nisa.rand2(dst=t, min=0.0, max=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
        """\
%%nki --run "kernel(x)" --target trn3
def kernel(x):
    t = nl.load(x)
    nisa.rand2(dst=t, min=0.0, max=1.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out
""",
    ),
    e.BrokenProgram: Example(
        """\
nkir 1
kernel copied on trn2 with addresses {
  param x = %x
  storage %x: float32[128x4] in shared_hbm, input
  storage %t: float32[128x4] in sbuf, at (0, 0)
  storage %u: float32[128x4] in sbuf

  dma_copy(dst=%t, src=%x)
  tensor_copy(dst=%u, src=%t)
  dma_copy(dst=%x, src=%u)
}
""",
        """\
nkir 1
kernel copied on trn2 with addresses {
  param x = %x
  storage %x: float32[128x4] in shared_hbm, input
  storage %t: float32[128x4] in sbuf, at (0, 0)
  storage %u: float32[128x4] in sbuf, at (0, 16)

  dma_copy(dst=%t, src=%x)
  tensor_copy(dst=%u, src=%t)
  dma_copy(dst=%x, src=%u)
}
""",
    ),
    e.OverCapacity: Example(
        "big = nl.zeros((128, 65536), dtype=nl.float32)\nnisa.tensor_copy(dst=t, src=big[:, 0:4])",
        "big = nl.zeros((128, 8192), dtype=nl.float32)\nnisa.tensor_copy(dst=t, src=big[:, 0:4])",
    ),
    e.AddressConflict: Example(
        "u = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))\n"
        "v = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 8))\n"
        "nisa.memset(dst=u, value=1.0)\nnisa.memset(dst=v, value=2.0)\n"
        "nisa.tensor_tensor(dst=t, data1=u, data2=v, op=nl.add)",
        "u = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 0))\n"
        "v = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf, address=(0, 16))\n"
        "nisa.memset(dst=u, value=1.0)\nnisa.memset(dst=v, value=2.0)\n"
        "nisa.tensor_tensor(dst=t, data1=u, data2=v, op=nl.add)",
    ),
}  # fmt: skip
