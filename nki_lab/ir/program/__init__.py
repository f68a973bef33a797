"""Programs: kernels and loops, live ranges, accesses, and what is verified."""
