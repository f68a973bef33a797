"""Tests that the tables of a run hold, keep and show what happened. A package, for `example.py`."""
