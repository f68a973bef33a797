"""Tests that kernels of the older dialect become today's: what each rule writes, and that every bit stays equal."""

from __future__ import annotations

import re
import runpy

import numpy as np
import pytest
from typer.testing import CliRunner

import nki_lab
import nki_lab.migration.moving as moving
from nki_lab.api.install import aliases
from nki_lab.cli.main import app
from nki_lab.errors import CheckFailed
from nki_lab.migration.older import moved_from_older
from nki_lab.migration.rewriter import Moved
from nki_lab.migration.widths import with_short_lines

HEAD = """\
import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

"""
OUT = "out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)"
#: What is tested: the body of a kernel of `a`, a part of what it becomes, and the shape of `a`.
RULES = {
    "slices": (
        ["ip = nl.arange(24)[:, None]", "jf = 8 + nl.arange(16)[None, :]", "t = nl.load(a[ip, jf])",
         "nl.store(out[ip, jf], t)", "nl.store(out[ip, nl.arange(8)[None, :]], t[ip, nl.arange(8)[None, :]])"],
        "t = nl.load(a[0:24, 8:24])", (24, 24),
    ),
    "strides": (
        ["ip, jf = nl.mgrid[0:24, 0:16]", "t = nl.load(a[ip, 2 * jf + 1])", "nl.store(out[ip, jf], t)",
         "nl.store(out[ip, jf + 16], t)"],
        "a[0:24, 1:32:2]", (24, 32),
    ),
    "mask": (
        ["ip = nl.arange(16)[:, None]", "jf = nl.arange(a.shape[1])[None, :]",
         "for i in nl.affine_range(2):",
         "    t = nl.load(a[i * 16 + ip, jf], mask=i * 16 + ip < a.shape[0])",
         "    nl.store(out[i * 16 + ip, jf], nl.exp(t), mask=i * 16 + ip < a.shape[0])"],
        "a[i * 16:min(i * 16 + 16, a.shape[0]), 0:a.shape[1]]", (27, 24),
    ),
    "operators": (
        ["t = nl.load(a)", "nl.store(out, (t + 1.5) * t - 0.5 * t)"],
        "nl.multiply(0.5, t, dtype=nl.float32)", (24, 24),
    ),
    "column": (
        ["t = nl.load(a)", "nl.store(out, nl.multiply(t, nl.max(t, axis=1)))"],
        "operand0=nl.copy(nl.max(t, axis=1), dtype=nl.float32)", (24, 20),
    ),
    "row": (
        ["t = nl.load(a)", "r = nl.load(a[0:1, :])", "nl.store(out, nl.add(t, r))"],
        "nl.add(t, repeat_row(r, t.shape[0]))", (24, 20),
    ),
    "blocks": (
        ["t = nl.ndarray((2, nl.par_dim(16), a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)",
         "u = nl.load_transpose2d(a[0:16, 0:8], dtype=t.dtype)", "nl.store(out[0:8, 0:16], u)",
         "for i in nl.affine_range(2):", "    t[i] = nl.load(a[i * 16:(i + 1) * 16, :])",
         "for i in nl.affine_range(2):", "    nl.store(out[i * 16:(i + 1) * 16, :], t[1 - i])"],
        "[nl.ndarray((16, a.shape[1]), dtype=a.dtype, buffer=nl.sbuf) for _ in range(2)]", (32, 20),
    ),
    "blocks that a function is given": (
        ["def fill(both, t):", "    both[0, :, :] = t * t",
         "    both[0, :, :8] = both[0, :, :8] + (-1 * t[:, 8:16] * both[0, :, :8])", "    both[1, :, :] = t",
         "t = nl.load(a)",
         "both = nl.ndarray([2] + [nl.par_dim(t.shape[0]), t.shape[1]], dtype=t.dtype, buffer=nl.sbuf)",
         "fill(both, t)", "nl.store(out, nl.subtract(both[0], both[1]))"],
        "[nl.ndarray((t.shape[0], t.shape[1]), dtype=t.dtype, buffer=nl.sbuf) for _ in range(2)]", (24, 20),
    ),
    "in place": (
        ["t = nl.load(a)", "t += 2.0", "t[...] = nl.exp(t)", "t[0:8, :] = 3.0", "nl.store(out, t)"],
        "nisa.memset(dst=t[0:8, :], value=3.0)", (24, 20),
    ),
    "dst": (
        ["t = nl.load(a)", "s = nisa.tensor_reduce(np.add, t, axis=(1,), keepdims=True)",
         "e = nisa.activation(np.exp, t, scale=0.5)",
         "nl.store(out, nisa.tensor_scalar(e, np.subtract, s, op1=nl.multiply, operand1=2.0))"],
        "op0=nl.subtract, operand0=nl.copy(s, dtype=nl.float32), op1=nl.multiply, operand1=2.0", (24, 20),
    ),
    "product": (
        ["t = nl.load(a)", "acc = nl.zeros((20, 20), dtype=nl.float32, buffer=nl.psum)",
         "for i in nl.affine_range(3):", "    acc += nl.matmul(t, t, transpose_x=True)",
         "nl.store(out[0:20, :], nl.copy(acc, dtype=a.dtype))", "nl.store(out[20:24, :], t[20:24, :])"],
        "nisa.nc_matmul(dst=acc, stationary=t, moving=t)", (24, 20),
    ),
    "products of two rows": (
        ["t = nl.copy(nl.load(a), dtype=nl.float8_e4m3)", "p, i, j = nl.mgrid[0:32, 0:2, 0:128]",
         "u = nl.ndarray((32, 256), dtype=t.dtype, buffer=nl.sbuf)",
         "for k in nl.affine_range(4):",
         "    v = nl.ndarray((64, 32), dtype=t.dtype, buffer=nl.sbuf)",
         "    v[:, :] = nisa.nc_transpose(t[:, nl.ds(64 * k, 64)])",
         "    u[:, nl.ds(64 * k, 64)] = nisa.nc_transpose(v)",
         "s = nl.zeros((128, 128), dtype=nl.float32, buffer=nl.psum)",
         "s[...] += nisa.nc_matmul(u[p, 128 * i + j], t[p, 128 * i + j], perf_mode='double_row_gen3')",
         "nl.store(out, nl.load(a))", "nl.store(out[:, 0:128], nl.copy(s[32:64, :], dtype=a.dtype))"],
        "perf_mode=nisa.matmul_perf_mode.double_row", (32, 256),
    ),
    "one value for each row": (
        ["t = nl.load(a)", "m = nl.ndarray((24, 2), dtype=nl.float32, buffer=nl.sbuf)",
         "m[:, 1] = nisa.tensor_reduce(op=nl.max, data=t, axis=1)",
         "m[:, 0] = nisa.tensor_reduce(op=np.add, data=t[:, 3:9], axis=1)",
         "n = nisa.tensor_reduce(op=nl.max, data=m, axis=1, negate=True)",
         "u = nl.ndarray((24, 20), dtype=nl.bfloat16, buffer=nl.sbuf)",
         "for i in nl.affine_range(2):",
         "    u[:, nl.ds(10 * i, 10)] = nisa.tensor_scalar(t[:, nl.ds(10 * i, 10)], np.add, n, dtype=nl.float32)",
         "nl.store(out, nisa.activation(op=nl.exp, data=u, bias=n, scale=1.0))"],
        "n = nl.ndarray((m.shape[0], 1), dtype=m.dtype, buffer=nl.sbuf)", (24, 20),
    ),
    "a sum that is read before": (
        ["t = nl.load(a)", "s = nl.zeros((20, 20), dtype=nl.float32, buffer=nl.psum)",
         "for i in nl.sequential_range(2):",
         "    nl.store(out[0:20, :], nl.copy(s, dtype=a.dtype))", "    s += nl.matmul(t, t, transpose_x=True)",
         "nl.store(out[20:24, :], t[20:24, :])"],
        "s = nl.zeros((20, 20), dtype=nl.float32, buffer=nl.psum)", (24, 20),
    ),
    "sums in psum": (
        ["t = nl.load(a)", "s = nl.zeros((20, 20), dtype=nl.float32, buffer=nl.psum)",
         "for i in nl.affine_range(2):", "    x = nl.matmul(t, t, transpose_x=True)", "    s += x",
         "nl.store(out, t)", "nl.store(out[0:20, :], nl.copy(s, dtype=a.dtype))"],
        "data1=s, data2=nl.copy(x), op=nl.add)", (24, 20),
    ),
    "either": (
        ["ip, jf = nl.mgrid[0:32, 0:20]", "m = (ip < a.shape[0]) | (jf < 0)",
         "t = nl.load(a[ip, jf], mask=m)", "nl.store(out[ip, jf], t, mask=m)",
         "nl.store(out[0:32, 4:20], value=t[0:32, 4:20], mask=ip < a.shape[0])"],
        "nl.store(out[0:min(32, a.shape[0]), 4:20], t[0:32, 4:20][0:min(32, a.shape[0]), :])", (24, 20),
    ),
    "products of two dtypes": (
        ["t = nl.load(a)", "u = nl.copy(t, dtype=nl.float32)", "nl.store(out, t)",
         "nl.store(out[0:20, :], nl.matmul(t, u, transpose_x=True))"],
        "nisa.nc_matmul(dst=tile_1, stationary=nl.copy(t, dtype=nl.float32), moving=u)", (24, 20),
    ),
    "several axes": (
        ["t = nl.load(a)", "ip, jb, kb = nl.mgrid[0:24, 0:6, 0:4]",
         "u = nl.ndarray((24, 24), dtype=a.dtype, buffer=nl.sbuf)",
         "u[ip, 6 * kb + jb] = nl.copy(t[ip, 4 * jb + kb])", "nl.store(out, u)"],
        "src=t.ap(pattern=[[t.shape[1], 24], [4, 6], [1, 4]])", (24, 24),
    ),
    "windows": (
        ["t = nl.load(a)", "ip, i, j, k = nl.mgrid[0:a.shape[0], 0:3, 0:4, 0:2]",
         "s = nl.sum(t[ip, 1 + 8 * i + j + 2 * k], axis=[2])", "nl.store(out, nl.copy(t))",
         "x = nl.arange(3)[None, :, None]", "ip, y = nl.arange(a.shape[0])[:, None, None], nl.arange(2)[None, None, :]",
         "nl.store(out[ip, 1 + 2 * x + 6 * y], s)"],
        ".permute((0, 1, 3, 2)), axis=[3])", (24, 24),
    ),
    "scale": (
        ["t = nl.load(a)", "s = nl.copy(t[:, 3:4], dtype=np.float32)",
         "nl.store(out, nisa.activation(np.exp, t, scale=s))"],
        "op=nl.exp, data=t, scale=s)", (24, 20),
    ),
    "bounds": (
        ["ip, jf = nl.arange(16)[:, None], nl.arange(24)[None, :]", "kf = nl.arange(12)[None, :]",
         "nl.store(out, nl.load(a))",
         "for i in nl.affine_range(2):", "    m = (i * 16 + ip < a.shape[0]) & (jf >= 3) & (20 > jf)",
         "    u = nl.load(a[i * 16 + ip, jf], mask=m)", "    v = nl.exp(u[ip, 23 - jf], mask=(jf > 3) & (jf <= 17))",
         "    nl.store(out[i * 16 + ip, jf], u, mask=m)",
         "    m = (i * 16 + ip < a.shape[0]) & (2 * kf < 17) & (2 * kf > 3)",
         "    nl.store(out[i * 16 + ip, 2 * kf], v[ip, 2 * kf], mask=m)"],
        "out[i * 16:min(i * 16 + 16, a.shape[0]), 4:17:2]", (27, 24),
    ),
    "masked product": (
        ["t = nl.load(a)", "ip, jf = nl.mgrid[0:20, 0:20]", "p = nl.zeros((20, 20), dtype=nl.float32, buffer=nl.psum)",
         "for i in nl.affine_range(2):",
         "    p[ip, jf] += nisa.nc_matmul(t, t, mask=(ip < 19) & (jf >= 2))",
         "nl.store(out[0:20, :], nl.copy(p, dtype=a.dtype))", "nl.store(out[20:24, :], t[20:24, :])"],
        "nisa.nc_matmul(dst=p[0:19, 2:20], stationary=t[:, 0:min(t.shape[1], 19)],", (24, 20),
    ),
    "carried": (
        ["n = 1", "s = nl.ndarray((16, 24), dtype=nl.float32, buffer=nl.sbuf)", "for i in nl.affine_range(1, 3):",
         "    n += i", "    t = nl.load(a[(i - 1) * 16:i * 16, :])",
         "    s[...] = nl.loop_reduce(t, op=np.subtract, loop_indices=[i])",
         "    u = nl.multiply(t, n * 1.5)", "    u[...] = nl.add(u, t, mask=i > 1)",
         "    nl.store(out[(i - 1) * 16:i * 16, :], u)",
         "nl.store(out[3:19, :], nl.multiply(s, n * 1.0))"],
        "n = n_before_1", (32, 24),
    ),
    "shapes": (
        ["t = nl.load(a)", "ip, j, k = nl.mgrid[0:24, 0:4, 0:6]", "u = nl.static_cast(t[ip, 6 * j + k], nl.bfloat16)",
         "p, x, y = nl.arange(24)[:, None, None], nl.arange(4)[None, None, :], nl.arange(6)[None, :, None]",
         "v = nl.where(u > 0.25, u, 0.5)", "w = nl.add(t.expand_dims(1), nl.expand_dims(t, 1))",
         "nl.store(out[p, 4 * y + x], v[p, x, y])", "nl.store(out[:, 0:12], w[:, 0, 12:24])"],
        "v[0:24, 0:4, 0:6].permute((0, 2, 1))", (24, 24),
    ),
    "positions": (
        ["ip = nl.arange(24)[:, None]", "jf = nl.arange(20)[None, :]",
         "k = nisa.iota(2 * ip + 3 * jf + 1, dtype=nl.float32)", "nl.store(out, k)"],
        "pattern=[[3, 20]], offset=1, channel_multiplier=2", (24, 20),
    ),
    "select": (
        ["t = nl.load(a)", "ip = nl.arange(a.shape[0])[:, None]", "jf = nl.arange(a.shape[1])[None, :]",
         "nl.store(out, nisa.affine_select(jf <= ip, t, -7.0))"],
        "pattern=[[1, a.shape[1]]], offset=0, channel_multiplier=-1, cmp_op=nl.less_equal", (24, 20),
    ),
    "select in psum": (
        ["t = nl.load(a)", "ip, jf = nl.mgrid[0:40, 0:40]",
         "u = nl.ndarray((40, 40), dtype=nl.float32, buffer=nl.sbuf)", "u[ip, jf] = nisa.nc_transpose(t)",
         "p = nisa.nc_transpose(u)",
         "nl.store(out, nisa.affine_select(2 * ip - 3 > jf, p[ip, jf], 0.25))"],
        "on_true_tile=nl.copy(p[0:40, 0:40])", (40, 40),
    ),
    "transfers": (
        ["ip, jf = nl.mgrid[0:16, 0:20]", "for i in nl.affine_range(2):",
         "    t = nl.ndarray((16, 20), dtype=a.dtype, buffer=nl.sbuf)",
         "    nisa.dma_copy(src=a[16 * i:16 * i + 16, :], dst=t)",
         "    nisa.dma_copy(dst=out[16 * i + ip, jf], src=t[ip, jf])"],
        "nisa.dma_copy(dst=out[16 * i:16 * i + 16, 0:20], src=t[0:16, 0:20])", (32, 20),
    ),
    "inverse": (
        ["t = nl.load(a)", "nl.store(out, 1.0 / nl.exp(t))"],
        "nl.reciprocal(nl.exp(t), dtype=nl.float32)", (24, 20),
    ),
    "named grids": (
        ["import neuronxcc.nki.typing as nt", "t: nt.tensor[24, 20] = nl.load(a[nl.mgrid[0:24, 0:20]])",
         "ip: nt.tensor[24, 1] = nl.arange(24)[:, None]", "line = nl.ndarray((24,), dtype=a.dtype, buffer=nl.hbm)",
         "nl.store(line[ip], t[:, 7:8])", "noise = nl.rand((24, 20))",
         "t = nl.maximum(nl.multiply(t, nl.load(line[ip])), nl.fp32.min)", "grid = nl.mgrid[0:24, 0:20]",
         "nl.store(out[grid], nl.where(noise >= 0.0, t, -1.0))"],
        "nl.store(line[0:24].expand_dim(1), t[:, 7:8])", (24, 20),
    ),
    "vectors": (
        ["t = nl.load(a)", "line = nl.ndarray((24,), dtype=a.dtype, buffer=nl.hbm)",
         "nl.store(line, nl.copy(t[:, 3:4]))", "nl.store(out, nl.multiply(t, nl.load(line)))"],
        "nl.load(line.expand_dim(1))", (24, 20),
    ),
    "columns of instructions": (
        ["t = nl.load(a)", "u = nisa.tensor_tensor(t, t[:, 3:4], op=np.subtract)",
         "t = nisa.tensor_tensor(t[:, 5], u, op=nl.subtract)", "nl.store(out, t)"],
        "dst=t_1, data=u, op0=nl.subtract, operand0=nl.copy(t[:, 5:6], dtype=nl.float32), reverse0=True)", (24, 20),
    ),
    "whole numbers": (
        ["t = nl.load(a, dtype=nl.float32)", "i = nl.copy(nl.multiply(t, 9.0), dtype=nl.int32)",
         "j = nl.broadcast_to(i[0:1, 0:20], shape=(24, 20))",
         "p = nl.copy(t > 0.5, dtype=nl.float32)", "u = nisa.max8(src=t[:, 2:20])", "v = nisa.max8(src=t[:, :])",
         "nisa.tensor_copy_predicated(src=nl.copy(j, dtype=nl.float32), dst=t, predicate=p)",
         "nl.store(out, t)", "nl.store(out[:, 0:8], nl.subtract(u, v))"],
        "predicate=nl.not_equal(p, 0, dtype=nl.uint8)", (24, 20),
    ),
    "constants": (
        ["t = nl.load(a)", "ones = nl.load(nl.shared_constant(np.tri(24, 20, 3, dtype=np.int8), dtype=a.dtype))",
         "nl.store(out, nl.multiply(t, ones))"],
        "nl.shared_constant(np.tri(24, 20, 3, dtype=np.int8).astype(a.dtype))", (24, 20),
    ),
    "statistics": (
        ["t = nl.load(a)", "ip, jf = nl.mgrid[0:24, 0:16]", "nl.store(out, t)",
         "for i in nl.affine_range((a.shape[1] + 15) // 16):",
         "    s = nisa.bn_stats(t[ip, 16 * i + jf], mask=16 * i + jf < a.shape[1])",
         "    nl.store(out[:, 6 * i:6 * i + 6], s)"],
        "nisa.bn_stats(dst=s, data=t[0:24, 16 * i:min(16 * i + 16, a.shape[1])])", (24, 20),
    ),
    "promotion": (
        ["t = nl.load(a)", "u = nl.copy(t, dtype=nl.bfloat16)", "nl.store(out, nl.multiply(u, 1.7))"],
        "dtype=nl.float32", (24, 20),
    ),
}  # fmt: skip


