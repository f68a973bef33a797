"""Tests of nki_lab.server."""
