"""Tests of what a kernel may write besides instructions."""
