"""Decides which products overwrite their PSUM tile, and which add to it.

`accumulate=None` means: the first write to a location overwrites, later ones add. Where that is the same for every
element of the destination it is settled here; where it is not, it stays None and the simulator decides per element.
The first write belongs to the tensor: a new tensor starts unwritten even at an address used before.
(nki/api/nki/isa/__init__.py, nc_matmul)
"""

from __future__ import annotations

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.psum_values import find_values_under_products
from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.coverage import Coverage, Written
from nki_lab.targets.spaces import PSUM

_SETTLED = {Written.NOTHING: False, Written.ALL: True}


@compiler_pass()
def settle_accumulate(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with accumulate=None settled wherever it is the same for all elements and all passes.

    A finding reports products that are added where the target does not define it.
    """
    settled = _settled(kernel)
    return settled.with_(findings=(*settled.findings, *find_values_under_products(settled)))


def _settled(kernel: Kernel) -> Kernel:
    """Settle what can be.

    In a device loop that is so for tensors made in the loop's body, which start unwritten in each pass; a tensor made
    outside is overwritten by the first pass and added to by the others, so it is decided while running.
    """
    if not any(form.example.accumulate_is_open for form in kernel.forms.values()):
        return kernel
    # Only accumulators are followed; whether an instruction can write one is a matter of its form.
    kinds: dict[Form, str] = {}
    coverage: dict[int, Coverage] = {}
    settled_forms: dict[tuple[Form, bool], Form] = {}
    undecided: set[int] = set()
    numbers = kernel.loop_numbers
    instructions = list(kernel.instructions)
    for n, i in enumerate(instructions):
        form = i.form
        kind = kinds.get(form)
        if kind is None:
            kind = kinds[form] = _kind(i)
        if kind is _OTHER:
            continue
        views = i.written()
        for view in views:
            if view.storage.loop != numbers[n] or view.dynamic is not None:
                undecided.add(view.storage.id)
        if kind is _OPEN and views[0].storage.id not in undecided:
            seen = coverage.get(views[0].storage.id)
            settled = False if seen is None else _SETTLED.get(seen.written(views[0]))
            if settled is not None:
                instructions[n] = changed = i.with_args(accumulate=settled)
                changed.form = settled_forms.get((form, settled)) or settled_forms.setdefault(
                    (form, settled), Form(changed, kernel.target)
                )
        for view in views:
            seen = coverage.get(view.storage.id)
            if seen is None:
                seen = coverage[view.storage.id] = Coverage(view.storage)
            if not seen.whole and view.dynamic is None:
                seen.write(view)
    return kernel.with_instructions(instructions)


_OPEN, _WRITES, _OTHER = "accumulate is open", "writes where accumulators live", "neither"


def _kind(i: Instruction) -> str:
    if i.accumulate_is_open:
        return _OPEN
    return _WRITES if any(view.buffer is PSUM for view in i.written()) else _OTHER
