"""Kernels in the official documentation and samples: where they are, what they are given, what they must give.

NKI_SDK_ROOT=<clone of aws-neuron/aws-neuron-sdk> pytest tests/public/test_sdk_*.py
NKI_SAMPLES_ROOT=<clone of aws-neuron/nki-samples> pytest tests/public/test_samples.py

The tables were made with the commits 81ce03ae and 6905a68. A page that has changed since is told by the tests.
"""
