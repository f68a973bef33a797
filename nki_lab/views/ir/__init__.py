"""The view IR."""

#: Views stand in the order of these numbers.
PLACE = 40
