"""The package `neuronxcc` of the older dialect."""