def _joined(text):
    """Return a text without the breaks of long lines within brackets."""
    return re.sub(r"(?<=,)\n *", " ", re.sub(r",?\n *(?=[)\]])|(?<=[(\[])\n *", "", text))


@pytest.mark.parametrize("name", RULES)
def test_rule(name, module, rng):
    body, written, shape = RULES[name]
    lines = "".join(f"    {line}\n" for line in [OUT, *body, "return out"])
    file = module(f"@nki.jit\ndef kernel(a):\n    # what comes out\n{lines}", HEAD)
    moved = nki_lab.migrate(f"{file}::kernel", rng.standard_normal(shape).astype(np.float32))
    assert moved.undecided == []
    assert written in _joined(moved.text)
    assert max(len(line) for line in moved.text.splitlines()) <= 100
    assert "    # what comes out\n    out = nl.ndarray" in moved.text
    assert "neuronxcc" not in moved.text
    assert moved.is_equal and len(moved.proof) >= 2, moved.report()
    assert moved.before == "NKI Beta 1"


def test_grid_becomes_loops(module, rng):
    file = module(
        "@nki.jit\ndef add(a, b):\n"
        "    assert nl.program_ndim() == 2\n"
        f"    {OUT}\n"
        "    ix = nl.program_id(0) * 16 + nl.arange(16)[:, None]\n"
        "    iy = nl.program_id(1) * 8 + nl.arange(8)[None, :]\n"
        "    nl.store(out[ix, iy], nl.load(a[ix, iy]) + nl.load(b[ix, iy]))\n"
        "    return out\n\n\n"
        'if __name__ == "__main__":\n'
        "    a = np.arange(32 * 24, dtype=np.float32).reshape(32, 24)\n"
        "    print(add[2, 3](a, -0.5 * a)[0, 1])\n",
        HEAD,
    )
    done = CliRunner().invoke(app, ["migrate", str(file), "--write"])
    assert done.exit_code == 0, done.output
    assert "kernels.py: NKI Beta 1 -> NKI 0.7" in done.output and "to decide" not in done.output
    assert "every bit of every result is equal" in done.output
    text = file.read_text()
    assert "def add(a, b, grid=(2, 3)):" in text
    assert "    assert len(grid) == 2\n    out = nl.ndarray(" in text
    assert "for program_1 in range(grid[1]):" in text
    assert "add(a, -0.5 * a, grid=(2, 3))[0, 1]" in text


