"""Zeros of PSUM, to which products are added: no instruction writes them as long as nothing else needs them.

A product overwrites each element the first time it is written, and adds from then on (`accumulate=None`), which is what
adding it to zeros gives. Only a part that is read before a product has written it is filled.
"""

from __future__ import annotations

import numpy as np

from nki_lab.beta1.notes import noted
from nki_lab.errors import NotModelled
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import memset


class Zeros:
    """What has been written of a tensor in PSUM.

    Attributes:
        filled: its elements are zero; False where they were never set.
        set: a part was filled by an instruction, to which the Tensor engine cannot add.
    """

    __slots__ = ("filled", "set", "_written", "_mask")

    def __init__(self, filled: bool) -> None:
        self.filled = filled
        self.set = False
        self._written: dict[tuple[int, tuple[int, ...], tuple[int, ...]], NkiTensor] = {}
        self._mask: np.ndarray | None = None

    def write(self, view: NkiTensor) -> None:
        """Note that an instruction writes a part."""
        key = view.offset, view.shape, view.strides
        if (notes := noted()) is not None:
            notes.same.append(key in self._written)
            notes.zeros.append((view, key not in self._written))
        self._written.setdefault(key, view)
        self._mask = None

    def settled(self, view: NkiTensor) -> bool:
        """Tell whether all of a part was written, or is never to be zero."""
        if not self.filled:
            return True
        known = (view.offset, view.shape, view.strides) in self._written
        if (notes := noted()) is not None:
            notes.same.append(known)
            notes.zeros.append((view, False))
        return known or bool(self._places(view).all())

    def settle(self, view: NkiTensor) -> None:
        """Fill a part that is about to be read, unless it was written."""
        if self.settled(view):
            return
        if self._places(view).any():
            raise NotModelled(
                f"a part of {view.describe()} was written by products, and the rest is zero",
                help="read the parts apart, or fill the tensor first: t[...] = 0",
            )
        self.set = True
        memset(dst=view, value=0.0 if view.dtype.is_float else 0)
        self.write(view)

    def _places(self, view: NkiTensor) -> np.ndarray:
        """Return which elements of a part were written."""
        if self._mask is None:
            storage = view.storage
            self._mask = np.zeros(storage.nbytes // storage.dtype.itemsize, bool)
            for other in self._written.values():
                _part(self._mask, other)[...] = True
        return _part(self._mask, view)


def _part(mask: np.ndarray, view: NkiTensor) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(mask[view.offset :], view.shape, view.strides)
