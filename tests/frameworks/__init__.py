"""Tests of kernels as operators of PyTorch and JAX."""
