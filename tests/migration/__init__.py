"""Tests of moving kernels from one version of NKI to another."""
