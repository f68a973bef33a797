"""Runs the test suite of github.com/aws-neuron/nki-library on the simulator.

Their kernels, their configurations and their PyTorch references, from a clone; the answers are compared by their
harness. To print the table of all kernels (about ten minutes), or to run some of them as tests:

    git clone https://github.com/aws-neuron/nki-library
    git -C nki-library checkout d2ad3a579498d1888aa8740af97fd325dd5f2740
    pip install torch pandas boto3 fabric2 filelock plotext allpairspy aws-embedded-metrics pytest-html pytest-metadata
    NKI_LIBRARY_ROOT=$PWD/nki-library python -m tests.public.nki_library [words of file names]
    NKI_LIBRARY_ROOT=$PWD/nki-library python -m tests.public.nki_library --draw 7 --pick 4 --target trn3
    NKI_LIBRARY_ROOT=$PWD/nki-library pytest tests/public/test_nki_library.py [-k "rope or topk"]

The packages are what their harness imports (their pyproject.toml, `test`). What it imports beyond that is not
published; `stand_ins` takes its place. `exceptions` lists the causes of what does not pass, and whose fault they
are. `suite.COMMITS` are the commits with which they were found. Their harness skips shapes from 4,096 on, unless
the environment has NKILIB_SIMULATION_RUN_ALL=1.
"""
