"""Programs: tensors and views, instructions, kernels, and their text form."""
