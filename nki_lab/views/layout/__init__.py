"""The view Layout."""