def test_runners_and_decorators(module, rng):
    body = "\n    nl.store(out, nl.add(nl.load(a), 1.0))\n\n\n"
    file = module(
        f"place = nki.compiler.sbuf.mod_alloc\n\n\ndef plain(a, out):{body}"
        f'@nki.compiler.skip_middle_end_transformations\n@nki.jit(mode="simulation")\n'
        f"def add(a, out: nt.mutable_tensor):{body}"
        f"@nki.baremetal(save_neff_name='add.neff')\ndef first(a, grid=1):\n    {OUT}{body[:-3]}\n    return out\n\n\n"
        f"@nki.compiler.enable_stack_allocator\n@nki.benchmark(warmup=1)\ndef other(a: nt.tensor):\n    {OUT}\n"
        "    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=place(base_addr=0))\n    nl.store(out, t)\n\n\n"
        "traced = nki.trace\nsimulate = nki.simulate_kernel\n\n\n"
        "def host(a, b):\n    return simulate(add[1], a, b)\n\n\n"
        "a = np.arange(48, dtype=np.float32).reshape(8, 6)\nb, c = np.zeros_like(a), np.zeros_like(a)\n"
        "nki.simulate_kernel(add[nl.spmd_dim(nl.nc(1), 1)], a, b)\nnki.jit(plain)(a, c)\n"
        "assert (b == a + 1).all() and (c == a + 1).all()\n",
        HEAD + "import neuronxcc.nki.typing as nt\n\n",
    )
    moved = nki_lab.migrate(str(file))
    assert moved.is_equal, moved.report()
    assert [note.text.partition(",")[0] for note in moved.undecided] == [
        f"no run reached `{name}`" for name in ("first", "other")
    ]
    assert "neuronxcc" not in moved.text and "mod_alloc" not in moved.text
    assert moved.text.count("@") == moved.text.count("@nki.jit\ndef") == 3
    assert "@nki.jit\ndef add(a, out, grid=(1,)):" in moved.text
    assert "add(a, b, grid=(1,))\nnki.jit(plain)(a, c)" in moved.text
    assert "traced = nki.jit\n\n\ndef host(a, b):\n    return add(a, b, grid=(1,))" in moved.text


