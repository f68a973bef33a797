"""The text of a program: printer and parser."""
