"""Trips that are replayed are those that Python would have run: each kernel is traced in both ways and compared."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.api.beta1 import compiler as ncc
from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.beta1 import replay
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.trace import trace
from nki_lab.errors import NkiError
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span
from nki_lab.targets import TRN2

X = np.zeros((128, 64), np.float32)


@pytest.fixture
def copied(monkeypatch):
    """How many trips were replayed, for each loop."""
    counts = []
    plain = replay._Pair.replay

    def counted(pair, trips):
        counts.append(plain(pair, trips))
        return counts[-1]

    monkeypatch.setattr(replay._Pair, "replay", counted)
    return counts


def places(stack):
    return [str(Span.of(place)) for place in stack]


def shown(value):
    if type(value) is NkiTensor:
        by = value.dynamic and (value.dynamic.kind, shown(value.dynamic.index), value.dynamic.limit)
        return value.storage.id, value.shape, value.strides, value.offset, value.dtype, by
    return [shown(v) for v in value] if type(value) is tuple else repr(value)


def traced(kernel, arrays):
    """Return all that a trace tells, with the errors if there are any."""
    try:
        program = trace(SourceKernel.of(kernel), arrays, {}, TRN2, Choices())
    except NkiError as error:
        return [str(error), places(error.stack)]
    at = {id(i): n for n, i in enumerate(program.body)}
    dead = {s.id: at[id(s.owner)] for s in program.storages if isinstance(s.owner, Instruction)}
    return [
        dead,
        *[
            (s.id, s.name, s.called, s.shape, s.dtype, s.buffer, s.address, s.masked, *places(s.stack))
            for s in program.storages
        ],
        *[
            (i.definition.name, shown(i.args), places(i.stack), i.ident, i.form.engine)
            for i in program.body
        ],
        *[(f.kind, f.message, places(f.stack), f.help) for f in program.findings],
    ]  # fmt: skip


def both(kernel, *arrays):
    """Trace a kernel with replay and without; fail where these differ."""
    arrays = arrays or (X,)
    traced(kernel, arrays)  # Python counts its instructions otherwise in a second run
    try:
        replay.enabled[0] = False
        expected = traced(kernel, arrays)
    finally:
        replay.enabled[0] = True
    assert traced(kernel, arrays) == expected


# -- what is replayed ----------------------------------------------------------------------------------------------


def product(x, y):
    out = nl.ndarray((x.shape[1], y.shape[1]), x.dtype, buffer=nl.shared_hbm)
    i_k, i_m = nl.mgrid[0:128, 0:128]
    i_p, i_n = nl.mgrid[0:128, 0:64]
    for m in nl.affine_range(x.shape[1] // 128):
        for n in nl.affine_range(y.shape[1] // 64):
            total = nl.zeros((128, 64), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(x.shape[0] // 128):
                a = nl.load(x[k * 128 + i_k, m * 128 + i_m])
                b = nl.ndarray((nl.par_dim(128), 64), x.dtype)
                b[...] = nl.load(y[k * 128 : (k + 1) * 128, nl.ds(n * 64, 64)])
                total[...] += nl.matmul(a, b, transpose_x=True)
            nl.store(out[m * 128 + i_p, n * 64 + i_n], value=total)
    return out


def masked(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(128)[None, :]
    for r in nl.affine_range(5):
        for c in nl.affine_range(5):
            rows, columns = r * 128 + i_p, c * 128 + i_f
            inside = (rows < 600) & (columns < 520)
            t = nl.load(x[rows, columns], mask=inside)
            t = nl.multiply(t, 2.0, mask=i_f < 100)
            nl.store(out[rows, columns], t, mask=inside)
    return out


def in_blocks(x, early):
    out = nl.ndarray((6, 128, 64), x.dtype, buffer=nl.shared_hbm)
    held = nl.ndarray((6, nl.par_dim(128), 64), x.dtype)
    sums = nl.zeros((6, nl.par_dim(128), 64), nl.float32, buffer=nl.psum)
    if early:
        held[4, :, 0:2] = nl.load(x[:, 0:2])
    for i in nl.affine_range(6):
        held[i] = nl.load(x[:, 0:64])
        inner = nl.ndarray((5, nl.par_dim(128), 64), x.dtype)
        for j in nl.affine_range(5):
            inner[j] = nl.add(held[i], 1.0)
            sums[i] += nl.matmul(nl.load(x[:, 0:128]), inner[j], transpose_x=True)
    for i in nl.sequential_range(1, 6):
        nl.store(out[6 - i], nl.add(held[i], held[i - 1]))
        nl.store(out[i], value=sums[i])
    return out


def placed(x):
    out = nl.ndarray((8, 128, 64), x.dtype, buffer=nl.shared_hbm)
    held = nl.ndarray(
        (8, nl.par_dim(128), 64),
        x.dtype,
        buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(3,)),
    )
    for i in nl.affine_range(8):
        held[i] = nl.load(x)
        own = nl.ndarray((nl.par_dim(128), 64), x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=4096))
        own[...] = nl.add(held[i], 1.0)
        nl.store(out[i], own)
    return out


def indirect(x, rows):
    out = nl.ndarray((6, 64, 64), x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.arange(64)[:, None], nl.arange(64)[None, :]
    chosen = nl.load(rows)
    for i in nl.affine_range(6):
        nl.store(out[i], nl.load(x[chosen[i_p, i], i_f]))
    return out


def decided_beside(x):
    out = nl.ndarray((6, 128, 64), x.dtype, buffer=nl.shared_hbm)
    scale, count = 2.0, 1
    for i in nl.affine_range(6):
        count = count * 2
        t = nl.load(x[:, 0:64])
        for j in nl.static_range(3):
            if j == 1 and scale > 1.0:
                t = nl.multiply(t, scale * count)
            elif j % 2 == 0:
                t[...] = t + float(j // 2)
        transposed = nisa.nc_transpose(t[:, 0:64])
        nl.store(out[i, 0:64], transposed[:, i + nl.arange(1)[None, :]] if x is None else t[0:64])
    return out


def stepped(x):
    out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
    t, other = nl.load(x), nl.load(x)
    for i in nl.sequential_range(60, 4, -4):
        t[:, i - 4 : i] = nl.add(t[:, i : i + 4], other[:, 60 - i : 64 - i])
    nl.store(out, t)
    return out


BIG = np.zeros((640, 640), np.float32)
ROWS = np.zeros((64, 6), np.int32)
REPLAYED = {
    "product": (product, BIG[:, :512], BIG[:, :256]),
    "masked": (masked, BIG[:600, :520]),
    "blocks": (in_blocks, X.repeat(2, 1), False),
    "touched": (in_blocks, X.repeat(2, 1), True),
    "placed": (placed, X),
    "indirect": (indirect, X, ROWS),
    "decided": (decided_beside, X),
    "stepped": (stepped, X),
}


@pytest.mark.parametrize("name", REPLAYED)
def test_trips_are_replayed_as_they_are_run(copied, name):
    kernel, *arrays = REPLAYED[name]
    both(kernel, *arrays)
    assert sum(copied) > 0, copied


# -- what is not ---------------------------------------------------------------------------------------------------


def differs(body):
    """Return a kernel whose loop of 8 trips runs `body(i, tile, out, kept)` as a text."""
    text = "\n".join(f"        {line}" for line in body.strip().splitlines())
    source = f"""