def test_profiled_and_benchmarked_kernels_are_moved_and_no_file_is_written(
    module, tmp_path, capsys
):
    (tmp_path / "file.neff").write_text("of an earlier call")
    body = f"(a):\n    {OUT}\n    nl.store(out, nl.load(a) * 2.0)\n    return out\n\n\n"
    file = module(
        f"@nki.profile(working_directory={str(tmp_path)!r})\ndef first{body}"
        f"@nki.benchmark(warmup=2, save_neff_name='second.neff')\ndef second{body}"
        "a = np.arange(48, dtype=np.float32).reshape(8, 6)\nfirst(a)\nsecond(a)\n"
        "if __name__ == '__main__':\n"
        "    time = second.benchmark_result.nc_latency.get_latency_percentile(50)\n",
        HEAD,
    )
    files = sorted(tmp_path.iterdir())
    moved = nki_lab.migrate(str(file))
    assert moved.is_equal, moved.report()
    assert {row.kernel for row in moved.proof} == {"first", "second"}
    assert sorted(tmp_path.iterdir()) == files and capsys.readouterr().out == ""
    assert moved.text.count("@nki.jit\ndef") == 2
    assert [note.line for note in moved.undecided] == [25]
    assert "no benchmark_result: take" in moved.text


def test_a_kernel_that_a_function_makes_is_moved_where_it_is_made(module, rng):
    file = module(
        "def scaled_by(factor):\n"
        "    columns = nl.arange(6)[None, :]\n\n"
        "    @nki.jit\n    def kernel(a):\n"
        f"        {OUT}\n"
        "        t = nl.load(a[nl.arange(8)[:, None], columns])\n"
        "        u = nl.ndarray((8, 6), dtype=nl.float32, buffer=nl.sbuf)\n"
        "        u[...] = t\n"
        "        p = nl.matmul(t, u, transpose_x=True)\n"
        "        nl.store(out, t * factor)\n"
        "        nl.store(out[0:6, :], p)\n"
        "        return out\n\n"
        "    return kernel\n\n\n"
        "def called(*args):\n    return nki.simulate_kernel(scaled_by(3.0), *args)\n",
        HEAD,
    )
    simulated = "nki.simulate_kernel(scaled_by(2.0), np.ones((8, 6), np.float32))"
    failed = CliRunner().invoke(app, ["migrate", str(file), "--call", simulated])
    assert failed.exit_code == 1
    assert "`scaled_by.kernel` is made by a function that the call does not reach" in failed.output
    given = (
        "migrate",
        str(file),
        "--call",
        "called(np.arange(48, dtype=np.float32).reshape(8, 6))",
    )
    done = CliRunner().invoke(app, [*given, "--write"])
    assert done.exit_code == 0, done.output
    assert "every bit of every result is equal" in done.output
    assert "another dtype" in done.output
    assert "scaled_by.kernel" in done.output and "to decide" not in done.output
    text = file.read_text()
    assert "return scaled_by(3.0)(*args)" in text and "nl.multiply(t, factor" in text


