"""The module `neuronxcc.nki.compiler`."""
