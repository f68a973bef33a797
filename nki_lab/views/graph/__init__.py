"""The view Graph."""
