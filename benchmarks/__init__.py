"""Measures how fast nki_lab is, as ratios side by side; nothing here is asserted."""
