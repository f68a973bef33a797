"""Gradients of memory: written again, in parts, repeated, in windows, in HBM, and where SBUF is full."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.autodiff import reverse
from tests.autodiff.gradcheck import check_gradients
from tests.autodiff.test_rules import X, Y, loaded, stored, tile, values


@nki.jit
def written_again(x):
    """Change parts of a tile, and read others in between."""
    t, out = loaded(x), tile()
    nisa.tensor_tensor(dst=t[:, 0:3], data1=t[:, 0:3], data2=t[:, 3:6], op=nl.multiply)
    nisa.tensor_copy(dst=out, src=t)
    nisa.tensor_tensor(dst=t[:, 2:5], data1=t[:, 1:4], data2=t[:, 2:5], op=nl.multiply)
    nisa.tensor_tensor(dst=out, data1=out, data2=t, op=nl.multiply)
    nisa.memset(dst=t[:, 1:2], value=2.0)
    nisa.tensor_tensor(dst=out, data1=out, data2=t, op=nl.add)
    return stored(out)


def written_again_formula(x):
    t = x.copy()
    t[:, 0:3] = t[:, 0:3] * t[:, 3:6]
    out = t.copy()
    t[:, 2:5] = t[:, 1:4] * t[:, 2:5]
    out = out * t
    t[:, 1] = 2
    return out + t


@nki.jit
def windows(x, row):
    """Read windows that overlap, and a row repeated over partitions and elements."""
    t, out = loaded(x), tile((3, 4, 3))
    wide = tile((3, 6))
    nisa.dma_copy(dst=wide, src=row.reshape((1, 6)).broadcast(0, 3))
    nisa.tensor_tensor(dst=t, data1=t, data2=wide, op=nl.multiply)
    overlapping = t.ap(pattern=[[6, 3], [1, 4], [1, 3]])
    repeated = wide[:, 0:4].expand_dim(2).broadcast(2, 3)
    nisa.tensor_tensor(dst=out, data1=overlapping, data2=repeated, op=nl.multiply)
    return stored(out)


def windows_formula(x, row):
    t = x * row
    return np.stack([t[:, n : n + 3] * row[n] for n in range(4)], 1)


@nki.jit
def through_hbm(x, y):
    """Read a result again, copy it within HBM, and overwrite a part of the copy."""
    out = nl.ndarray((3, 6), dtype=nl.float32, buffer=nl.shared_hbm)
    between = nl.ndarray((3, 6), dtype=nl.float32, buffer=nl.hbm)
    t = loaded(x)
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.multiply)
    nisa.dma_copy(dst=out, src=t)
    nisa.dma_copy(dst=between, src=out)
    nisa.dma_copy(dst=between[0:2, 1:4], src=y[1:3, 2:5])
    u = loaded(between)
    nisa.tensor_tensor(dst=u, data1=u, data2=loaded(y), op=nl.multiply)
    last = nl.ndarray((2, 6), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=last, src=u[1:3])
    return out, last


def through_hbm_formula(x, y):
    out = x * x
    between = out.copy()
    between[0:2, 1:4] = y[1:3, 2:5]
    return out, (between * y)[1:3]


@nki.jit
def added_up(x):
    """Add products in PSUM, and use the sum after each of them."""
    t, total, sums = loaded(x), tile((6, 6), buffer=nl.psum), tile((6, 6))
    nisa.memset(dst=sums, value=0.0)
    for n in range(3):
        nisa.nc_matmul(dst=total, stationary=t, moving=t, accumulate=n > 0)
        copy = tile((6, 6))
        nisa.activation(dst=copy, op=nl.tanh, data=total)
        nisa.tensor_tensor(dst=sums, data1=sums, data2=copy, op=nl.add)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=0.7)
    return stored(sums)


def added_up_formula(x):
    total, sums = 0, 0
    for n in range(3):
        total = total + x.T @ x * 0.49**n
        sums = sums + np.tanh(total)
    return sums


@nki.jit
def looked_up(table, rows):
    """Take rows of a table, some of them several times, and a slice of the table."""
    index, t = loaded(rows), tile((5, 4))
    nisa.dma_copy(
        dst=t, src=table.ap(pattern=[[4, 5], [1, 4]], vector_offset=index, indirect_dim=0)
    )
    nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.multiply)
    return stored(t), stored(loaded(table[1:3]))


ROWS = np.array([[6], [1], [6], [0], [6]], np.int32)
KERNELS = {
    "looked_up": (
        looked_up,
        lambda table, rows: (table[ROWS[:, 0]] ** 2, table[1:3]),
        {"table": values(5, (7, 4)), "rows": ROWS},
    ),
    "written_again": (written_again, written_again_formula, {"x": X}),
    "windows": (windows, windows_formula, {"x": X, "row": values(9, (6,))}),
    "through_hbm": (through_hbm, through_hbm_formula, {"x": X, "y": Y}),
    "added_up": (added_up, added_up_formula, {"x": X * 0.4}),
}


@pytest.mark.parametrize("room", ["sbuf", "hbm"])
@pytest.mark.parametrize("name", KERNELS)
def test_memory(name, room, monkeypatch):
    """Also where SBUF has no room to keep the values of the forward program."""
    if room == "hbm":
        monkeypatch.setattr(reverse, "_TIMES_PEAK", 1 << 40)
    kernel, formula, inputs = KERNELS[name]
    check_gradients(kernel, formula, **inputs)