def test_kernel_of_another_file_is_left_with_what_to_decide(module):
    body = f"    {OUT}\n    nl.store(out, nl.load(a))\n    return out\n"
    module(f"@nki.jit\ndef imported(a):\n{body}", HEAD, "imported_kernels.py")
    text = "from imported_kernels import imported\n\nimported[1](np.ones((4, 3), np.float32))\n"
    moved = nki_lab.migrate(str(module(text, HEAD)))
    assert "# migrate: `imported` is a kernel of another file: move that one" in moved.text


def test_quotient_is_left_with_what_to_decide(module, rng):
    file = module(
        f"@nki.jit\ndef kernel(a):\n    {OUT}\n    t = nl.load(a)\n    nl.store(out, t / 3.0)\n    return out\n",
        HEAD,
    )
    moved = nki_lab.migrate(f"{file}::kernel", rng.standard_normal((64, 48)).astype(np.float32))
    assert "    # migrate: the division by 3.0 was rounded once" in moved.text
    assert not moved.is_equal
    differing = [row for row in moved.proof if row.difference]
    for (
        row
    ) in differing:  # of three numbers that a product with 1 / 3 gives, one is another float32
        a, b = row.before.outputs[0], row.after.outputs[0]
        np.testing.assert_array_max_ulp(a, b, row.ulps)
        assert row.ulps == 1 and row.said == "differ by 1 ulp (division)"
    assert "--accept division takes the new text" in moved.report()
    with pytest.raises(CheckFailed, match="computes other values") as caught:
        moved.write()
    assert caught.value.help.endswith("decide what its comments say")
    assert file.read_text().startswith(HEAD)
    given = ("migrate", f"{file}::kernel", "--input", "a=randn:64x48", "--accept", "division")
    done = CliRunner().invoke(app, [*given, "--write"])
    assert done.exit_code == 0, done.output
    assert "line 11: the division by 3.0 was rounded once" in done.output
    assert "every bit is equal; it is accepted" in done.output
    assert "# migrate" not in file.read_text() and "1.0 / 3.0" in file.read_text()


