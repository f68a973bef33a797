"""The view Report."""

#: Views stand in the order of these numbers.
PLACE = 10
