"""The view Stepper."""
