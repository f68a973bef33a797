"""Tests that the workshop accepts right answers, and only those, with reasons that teach."""
