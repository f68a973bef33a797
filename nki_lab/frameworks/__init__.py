"""Kernels as operators of PyTorch and JAX; either library is loaded when an operator of it is made."""

from nki_lab.frameworks import jax, torch
from nki_lab.frameworks.check import check_op

__all__ = ["check_op", "jax", "torch"]
