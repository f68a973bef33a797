"""Turns what a cell or a command asks for into a run and its answers: one way for the notebook and the command line."""
