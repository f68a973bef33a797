"""The view Vary."""
