"""Answers about a run, each a function of its profile."""
