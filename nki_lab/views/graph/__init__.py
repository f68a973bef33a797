"""The view Graph."""

#: Views stand in the order of these numbers.
PLACE = 100
