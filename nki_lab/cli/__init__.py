"""The command line: `nki-lab` and the pytest plugin."""
