"""The prebuilt kernels, one module each; its `KERNEL` says everything about it."""
