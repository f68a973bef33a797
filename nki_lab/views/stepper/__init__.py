"""The view Stepper."""

#: Views stand in the order of these numbers.
PLACE = 80
