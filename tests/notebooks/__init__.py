"""Tests that the notebooks of the workshop are fit to be shown, and say what they show."""
