"""The view Report."""
