"""Kernels that show what the official pages' examples show, written anew, with references in NumPy.

They need no clone: `python -m tests.official` prints which test shows what of which page. The pages' own code runs in
`tests/public`, where a clone is named.
"""
