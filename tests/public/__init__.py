"""Tests that published kernels, in clones of their own repositories, run as they are and give the published answers.

Nothing of those repositories is copied here: the tests are skipped unless an environment variable names a clone.
"""
