"""Tests that the timing model behaves as the machine it describes."""
