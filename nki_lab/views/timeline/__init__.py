"""The view Timeline."""
