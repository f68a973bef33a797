"""Tests installations in which only pip has been at work."""
