"""The module `nki.tensor`: the class of tensors."""

from nki_lab.ir.tensor.view import NkiTensor

__all__ = ["NkiTensor"]
