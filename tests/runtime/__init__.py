"""Tests of running kernels."""
