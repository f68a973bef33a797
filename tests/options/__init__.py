"""Tests of what magics and the command line share."""