def test_the_division_in_a_mean_is_told_but_for_powers_of_two(module, rng):
    file = module(
        f"@nki.jit\ndef kernel(a, b):\n    {OUT}\n    t = nl.load(a)\n    m = nl.mean(nl.load(b), axis=1)\n"
        "    nl.store(out, nl.multiply(t, nl.multiply(nl.mean(t, axis=1), m)))\n    return out\n",
        HEAD,
    )
    a, b = (rng.standard_normal((16, n)).astype(np.float32) for n in (20, 2))
    moved = nki_lab.migrate(f"{file}::kernel", a, b)
    assert [str(note) for note in moved.undecided] == [
        "line 12: the division in nl.mean was rounded once; a product is rounded twice, so the last bits differ"
    ]
    assert {row.cause for row in moved.proof if row.difference} == {"division"}


def test_a_division_that_is_not_the_only_cause_is_not_accepted(module, rng, monkeypatch):
    file = module(
        f"@nki.jit\ndef kernel(a):\n    {OUT}\n    t = nl.load(a)\n    nl.store(out, t / 3.0)\n    return out\n",
        HEAD,
    )

    def wrong(*given):
        moved = moved_from_older(*given)
        return Moved(moved.text.replace("1.0 / 3.0", "1.0 / 3.5"), moved.changes)

    monkeypatch.setattr(moving, "moved_from_older", wrong)
    a = rng.standard_normal((8, 6)).astype(np.float32)
    moved = nki_lab.migrate(f"{file}::kernel", a, accept="division")
    assert not moved.undecided and moved.refused
    with pytest.raises(CheckFailed):
        moved.write()


