"""The view Memory."""
