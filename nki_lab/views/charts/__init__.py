"""The view Charts."""

#: Views stand in the order of these numbers.
PLACE = 95