def test_sets_that_leave_instructions_out_prove_nothing(module, rng):
    file = module(
        "@nki.jit\ndef kernel(a, b):\n"
        "    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    p = nl.zeros((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)\n"
        "    for k in nl.affine_range(a.shape[0] // 32):\n"
        "        p += nl.matmul(nl.load(a[nl.ds(k * 32, 32), :]), nl.load(b[nl.ds(k * 32, 32), :]), transpose_x=True)\n"
        "    nl.store(out, nl.copy(p, dtype=a.dtype))\n"
        "    return out\n",
        HEAD,
    )
    a, b = (rng.standard_normal((32, n)).astype(np.float32) for n in (20, 24))
    moved = nki_lab.migrate(f"{file}::kernel", a, b)
    sets = [row.inputs for row in moved.proof]
    assert "26 in place of 32 elements" not in sets, "no product is added there"
    assert "18 in place of 24 elements" in sets or "19 in place of 24 elements" in sets
    assert moved.is_equal and not moved.undecided


def test_rows_and_places_that_a_tile_names_are_indirect_accesses(module, rng):
    file = module(
        "@nki.jit\ndef kernel(a, rows):\n"
        f"    {OUT}\n"
        "    index = nl.load(rows)\n"
        "    ip = nl.arange(24)[:, None]\n"
        "    jf = nl.arange(20)[None, :]\n"
        "    kf = nl.arange(8)[None, :]\n"
        "    t = nl.load(a[index[ip, 0], jf])\n"
        "    t[ip, jf] = nl.load(a[index[ip, 0], jf], mask=ip < 19)\n"
        "    u = nisa.tensor_copy_dynamic_src(t[ip, index[0, 1] + kf])\n"
        "    nl.store(out[index[ip, 0], jf], t)\n"
        "    nl.store(out[ip, kf], u)\n"
        "    nisa.dma_copy(dst=out[index[ip, 0], jf], src=t, dst_rmw_op=np.add)\n"
        "    nl.atomic_rmw(out[index[ip, 0], jf], value=t, op=np.add)\n"
        "    return out\n",
        HEAD,
    )
    a = rng.standard_normal((24, 20)).astype(np.float32)
    rows = np.stack([rng.permutation(24), np.full(24, 11)], axis=1).astype(np.int32)
    moved = nki_lab.migrate(f"{file}::kernel", a, rows)
    assert not moved.undecided and moved.is_equal, moved.report()
    whole = "pattern=[[a.shape[1], 24], [1, 20]], vector_offset=index[0:24, 0:1], indirect_dim=0"
    text = _joined(moved.text)
    assert f"a.ap({whole})" in text
    assert "scalar_offset=index[0:1, 1:2], indirect_dim=1" in text
    assert text.count("nisa.dma_compute(dst=out.ap(") == 2


