"""Kernels to calibrate with, and what a device with other constants would have measured of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN2, Target, get_target


@nki.jit
def transfers(x):
    """Move tiles of several sizes, one after another and two at once."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for width in (64, 256, 1024):
        for _ in range(2):
            tile = nl.load(x[:, :width])
            nl.store(out[:, :width], tile)
    for k in range(3):
        tile = nl.load(x[:, 512 * k : 512 * (k + 1)])
        nl.store(out[:, 512 * k : 512 * (k + 1)], tile)
    return out


@nki.jit
def products(x, w, y, v):
    """Multiply tiles of several free sizes, in bfloat16 and float32."""
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for stationary, moving in ((w, x), (v, y)):
        a, b = nl.load(stationary), nl.load(moving)
        for width in (128, 256, 512):
            acc = nl.zeros((128, width), dtype=nl.float32, buffer=nl.psum)
            for _ in range(6):
                nisa.nc_matmul(acc, stationary=a, moving=b[:, :width])
            nl.store(out[:, :width], nl.copy(acc))
    return out


@nki.jit
def elements(x, h):
    """Run instructions of Vector and Scalar at several sizes, alone and one behind another."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(h)
    for width in (64, 512, 2048):
        s = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        t = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
        u = nl.ndarray((128, width), dtype=h.dtype, buffer=nl.sbuf)
        r = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(s, nl.exp, a[:, :width])
        nisa.activation(t, nl.exp, s)
        nisa.tensor_tensor(t, s, a[:, :width], nl.add)
        nisa.tensor_tensor(s, t, a[:, :width], nl.multiply)
        nisa.tensor_scalar(t, s, nl.multiply, 3.0, engine=nisa.engine.vector)
        nisa.tensor_copy(u, b[:, :width], engine=nisa.engine.vector)
        nisa.tensor_reduce(r, nl.add, t, axis=1)
        nisa.tensor_scalar(t, t, nl.add, r)
        nl.store(out[:, :width], t)
    return out


@nki.jit
def independent(x):
    """Run instructions of Vector that wait for nothing, so that each begins an interval after the one before."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for width in (64, 128, 256):
        for k in range(4):
            copy = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(copy, tile[:, k : k + width], engine=nisa.engine.vector)
            nl.store(out[:, :width], copy)
    return out


def runs(target: Target) -> list[nki_lab.Result]:
    """Run every kernel on a chip; `independent` is the last."""
    rng = np.random.default_rng(3)

    def tile(width: int, dtype: Any = np.float32) -> np.ndarray:
        return rng.standard_normal((128, width)).astype(dtype)

    bf16 = nl.bfloat16
    return [
        nki_lab.run(transfers, tile(2048), target=target),
        nki_lab.run(
            products, tile(512, bf16), tile(128, bf16), tile(512), tile(128), target=target
        ),
        nki_lab.run(elements, tile(2048), tile(2048, bf16), target=target),
        nki_lab.run(independent, tile(512), target=target),
    ]


def measured(profile: Profile, noise: float = 0.0, seed: int = 1) -> Profile:
    """Return a modelled profile as a capture: no program behind it, and every time off by chance."""
    rng = np.random.default_rng(seed)
    tables = {}
    for name in ("Instruction", "DmaPacketAggregated", "Flow"):
        columns = {k: v for k, v in profile.table(name).items() if k != "duration_ns"}
        if noise and "end_ts" in columns:
            length = columns["end_ts"] - columns["start_ts"]
            factor = 1 + noise * rng.standard_normal(len(length))
            columns["end_ts"] = columns["start_ts"] + np.rint(length * factor).astype(np.int64)
        tables[name] = columns
    return Profile.from_tables(TRN2, tables, is_simulation=False, name=profile.name)


def device(folder: Path, **constants: float) -> Target:
    """Return a chip that is not as trn2 is thought to be."""
    file = folder / f"device{len(list(folder.iterdir()))}.toml"
    lines = [f"{name} = {value!r}" for name, value in constants.items()]
    file.write_text("\n".join(("[constants]", *lines)))
    return get_target(f"trn2+{file}")
