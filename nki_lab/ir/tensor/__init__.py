"""Tensors: storage, views and their layout, and addresses from registers; no module here knows an instruction."""