def test_a_branch_that_no_run_reached_is_moved_by_a_trace_that_takes_it(module, rng):
    file = module(
        "def tripled(t):\n    return t * 3.0\n\n\n"
        "@nki.jit\ndef kernel(a, wide=False, b=None):\n"
        f"    {OUT}\n"
        "    t = nl.load(a)\n"
        "    kp, kf = nl.mgrid[0:8, 0:3]\n"
        "    kf = kf + 3\n"
        "    t[kp, kf] = t[kp, kf] * 2.0\n"
        "    if wide:\n"
        "        ip, jf = nl.mgrid[0:8, 0:6]\n"
        "        t[ip, jf] = tripled(t)\n"
        "    else:\n"
        "        t = -t\n"
        "    if b is not None:\n"
        "        t[kp, kf] = t[kp, kf] + nl.load(b)  # of nothing\n"
        "    nl.store(out, t)\n"
        "    return out\n",
        HEAD,
    )
    a = rng.standard_normal((8, 6)).astype(np.float32)
    given = a.copy()
    moved = nki_lab.migrate(f"{file}::kernel", a)
    assert [str(note) for note in moved.undecided] == [
        "line 24: no run reached a branch, so it stays as it was: make a call that does"
    ]
    as_it_was = "kf = kf + 3\n        t[kp, kf] = t[kp, kf] + nl.load(b)  # of nothing\n"
    assert f"        kp, kf = nl.mgrid[0:8, 0:3]\n        {as_it_was}" in moved.text
    assert moved.text.count("nl.mgrid") == 1
    assert "line 19: no run reached this branch, so its values are not compared" in moved.report()
    assert moved.is_equal, moved.report()
    with aliases():
        kernel = runpy.run_path(str(moved.write()))["kernel"]
    a[:, 3:] *= 2
    np.testing.assert_array_equal(kernel(given, wide=True), a * np.float32(3))
    np.testing.assert_array_equal(kernel(given), -a)


def test_what_no_run_reached_stays_as_it_was(module, rng):
    body = f"(a):\n    {OUT}\n    nl.store(out, nl.load(a) + 1.0)\n    return out\n"
    asking = body.replace("nl.load(a)", "nl.load(a[nl.program_id(0)])")
    file = module(f"@nki.jit\ndef first{body}\n\n@nki.jit\ndef other{asking}", HEAD)
    moved = nki_lab.migrate(f"{file}::first", rng.standard_normal((24, 20)).astype(np.float32))
    assert [note.text for note in moved.undecided] == [
        "no run reached `other`, so it stays as it was: call it, too"
    ]
    first, other = moved.text.split("def other")
    assert "nl.add(nl.load(a), 1.0" in first and "nl.load(a[nl.program_id(0)]) + 1.0" in other
    assert moved.is_equal


def test_long_lines_are_broken_within_brackets():
    long = "f(dst=a[0:128, 4 * i + 3:min(4 * i + 128, a.shape[1])], text='(,', data=b[0:128, 2:16], op=nl.add)"
    kept = f"    kept = f('{'x' * 100}', 1)\n"
    name = "the_name_of_a_tile"
    text = (
        f"for i in range(2):\n{kept}    x = '{'y' * 100}'\n    {long}  # why\n"
        f"    g(h({name}, {name}, {name}, dtype=nl.float32), lambda a, b: {name}, {name}[a.b, :])\n"
        f"    short(1, 2)  # {'z' * 100}\n"
        f"    tiles = [nl.ndarray(({name}, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2 * {name})]\n"
    )
    assert with_short_lines(text, kept) == (
        f"for i in range(2):\n{kept}    x = '{'y' * 100}'\n"
        "    f(\n"
        "        dst=a[0:128, 4 * i + 3:min(4 * i + 128, a.shape[1])],\n"
        "        text='(,',\n"
        "        data=b[0:128, 2:16],\n"
        "        op=nl.add,\n"
        "    )  # why\n"
        "    g(\n"
        f"        h({name}, {name}, {name}, dtype=nl.float32),\n"
        f"        lambda a,\n        b: {name},\n"
        f"        {name}[a.b, :],\n"
        "    )\n"
        f"    short(1, 2)  # {'z' * 100}\n"
        "    tiles = [\n"
        "        nl.ndarray(\n"
        f"            ({name}, 1), dtype=nl.float32, buffer=nl.sbuf\n"
        f"        ) for _ in range(2 * {name})\n"
        "    ]\n"
    )
