"""Advice on products of float32 tiles where bfloat16 is precise enough."""

from __future__ import annotations

from collections.abc import Iterator

from nki_lab.dtypes import bfloat16, float32
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import TENSOR
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, duration


def _find(evidence: Evidence) -> Iterator[Proposal]:
    for group in evidence.groups_of(TENSOR):
        record = group.record
        form = record.form
        read = [form.example.args[k] for k in form.reads if k not in form.writes]
        if not any(step.macs for step in record.steps) or not any(t.dtype is float32 for t in read):
            continue
        narrow = evidence.with_tensors(record, _narrow, reads_only=True)
        if narrow.interval >= record.interval:
            continue
        yield Proposal(
            f"{counted(len(group.entries), 'product')} of float32 tiles, {duration(record.interval / 1000)} each: "
            f"{record.interval / narrow.interval:.0f} times the {duration(narrow.interval / 1000)} of bfloat16",
            "load the operands as bfloat16, or cast them once with a copy: products are still summed in float32, and "
            "each input is rounded to 8 bits",
            group.entries,
            changes=((group.entries, narrow),),
        )


def _narrow(tensor: NkiTensor) -> NkiTensor:
    return retyped(tensor) if tensor.dtype is float32 else tensor


def retyped(tensor: NkiTensor) -> NkiTensor:
    """Return a tensor of bfloat16 with the same shape and strides."""
    return NkiTensor._make(
        tensor.storage, tensor.shape, tensor.strides, tensor.offset, bfloat16, tensor.dynamic
    )


RULE = AdviceRule("float32 products", _find)
