"""The older dialect, `neuronxcc.nki`: a front end that emits the instructions of today's registry."""
