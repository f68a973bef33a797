"""Tensors: storage, views and their layout, addresses from registers. Knows no instruction."""
