"""The view Source."""

#: Views stand in the order of these numbers.
PLACE = 30
