"""What is a program? Tensors and views, instructions, kernels, and their text form."""
