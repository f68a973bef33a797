"""The view IR."""
