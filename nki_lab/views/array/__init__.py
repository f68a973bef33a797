"""The view Array."""

#: Views stand in the order of these numbers.
PLACE = 60
