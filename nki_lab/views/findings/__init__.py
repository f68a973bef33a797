"""The view Findings."""

#: Views stand in the order of these numbers.
PLACE = 20
