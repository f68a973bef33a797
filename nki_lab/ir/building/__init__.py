"""Builds a program while a kernel is traced."""
