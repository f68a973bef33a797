"""Explains codes, instructions, names, options and words, and examines an installation."""
