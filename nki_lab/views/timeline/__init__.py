"""The view Timeline."""

#: Views stand in the order of these numbers.
PLACE = 90
