"""Tests of the older dialect, `neuronxcc.nki`."""
