"""The module `neuronxcc.nki.isa`."""

from __future__ import annotations

from nki_lab.beta1.matmul import nc_matmul, nc_transpose

__all__ = ["nc_matmul", "nc_transpose"]
