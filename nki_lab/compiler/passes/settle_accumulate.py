"""Which products overwrite their PSUM tile, and which add to it?

`accumulate=None` means: the first write to a location overwrites, later ones add. Where that is the same for every
element of the destination it is settled here; where it is not, it stays None and the simulator decides per element.
The first write belongs to the tensor: a new tensor starts unwritten even at an address used before.
(nki/api/nki/isa/__init__.py, nc_matmul)
"""

from __future__ import annotations

from nki_lab.compiler.options import CompileOptions
from nki_lab.ir.coverage import Coverage, Written
from nki_lab.ir.instruction import Form, Instruction
from nki_lab.ir.nodes import Kernel

_ACCUMULATE = "accumulate"
_SETTLED = {Written.NOTHING: False, Written.ALL: True}


def settle_accumulate(kernel: Kernel, options: CompileOptions) -> Kernel:
    """Return the kernel with accumulate=None settled wherever it is the same for all elements."""
    if kernel.has_loops or not any(_open(form.example) for form in kernel.forms.values()):
        return kernel  # in a device loop the first pass differs from the others
    coverage: dict[int, Coverage] = {}
    forms: dict[tuple[Form, bool], Form] = {}
    body = []
    for i in kernel.instructions:
        changed = i
        if _open(i):
            (dst,) = i.written()
            seen = coverage.setdefault(dst.storage.id, Coverage(dst.storage))
            settled = _SETTLED.get(seen.written(dst))
            if settled is not None:
                changed = i.with_args(accumulate=settled)
                form = forms.get((i.form, settled))
                if form is None:
                    form = forms[i.form, settled] = Form(changed, kernel.target)
                changed.form = form
        for view in i.written():
            if not view.storage.buffer.on_chip:
                continue
            coverage.setdefault(view.storage.id, Coverage(view.storage)).write(view)
        body.append(changed)
    return kernel.with_(body=tuple(body))


def _open(i: Instruction) -> bool:
    position = i.definition.position.get(_ACCUMULATE)
    return position is not None and i.args[position] is None
