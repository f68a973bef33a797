"""Compares the latencies that nki-library names as goals with the model.

Its tests carry, per configuration, a number that its authors call quality of result: a goal for the latency on trn2.
With a clone of github.com/aws-neuron/nki-library their own kernels, on their own inputs, are compiled and timed here
(`NKI_LIBRARY_ROOT`; tests/public/nki_library says what else it takes); without one these rows have no answer.
"""
