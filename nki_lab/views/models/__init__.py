"""The model around kernels, as a notebook shows it: not views of a run, so this folder has no place among them."""
