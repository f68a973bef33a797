"""Tests of the program representation."""
