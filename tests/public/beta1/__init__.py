"""Runs published code of the older dialect, `neuronxcc.nki`, unchanged, and compares with its own references.

Clones with their history are named by the environment; folders of single commits are made from them with `git archive`:

    NKI_SDK_ROOT        aws-neuron/aws-neuron-sdk: the tests and examples of the documentation, at three commits
    NKI_SAMPLES_ROOT    aws-neuron/nki-samples: unit tests, tutorials and reference kernels, at two commits
    NKI_KERNELS_ROOT    a folder of clones of the repositories in `user_kernels`, each named OWNER+NAME

    python -m tests.public.beta1 [words of suites]     prints the table of all suites
    pytest tests/public/test_beta1.py                  the same as tests

A suite whose clone is missing is skipped. The unit tests of nki-samples need scipy, a few contributed kernels torch.
`exceptions` lists what does not pass, and why.
"""
