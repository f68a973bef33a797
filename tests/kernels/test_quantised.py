"""Quantised numbers of prebuilt kernels are the nearest of their format, but where float32 rounds to the next."""

import numpy as np

from nki_lab import kernels


def test_few_rows_of_8_bits_differ_from_the_nearest():
    kernel = kernels.get("rmsnorm_quant")
    size = {"rows": 140, "width": 512, "norm": 1, "bound": 0}
    arguments = kernel.example(size, "float32", seed=3)
    codes, _ = kernel.decoded(kernel(**arguments), arguments)
    nearest, _ = kernel.reference(**arguments)
    assert np.mean(codes != nearest) < 1e-4
    assert len(np.unique(codes)) > 200
