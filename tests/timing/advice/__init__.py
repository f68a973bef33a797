"""Advice on kernels, one rule after the other."""
