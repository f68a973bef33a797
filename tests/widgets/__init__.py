"""Tests of what every view is shown with."""
