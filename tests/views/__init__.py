"""Tests of the views, their data, texts and pictures."""
