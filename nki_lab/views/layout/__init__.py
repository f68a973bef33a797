"""The view Layout."""

#: Views stand in the order of these numbers.
PLACE = 50
