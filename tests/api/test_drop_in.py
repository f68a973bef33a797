"""Tests that published kernels find what they use, with nothing but `import nki` in front of them."""

from tests.api.test_install import run_python

HEAD = """
from nki_lab.api.install import install
install()
import inspect
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5

def scaled(x, factor=1.0):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, factor)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out
"""


def same(text, *folders):
    """Run a program that prints truth values, and return whether it printed nothing else."""
    lines = run_python(HEAD + text, *folders)
    return lines and set(" ".join(lines).split()) == {"True"}


def test_modules():
    assert same("""
from nki.isa.constants import dge_mode, dma_engine, engine, nc_version, oob_mode, reduce_cmd
from nki.tensor import NkiTensor
from nki.typing import tensor
from nki.collectives import ReplicaGroup
import nki.compiler, nki.dtype
print(nl.range is range, nl.bool == nl.bool_, nki.dtype.bfloat16 is nl.bfloat16, NkiTensor is nl.NkiTensor)
print(engine.vector is nisa.engine.vector, tensor[2, 3].shape == (2, 3))
""")


def test_kernels_are_read_jitted_again_made_and_called_by_others():
    assert same("""
kernel = nki.jit(scaled)
print("def unwrap" in inspect.getsource(nki.jit(inspect.unwrap).func), kernel.func is scaled)
print(kernel.__name__ == "scaled", kernel.__wrapped__ is scaled)
print(str(inspect.signature(kernel)) == "(x, factor=1.0)")
again = nki.jit(kernel, mode="simulation")
print(np.array_equal(again(X, 3.0), 3 * X), np.array_equal(nki.simulate(again)(X), X))

def make(factor):
    @nki.jit
    def made(x):
        return kernel(kernel(x, factor), 2.0)
    return made

print(np.array_equal(make(3.0)(X), 6 * X), np.array_equal(make(5.0)[1](X), 10 * X))
""")


def test_dtypes_are_compared_by_their_text():
    assert same("""
@nki.jit
def kernel(x):
    tile = nl.load(x)
    print(str(tile.dtype) == str(nl.float32) == "float32", tile.dtype == nl.float32 == x.dtype)
    print(tile.dtype in (nl.bfloat16, nl.float32), {nl.float32: 4}[tile.dtype] == 4)
    print("float8" in str(nl.float8_e4m3), str(nl.float8_e4m3fn) == "float8_e4m3fn", nl.float8_e5m2 == "float8_e5m2")
    return scaled(x)
kernel(X)
""")


def test_constants_from_a_file(tmp_path):
    file = tmp_path / "constant.npy"
    assert same(f"""
np.save({str(file)!r}, X * 2)

@nki.jit
def kernel(x):
    constant = nl.shared_constant({str(file)!r})
    print(constant.buffer == nl.shared_hbm, constant.shape == x.shape)
    return scaled(constant)
print(np.array_equal(kernel(X), X * 2))
""")


def test_objects_are_no_dataclasses_of_python():
    assert same("""
from dataclasses import dataclass
from enum import Enum

class Mode(Enum):
    fast = 1
    slow = 2

@dataclass
class Settings(nl.NKIObject):
    factor: float
    mode: Mode = Mode.slow
    data: object = None
    def __post_init__(self):
        self.half = None if self.factor is None else self.factor / 2

class Section(nl.NKIObject):
    size = 4
    start: int

@nki.jit
def kernel(settings):
    assert settings.mode == Mode.fast
    local = Settings(2.0)
    local.factor += settings.half
    return scaled(settings.data, local.factor)

print(Settings().factor is None, Section(size=7).size == 7, Section().size == 4, Section(3) == Section(3))
print(np.array_equal(kernel(Settings(6.0, Mode.fast, X)), 5 * X))
""")
