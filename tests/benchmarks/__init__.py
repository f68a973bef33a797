"""Tests that the programs that stand for published measurements do what those did."""
