"""The view Array."""
