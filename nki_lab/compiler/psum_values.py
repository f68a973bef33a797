"""Finds products that are added to values that no product wrote.

On NeuronCore-v2 and -v3 a product adds to what a product has written. Added to what a memset or a copy has put into
PSUM the result is undefined there (nki/api/nki/isa/__init__.py:552, nc_matmul); the simulator adds all the same.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Finding, FindingsByPlace, Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spaces import PSUM

_PRODUCT, _VALUE, _OTHER = "adds a product", "writes values to PSUM", "neither"


def find_values_under_products(kernel: Kernel) -> tuple[Finding, ...]:
    """Return a finding for each product that is added where its target does not define the sum."""
    if kernel.target.supports("matmul_onto_written_psum"):
        return ()
    added, filled = (_written(kernel, kind) for kind in (_PRODUCT, _VALUE))
    both = added & filled
    if not both:
        return ()
    findings = FindingsByPlace(())
    # Per element of a tensor, the position of the instruction that has put a value there; -1 for none.
    held: dict[int, np.ndarray] = {}
    for n, i in enumerate(kernel.instructions):
        for view in i.written():
            if view.storage.id not in both or not _is_plain(view):
                continue
            size = view.storage.nbytes // view.storage.dtype.itemsize
            places = held.setdefault(view.storage.id, np.full(size, -1))
            steps = [s * places.itemsize for s in view.strides]
            part = np.ndarray(
                view.shape, places.dtype, places, view.offset * places.itemsize, steps
            )
            if _kind(i) == _PRODUCT:
                first = part.max()
                if first >= 0:
                    writer = kernel.instructions[first]
                    findings.add("value", i.stack, partial(_undefined, kernel, i, view, writer))
            else:
                part[...] = n if _kind(i) == _VALUE else -1
    return findings.all()


def _written(kernel: Kernel, kind: str) -> set[int]:
    touches = kernel.touches
    by_kind = touches.per_form(lambda form: _kind(form.example) == kind)
    return set(touches.storage[touches.writes & by_kind[touches.at]].tolist())


def _is_plain(view: NkiTensor) -> bool:
    return view.dynamic is None and view.dtype.itemsize == view.storage.dtype.itemsize


def _kind(i: Instruction) -> str:
    cache = i.form.cache
    cached = cache.get(find_values_under_products)
    if cached is None:
        cached = _OTHER
        position = i.definition.position.get("accumulate")
        if position is not None:
            cached = _OTHER if i.args[position] is False else _PRODUCT
        elif i.form.engine is not TENSOR and any(v.buffer is PSUM for v in i.written()):
            cached = _VALUE
        cache[find_values_under_products] = cached
    return cached


def _undefined(kernel: Kernel, i: Instruction, view: NkiTensor, writer: Instruction) -> Finding:
    where = f" at {Span.of(writer.stack[0])}" if writer.stack else ""
    return Finding(
        "hazard",
        f"{i.definition.name}: {view.describe()} holds values of {writer.definition.name}{where}; adding a product to"
        f" them is undefined on {kernel.target.name}",
        i.stack,
        help="let the first product overwrite: leave that write out, or pass accumulate=False once",
    )