def kernel(x):
    out = nl.ndarray((8, 128, 64), x.dtype, buffer=nl.shared_hbm)
    big, kept, table, n = nl.load(x), [], (0, 0, 0, 3, 3, 5, 6, 7), 1
    psum = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(8)[None, :]
    for i in nl.affine_range(8):
{text}
    return out
"""
    return source


VARYING = [
    "if i > 2:\n    nl.store(out[i], big)",
    "nl.store(out[i // 2 * 2 + i % 2], big)",
    "kept.append(big)\nnl.store(out[len(kept) - 1], big)",
    "nl.store(out[helper(i)], big)",
    "nl.store(out[(lambda: max(i, 2))()], big)",
    "big = nl.add(big, 1.0)\nnl.store(out[i], big)",
    "nl.store(out[table[i]], big)",
    "nl.store(out[min(i, 5)], big)",
    "nl.store(out[int(i / 2)], big)",
    "nl.store(out[i * i % 8], big)",
    "nl.store(out[i, :, 0:8], big[i_p, i_f], mask=i < 3)",
    "nl.store(out[i, :, 0:8], big[i_p, i_f], mask=(i_f < i))",
    "nl.store(out[i, :, 0:8], big[i_p, i_f], mask=(i_f < 1.5 + i * 0.5))",
    "nl.store(out[i, :, 0:8], big[i_p, i_f], mask=(i_f + i >= 3))",
    "nl.store(out[i - 4], big)",
    "nl.store(out[i, :, 0:4], big[:, i * 5 : i * 5 + 5 : (i >= 0) * 2][:, 0:1])",
    "big[:, 8 * i : 8 * i + 8] = nl.add(big[:, 32:40], 1.0)",
    "big[i_p, i + i_f] = nl.add(big[i_p, 2 * i + i_f], 1.0)",
    "nl.store(out[i], nl.add(big, float(i)))",
    "t = nl.ndarray((nl.par_dim(128), 64), x.dtype, name=f't{i}')\nt[...] = big * 2.0\nnl.store(out[i], t)",
    "t = nl.load(x[i_p, i * 10 + i_f])\nnl.store(out[i, :, 0:8], t)",
    "nl.store(out[i, 0:8], big[nl.ds(i * 16, 8)])",
    "nl.store(out[2 * i], big)",
    "psum[0:64, nl.ds(i * 64, 64)] += nl.matmul(big[:, 0:64], big, transpose_x=True)",
    "n = n + i\nnl.store(out[n], big)",
    "nl.store(out[0], big)",
    "print(i)\nnl.store(out[i], big)",
    "nl.store(out[i], nl.full((128, 64), i, x.dtype))",
    "global calls\ncalls += 1\nnl.store(out[calls % 8], big)",
]


@pytest.mark.parametrize("body", VARYING)
def test_what_may_differ_is_run_by_python(body, tmp_path, capsys):
    path = tmp_path / "kernel.py"
    path.write_text(differs(body))
    space = {"nl": nl, "nisa": nisa, "calls": 0, "helper": lambda i: i if i < 4 else 11 - i}
    exec(compile(path.read_text(), str(path), "exec"), space)

    def kernel(x):
        space["calls"] = 0
        return space["kernel"](x)

    both(kernel)


def test_a_last_trip_that_is_not_its_copy_is_an_error(monkeypatch):
    monkeypatch.setattr(replay._Pair, "_limit", lambda *_: None)
    with pytest.raises(Exception, match="the last trip of a loop"):
        trace(SourceKernel.of(masked), (BIG[:600, :520],), {}, TRN2, Choices())
