"""Kernels as operators of PyTorch and JAX; `nki_lab.torch` and `nki_lab.jax` have the names that people use."""

from nki_lab.frameworks.check import check_op

__all__ = ["check_op"]
