"""The view Memory."""

#: Views stand in the order of these numbers.
PLACE = 70
