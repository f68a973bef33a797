"""The view Vary."""

#: Views stand in the order of these numbers.
PLACE = 110
