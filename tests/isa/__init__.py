"""Tests of the instruction definitions."""
