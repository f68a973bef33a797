"""Tests that each error has an example, and its text."""
