"""The view Charts."""
