"""Turns a Python function into a program."""
