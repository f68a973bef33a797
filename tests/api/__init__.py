"""Tests of the official import names."""
