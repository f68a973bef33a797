"""A small eager interpreter of NKI kernels, written from the official pages alone, and random kernels to compare with.

It shares no code with nki_lab: tensors, addresses, casts, operators, instructions, collectives and control flow are
written again. Kernels are compared in `test_programs.py`; `make fuzz` compares many more.
"""
