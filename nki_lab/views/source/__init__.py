"""The view Source."""
