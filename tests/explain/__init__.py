"""Tests of explain: pages about a topic, and the examination of an installation."""
