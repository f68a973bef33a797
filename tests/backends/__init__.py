"""Tests of what runs compiled kernels."""
