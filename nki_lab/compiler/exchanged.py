"""Finds collectives on arguments or results of the kernel, which published kernels avoid."""

from __future__ import annotations

from functools import partial

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Finding, FindingsByPlace, Kernel
from nki_lab.ir.tensor.view import NkiTensor


def find_exchanged(kernel: Kernel) -> Kernel:
    """Return the kernel with a finding per collective of an argument or result.

    The kernels of nki-library copy both through tensors of their own, since the compiler takes no other ones there
    (test/integration/nkilib/experimental/collectives/test_collectives.py at d2ad3a5).
    """
    if all(form.definition.groups is None for form in kernel.forms.values()):
        return kernel
    results = {view.storage.id for view in kernel.outputs}
    findings = FindingsByPlace(kernel.findings)
    for i in kernel.instructions:
        if i.definition.groups is None:
            continue
        for view in (*i.read(), *i.written()):
            if view.storage.origin == "input":
                findings.add(view.storage, i.stack, partial(_outside, i, view, "an argument"))
            elif view.storage.id in results:
                findings.add(view.storage, i.stack, partial(_outside, i, view, "a result"))
    return kernel.with_(findings=findings.all())


def _outside(i: Instruction, view: NkiTensor, what: str) -> Finding:
    return Finding(
        "portability",
        f"{i.definition.name} uses `{view.name}`, {what} of the kernel, which NKI's compiler does not take there",
        i.stack,
        help="copy it with nisa.dma_copy to or from a tensor made with nl.ndarray(shape, dtype, buffer=nl.shared_hbm)",
    )
