"""The operands of an instruction, in the words of the views."""

from __future__ import annotations

import numpy as np

from nki_lab.ir.definition.instruction import READ, WRITE, Definition, Instruction, Operand, Shape
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.fields import Dynamic
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import leaf_text, view_text
from nki_lab.views.run import Gather, ShownAccess

_WAYS = {READ: "reads", WRITE: "writes"}


def operand_views(i: Instruction) -> list[tuple[str, str, Operand | None, NkiTensor]]:
    """Return (parameter, role, operand, view) of every tensor an instruction touches, tiles of indices last.

    The view holds the elements that are really touched, where the instruction passes over some of its operand.
    """
    definition = i.definition
    operands = {definition.position[name]: (name, o) for name, o in definition.operands.items()}
    rows: list[tuple[str, str, Operand | None, NkiTensor]] = []
    indices: list[tuple[str, str, Operand | None, NkiTensor]] = []
    for position, role in definition.roles(i):
        name, operand = operands[position]
        value = i.args[position]
        many = type(value) is tuple
        for k, view in enumerate(value if many else (value,)):
            shown = f"{name}[{k}]" if many else name
            part = operand.part if role == READ else operand.part_written or operand.part
            touched = part(i, view) if part is not None and view.dynamic is None else view
            rows.append((shown, role, operand, touched))
            index = view.dynamic.index if view.dynamic is not None else None
            if type(index) is NkiTensor:
                indices.append((f"indices of {shown}", READ, None, index))
    return rows + indices


def accesses(i: Instruction) -> list[ShownAccess]:
    """Return what an instruction does with each operand."""
    return [
        ShownAccess(
            operand=name,
            way=_WAYS.get(role, "updates"),
            tensor=view.storage.id,
            text=view_text(view),
            shape=view.shape,
            strides=view.strides,
            offset=view.offset,
            itemsize=view.dtype.itemsize,
            dtype=str(view.dtype),
            names=operand.axes if operand is not None else ("", ""),
            along={} if operand is None or operand.along is None else operand.along(i, view),
            per_partition=operand is not None and operand.shape is Shape.VECTOR,
            gather=None if view.dynamic is None else _gather(view.dynamic),
        )
        for name, role, operand, view in operand_views(i)
    ]


def products(kernel: Kernel) -> np.ndarray:
    """Return the positions of the instructions that sum over an axis which two of their operands share."""
    is_product: dict[Definition, bool] = {}
    products = []
    for position, i in enumerate(kernel.instructions):
        definition = i.definition
        if definition not in is_product:
            first = [o.axes[0] for o in definition.operands.values() if o.axes[0]]
            is_product[definition] = len(first) > len(set(first))
        if is_product[definition]:
            products.append(position)
    return np.array(products, dtype=np.int64)


def _gather(dynamic: Dynamic) -> Gather:
    index = dynamic.index
    return Gather(
        kind=dynamic.kind.value,
        index=leaf_text(index),
        tensor=index.storage.id if isinstance(index, NkiTensor) else -1,
        step=dynamic.step,
        limit=dynamic.limit,
    )
