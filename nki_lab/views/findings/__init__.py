"""The view Findings."""
