"""Kernels as operators of PyTorch and JAX; either library is loaded when an operator of it is made."""

from nki_lab.frameworks import jax, torch

__all__ = ["jax", "torch"]
