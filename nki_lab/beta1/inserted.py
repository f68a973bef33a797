"""The copies that the old compiler inserted, where an instruction cannot read or write an operand as it is.

The rules of an instruction say which copy of an operand makes them hold (`Rule.copy`). `mend` emits the copies before
the instruction, or after it where it writes, so they stand in the program as instructions; the names of their tensors
begin with "inserted". What a copy cannot mend stays an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from nki_lab.dtypes import DType, float32
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.instruction import Instruction, Rule
from nki_lab.ir.definition.operands import READ, UPDATE, WRITE, Shape
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.targets.spaces import PSUM, SBUF

INSERTED = "inserted"

Copy = Callable[[NkiTensor, NkiTensor], Any]


def mend(i: Instruction) -> Instruction | None:
    """Emit an instruction that breaks a rule, with copies of the operands that break it, and return it.

    None where no copy helps. A mended instruction that still breaks rules is mended again.
    """
    rule = i.form.broken[0]
    if not rule.copy:
        return None
    if (
        rule.copy == "partitions"
        and i.definition is tensor_copy
        and i.src.buffer is SBUF is i.dst.buffer
    ):
        return dma_copy(dst=i.dst, src=i.src)  # type: ignore[return-value]
    if rule.copy == "axes" and i.definition in (dma_copy, tensor_copy):
        both = _with_fewer_axes(i.dst, i.src)
        if both is not None:
            return current().emit(i.definition, i.with_args(dst=both[0], src=both[1]).args)
    before: dict[str, NkiTensor] = {}
    after: list[tuple[Copy, NkiTensor, NkiTensor]] = []
    for name in _to_copy(i, rule):
        view = getattr(i, name)
        operand = i.definition.operands[name]
        role = operand.role(i) if callable(operand.role) else operand.role
        merged = _merged(view) if rule.copy == "axes" else view
        if merged is not view and operand.shape in (Shape.STREAM, Shape.FLAT):
            before[name] = merged
            continue
        dtype = float32 if rule.copy == "float32" else view.dtype
        fresh = _new(view, dtype)
        copy = _ways[rule.copy]
        if role in (READ, UPDATE):
            copy(fresh, view)
        if role in (WRITE, UPDATE):
            after.append((copy, view, fresh))
        before[name] = _merged(fresh) if rule.copy == "axes" else fresh
    if not before:
        return None
    emitted = current().emit(i.definition, i.with_args(**before).args)
    for copy, view, fresh in after:
        copy(view, fresh)
    return emitted


def _to_copy(i: Instruction, rule: Rule) -> list[str]:
    """Return the parameters whose tensors break a rule; of several in PSUM the last, which may be enough."""
    tensors = [name for name in rule.about if type(getattr(i, name)) is NkiTensor]
    if rule.copy == "sbuf":
        return [name for name in tensors if getattr(i, name).buffer is PSUM][-1:]
    if rule.copy == "float32":
        return [name for name in tensors if getattr(i, name).dtype is not float32]
    return [name for name in tensors if getattr(i, name).storage.on_chip]


def _new(view: NkiTensor, dtype: DType) -> NkiTensor:
    """Return a new SBUF tensor of the shape of a view."""
    name = f"{INSERTED}_{view.storage.name}"
    return current().allocate(view.shape, dtype, SBUF, name)


def _by_engine(dst: NkiTensor, src: NkiTensor) -> None:
    tensor_copy(dst=dst, src=src)


def _by_dma(dst: NkiTensor, src: NkiTensor) -> None:
    dma_copy(dst=dst, src=src)


def _by_slices(dst: NkiTensor, src: NkiTensor) -> None:
    """Copy tensors with more axes than an instruction takes, one slice after the other."""
    dst, src = _less(dst), _less(src)
    if dst.ndim - 1 <= current().target.access_pattern_free_dims_max:
        tensor_copy(dst=dst, src=src)
        return
    for k in range(dst.shape[1]):
        _by_slices(dst[:, k], src[:, k])


def _less(view: NkiTensor) -> NkiTensor:
    """Return a view without free axes of size 1."""
    kept = [d for d, n in enumerate(view.shape) if d == 0 or n > 1] or [0]
    if len(kept) == 1:
        kept.append(1)
    return _view(view, tuple(view.shape[d] for d in kept), tuple(view.strides[d] for d in kept))


def _merged(view: NkiTensor) -> NkiTensor:
    """Return a view with as few free axes as its elements allow; itself where none is saved."""
    free = _fewest(view.shape[1:], view.strides[1:])
    if len(free) == view.ndim - 1 or len(free) > current().target.access_pattern_free_dims_max:
        return view
    return _of_axes(view, free)


def _with_fewer_axes(dst: NkiTensor, src: NkiTensor) -> tuple[NkiTensor, NkiTensor] | None:
    """Return what is copied with as many free axes as an instruction takes; None where it needs more."""
    if dst.shape != src.shape:
        return None
    free = _fewest(dst.shape[1:], dst.strides[1:], src.strides[1:])
    if len(free) > current().target.access_pattern_free_dims_max:
        return None
    return _of_axes(dst, free), _of_axes(src, free, 2)


def _fewest(shape: Sequence[int], *strides: Sequence[int]) -> list[tuple[int, ...]]:
    """Return size and strides of as few axes as hold these elements in this order, in each of several tensors."""
    axes: list[tuple[int, ...]] = []
    for n, *steps in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if axes and all(outer == n * step for outer, step in zip(axes[-1][1:], steps, strict=True)):
            axes[-1] = axes[-1][0] * n, *steps
        else:
            axes.append((n, *steps))
    return axes or [(1,) * (1 + len(strides))]


def _of_axes(view: NkiTensor, free: Sequence[tuple[int, ...]], k: int = 1) -> NkiTensor:
    """Return a view with other free axes, each a size and strides of which the k-th are those of the view."""
    shape = view.shape[0], *[axis[0] for axis in free]
    return _view(view, shape, (view.strides[0], *[axis[k] for axis in free]))


def in_two_groups(view: NkiTensor, first: int) -> tuple[NkiTensor, int]:
    """Return the elements with as many free axes as instructions take, and how many of them hold axes 1 to `first` - 1.

    Axes are merged where the elements allow it. Where they do not, the elements are copied, and each group is one axis.
    """
    outer, inner = (
        _fewest(view.shape[a:b], view.strides[a:b]) for a, b in ((1, first), (first, view.ndim))
    )
    if len(outer) + len(inner) > current().target.access_pattern_free_dims_max:
        fresh = _new(view, view.dtype)
        _by_slices(fresh, view)
        view, count = fresh, prod(view.shape[first:])
        outer, inner = [(prod(view.shape[1:first]), count)], [(count, 1)]
    return _of_axes(view, outer + inner), len(outer)


def _view(view: NkiTensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> NkiTensor:
    return NkiTensor._make(view.storage, shape, strides, view.offset, view.dtype, view.dynamic)


_ways: dict[str, Copy] = {
    "sbuf": _by_engine,
    "float32": _by_engine,
    "partitions": _by_dma,
    "axes": _by_slices,
}
