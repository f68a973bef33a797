"""Programs for single instructions and short windows that published profiles show.

Operands are made on chip by another engine, so that the instruction in question is seen alone.
"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.readings import (
    Reading,
    duration,
    latency,
    load_of_weights,
    pace,
    product,
    start_of_transfer,
    table_load,
    transfer,
    unknown,
)
from benchmarks.replay import Program, Replay
from benchmarks.replays.tiles import load, output, store, sums, tile
from nki_lab.api import isa as nisa

_NOTHING = (((1, 1), "float32"),)
_STATIC = {"dge_mode": nisa.dge_mode.none}
_SOFTWARE = {"dge_mode": nisa.dge_mode.swdge}


def _filled(rows, columns, dtype=nl.float32, buffer=nl.sbuf):
    made = nl.ndarray((rows, columns), dtype=dtype, buffer=buffer)
    engine = nisa.engine.vector if buffer is nl.psum else nisa.engine.gpsimd
    nisa.memset(dst=made, value=1.0, engine=engine)
    return made


def _kept(held):
    out = output(held.shape, held.dtype)
    store(out, held)
    return out


def _alone(make):
    """Return the maker of a program whose kernel is `make(...)`, a function of sizes that returns a tile."""

    def program(**sizes):
        def kernel(x):
            return _kept(make(**sizes))

        return Program(kernel, _NOTHING, reorder=False, whole=False)

    return program


# -- Scalar ----------------------------------------------------------------------------------------------------------


def _activations(rows=128, columns=1, dtype=nl.float32, count=1):
    held = _filled(rows, columns, dtype)
    for _ in range(count):
        made = tile(rows, columns, dtype)
        nisa.activation(dst=made, op=nl.exp, data=held)
        held = made
    return held


def _chain(**sizes):
    return _activations(count=8)


# -- Vector ----------------------------------------------------------------------------------------------------------


def _addition(rows, columns):
    a, b, result = _filled(rows, columns), _filled(rows, columns), tile(rows, columns)
    nisa.tensor_tensor(dst=result, data1=a, data2=b, op=nl.add)
    return result


def _norm(x):
    """Run the kinds of instructions of a normalisation with quantisation, one after the other."""
    wide, squares, total = (
        _filled(128, 16384, nl.bfloat16),
        tile(128, 16384, nl.bfloat16),
        tile(128, 1),
    )
    nisa.activation_reduce(dst=squares, op=nl.square, data=wide, reduce_op=nl.add, reduce_res=total)
    inverse, largest = tile(128, 1), tile(128, 1)
    nisa.activation(dst=inverse, op=nl.rsqrt, data=total)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=squares, axis=1)
    quantized = tile(128, 16384, nl.float8_e4m3)
    nisa.tensor_scalar(dst=quantized, data=squares, op0=nl.multiply, operand0=2.0)
    left, right = _filled(128, 512, buffer=nl.psum), _filled(128, 512)
    results = [tile(128, 512) for _ in range(3)]
    for result in results:
        nisa.scalar_tensor_tensor(
            dst=result, data=left, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=right
        )
    return tuple(_kept(t) for t in (inverse, largest, quantized, *results))


# -- Tensor ----------------------------------------------------------------------------------------------------------


def _products(dtype, columns, stationary=128, count=64):
    weights, moving = _filled(128, stationary, dtype), _filled(128, columns, dtype)
    acc = sums(stationary, columns)
    for _ in range(count):
        nisa.nc_matmul(dst=acc, stationary=weights, moving=moving)
    result = tile(stationary, columns)
    nisa.tensor_copy(dst=result, src=acc)
    return result


# -- transfers -------------------------------------------------------------------------------------------------------


def _through(rows, columns, dtype, **how):
    def kernel(x):
        held, result = load(x, **how), tile(rows, columns, getattr(nl, dtype))
        nisa.activation(dst=result, op=nl.exp, data=held)
        out = output(x.shape, x.dtype)
        store(out, result, **how)
        return out

    return lambda: Program(kernel, (((rows, columns), dtype),), reorder=False, whole=False)


def _vector_add(a, b):
    left, right = load(a, **_STATIC), load(b, **_STATIC)
    result = tile(128, 2000)
    nisa.tensor_tensor(dst=result, data1=left, data2=right, op=nl.add)
    out = output(a.shape)
    store(out, result, **_STATIC)
    return out


_VECTOR_ADD = Program(_vector_add, (((128, 2000), "float32"),) * 2, reorder=False)


def _after_load(name):
    def read(run):
        ran = run.instructions(name)[0]
        return Reading(ran.start - max(t.end for t in run.transfers[:-1]))

    return read


def _before_store(name):
    def read(run):
        return Reading(run.transfers[-1].trigger - run.instructions(name)[-1].end)

    return read


def _before_store_moves(run):
    """Read the time until GpSimd has written the descriptors of the store and triggers it."""
    return Reading(run.transfers[-1].issued - run.instructions("activation")[-1].end)


def _store_end(run):
    return Reading(run.transfers[-1].end - run.transfers[0].issued, run.bytes_ns)


_EXP1 = {
    "dma_load_32KiB": transfer(0),
    "trigger_to_first_byte": start_of_transfer(0),
    "dma_end_to_act_start": _after_load("activation"),
    "act_table_load": table_load,
    "act_exp_N4096": duration("activation"),
    "act_end_to_pool_trigger": _before_store("activation"),
    "dma_store_32KiB": transfer(-1),
    "window_sp_trigger_to_store_end": _store_end,
}
# In this picture GpSimd triggers both transfers, the second one 880 ns after the exponential: it writes descriptors.
_EXP2 = {
    "dma_window_16_engines": transfer(0),
    "dma_per_engine_2KiB": transfer(0),
    "trigger_to_first_byte": start_of_transfer(0),
    "dma_end_to_act_start": _after_load("activation"),
    "act_exp_N128": duration("activation"),
    "act_end_to_store_trigger": _before_store_moves,
    "window_trigger_to_store_end": _store_end,
}
_ADD = {
    "total": latency,
    "dma_store_1000KiB": transfer(-1),
    "dma_load_a": transfer(0),
    "dma_load_b": transfer(1),
    "dve_add_N2000": duration("tensor_tensor"),
    "trigger_to_first_byte": start_of_transfer(0),
    "dma_end_to_dve_start": _after_load("tensor_tensor"),
}
_NORM = {
    "activation_reduce_N16384": duration("activation_reduce"),
    "act_table_load": table_load,
    "scalar_tensor_tensor_N512_ii": pace("scalar_tensor_tensor"),
    "tensor_reduce_absmax_N16384": duration("tensor_reduce"),
    "tensor_scalar_bf16_to_fp8_N16384": duration("tensor_scalar"),
    "window": unknown,
    "matmul_N512_ii": unknown,
}

REPLAYS = (
    Replay("activation chain", r".*", _alone(_chain), reads={"ii": pace("activation")}),
    Replay(
        "activation",
        r"\[(?P<rows>\d+),(?P<columns>\d+)\]",
        _alone(_activations),
        reads={"duration": duration("activation")},
    ),
    Replay(
        "tensor_tensor",
        r"\[(?P<rows>\d+),(?P<columns>\d+)\] x2, SBUF",
        _alone(_addition),
        reads={"duration": duration("tensor_tensor")},
    ),
    Replay(
        "LoadStationary",
        "1 column",
        _alone(lambda: _products(nl.bfloat16, 128, stationary=1)),
        reads={"duration": load_of_weights},
    ),
    Replay(
        "MultiplyMoving",
        r"N=(?P<columns>\d+)",
        _alone(lambda columns: _products(nl.bfloat16, columns)),
        reads={"duration": product},
    ),
    Replay(
        "fp32 half matmul",
        r"N=(?P<columns>\d+)",
        _alone(lambda columns: _products(nl.float32, columns)),
        arch="v3",
        reads={"duration": product},
    ),
    Replay(
        "dma",
        "32 KiB on one engine",
        _through(1, 8192, "float32", **_STATIC),
        reads={"duration": transfer(0)},
    ),
    Replay(
        "dma",
        "4 B on one engine",
        _through(1, 1, "float32", **_STATIC),
        reads={"duration": transfer(0)},
    ),
    Replay("ACT table load", ".*", _alone(_activations), reads={"duration": table_load}),
    Replay(
        "tensor_exp ex1",
        r"\[4,4096\].*",
        _through(4, 4096, "bfloat16", **_STATIC),
        arch="v3",
        reads=_EXP1,
    ),
    Replay(
        "tensor_exp ex2",
        r"\[128,128\]",
        _through(128, 128, "bfloat16", **_SOFTWARE),
        arch="v3",
        reads=_EXP2,
    ),
    Replay(
        "rmsnorm_quant",
        "S=160, H=16384",
        lambda: Program(_norm, _NOTHING, reorder=False, whole=False),
        arch="v3",
        reads=_NORM,
    ),
    *(
        Replay("vector_add_stream", ".*", lambda: _VECTOR_ADD, arch=arch, reads=_ADD)
        for arch in ("v2", "v3")
    ),
)

NOT_REPLAYED = {
    ("matmul 128x96", ".*", ""): "the picture does not tell the type of the operands",
}
