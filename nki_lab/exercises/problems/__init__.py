"""Which exercises does each notebook have?  One file a notebook, one block an exercise, listed in PROBLEMS."""
