"""Tests that published kernels of NKI 0.1 to 0.6 are moved to 0.7 without a hand, and compute the same bit by bit.

The variables of the other suites name clones with their history: each file is taken from a commit of its time, with
the files beside it.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from tests.public.migration import Listener
from tests.public.sdk.clone import SAMPLES_VARIABLE, SDK_VARIABLE, load, official_names, root
from tests.public.sdk.references import signed

LIBRARY_VARIABLE = "NKI_LIBRARY_ROOT"
TUTORIALS = "src/nki_samples/tutorials"
MATMUL = f"{TUTORIALS}/matrix_multiplication/matrix_multiplication_nki_kernels.py"
LIBRARY = "src/nkilib_src/nkilib"
EXAMPLES = "nki/examples"

Arguments = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class Published:
    """A published kernel.

    Attributes:
        variable: names the clone.
        commit: of its time.
        folder: what is taken from the clone.
        file: the file, in the clone.
        kernel: its name.
        arguments: given a random generator.
        rules: words of the changes that must be among those made.
        keywords: arguments by name.
    """

    variable: str
    commit: str
    folder: str
    file: str
    kernel: str
    arguments: Arguments
    rules: tuple[str, ...]
    keywords: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{Path(self.file).stem}.{self.kernel}@{self.commit}"


def _arrays(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Arguments:
    return lambda rng: tuple(signed(rng, shape, "float32").astype(dtype) for shape in shapes)


def _mamba(columns: int) -> Arguments:
    return _arrays((1, 128, columns), (1, 128, columns), (128, 4), (1, 4, columns), (1, 4, columns))


def _rows(rng: np.random.Generator) -> tuple[Any, ...]:
    return (
        *_arrays((384, 512), (384, 512), dtype=ml_dtypes.bfloat16)(rng),
        np.array([[2]], np.int32),
    )


RANGE = "it is range"
SAMPLES = {
    "basic_": ((128, 64), (128, 512)),
    "tiled_": ((256, 128), (256, 512)),
    "hoist_load_": ((256, 128), (256, 512)),
    "block_free_dimension_": ((128, 256), (128, 1024)),
    "fully_optimized_": ((1024, 2048), (1024, 1024)),
}
KERNELS = [
    *(
        Published(SAMPLES_VARIABLE, "6905a68", TUTORIALS, MATMUL, f"nki_matmul_{name}", _arrays(*shapes),
                  (RANGE, "`dtype` was ignored"))
        for name, shapes in SAMPLES.items()
    ),
    Published(LIBRARY_VARIABLE, "0759719", LIBRARY, f"{LIBRARY}/experimental/conv/depthwise_conv1d.py",
              "depthwise_conv1d_implicit_gemm", _arrays((2, 8, 1, 32), (8, 1, 1, 4)),
              (RANGE, "`platform_target` is left out", "a result lies in nl.shared_hbm"),
              (("feature_group_count", 8),)),
    Published(LIBRARY_VARIABLE, "d2ad3a5", LIBRARY,
              f"{LIBRARY}/experimental/dynamic_shapes/dynamic_elementwise_add.py", "dynamic_elementwise_add",
              _rows, (RANGE, "a loop over nl.dynamic_range is nl.fori_loop")),
    Published(SDK_VARIABLE, "81ce03ae", EXAMPLES, f"{EXAMPLES}/transpose2d/transpose2d_nki_kernels.py",
              "tensor_transpose2D_kernel_", lambda rng: (*_arrays((32, 24))(rng), (4, 6)), (RANGE,)),
    Published(SDK_VARIABLE, "81ce03ae", EXAMPLES, f"{EXAMPLES}/tensor_addition/tensor_addition_nki_kernels.py",
              "nki_tensor_add", _arrays((256, 512), (256, 512)), (RANGE,)),
    *(
        Published(SDK_VARIABLE, "81ce03ae", EXAMPLES, f"{EXAMPLES}/fused_mamba/mamba_nki_kernels.py", name,
                  _mamba(columns), (RANGE,))
        for name, columns in (("mamba_v1", 64), ("mamba_v2", 64), ("mamba_v3", 512))
    ),
]  # fmt: skip


def taken(published: Published, folder: Path) -> Path:
    """Write the files of a commit into a folder, and return that of the kernel."""
    clone = root(published.variable)
    if clone is None:
        pytest.skip(f"{published.variable} names no clone")
    done = subprocess.run(
        ["git", "-C", str(clone), "archive", published.commit, published.folder],
        capture_output=True,
    )
    if done.returncode:
        pytest.skip(f"the clone has no commit {published.commit}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / published.file


@pytest.mark.parametrize("published", KERNELS, ids=str)
def test_a_published_kernel_is_moved_and_computes_the_same(published, tmp_path, rng):
    path = taken(published, tmp_path)
    arguments = published.arguments(rng)
    moved = nki_lab.migrate(f"{path}::{published.kernel}", *arguments, **dict(published.keywords))
    assert moved.is_equal and not moved.undecided, moved.report()
    assert len({row.inputs for row in moved.proof}) >= 2
    for words in published.rules:
        assert any(words in note.text for note in moved.changes), moved.report()
    comments = [line[line.index("#") :] for line in path.read_text().splitlines() if "#" in line]
    assert [c for c in comments if c not in moved.text] == [], "every comment is kept"
    moved.write()
    again = nki_lab.migrate(f"{path}::{published.kernel}", *arguments, **dict(published.keywords))
    assert not again.is_moved


OLDER = """\
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a, factor):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.{function}(nl.load(a), factor))
    return out
"""


@pytest.mark.parametrize(
    ("function", "outcome"), [("multiply", "moved"), ("divide", "moved but for the division")]
)
def test_what_comes_of_a_kernel_is_told_by_the_calls_of_it(function, outcome, tmp_path, rng):
    path = tmp_path / "kernels.py"
    path.write_text(OLDER.format(function=function))
    listener, done = Listener(tmp_path), set()
    with official_names(tmp_path):
        with listener.listening():
            kernel = load(path).kernel
            for rows in (8, 12, 16, 20):
                kernel(rng.standard_normal((rows, 32)).astype(np.float32), 3.0)
        (row,) = listener.rows("suite", done)
        assert list(listener.rows("suite", done)) == []
    assert (row.file, row.kernel, row.outcome) == ("kernels.py", "kernel", outcome)
    (calls,) = listener.calls.values()
    assert [call.arrays[0].shape[0] for call in calls.values()] == [8, 12, 16]
    assert row.sets >= 4
