"""The random generator of an engine: its bits, and the steps of its state.

A state is six words: five of an xorshift generator and a counter (XORWOW: G. Marsaglia, "Xorshift RNGs", 2003). The
documents name the algorithm for Vector of NeuronCore-v4 and for the states that can be loaded and stored. They publish
neither the bits, nor the older LFSR of Vector, nor how a seed becomes a state; all engines use XORWOW here, and the
order in which a lane's states take turns and the making of states from a seed are ours.
"""

from __future__ import annotations

import numpy as np

from nki_lab.isa.arrays import scratch

WORDS = 6
_SHIFTED = WORDS - 1  # words of the xorshift part
_COUNTER_STEP = 362437
_UINT32 = np.dtype(np.uint32)
_FLOAT32 = np.dtype(np.float32)


def draw(states: np.ndarray, count: int) -> np.ndarray:
    """Return `count` random words per lane and advance the states.

    The states of a lane take turns; all of them advance equally often, so some of the last words may be lost.

    Args:
        states: uint32 [lanes, six words per state], changed in place.
        count: words wanted per lane.

    Returns:
        uint32 [lanes, count], valid until the next call.
    """
    lanes = len(states)
    turns = states.shape[1] // WORDS
    steps = -(-count // turns)
    words = states.reshape(lanes, turns, WORDS)
    # One row per step; a column per state. Row n + 5 follows from rows n and n + 4.
    history = scratch((_SHIFTED + steps, lanes * turns), _UINT32, "xorwow")
    history[:_SHIFTED] = words[..., :_SHIFTED].transpose(2, 0, 1).reshape(_SHIFTED, -1)
    for first in range(0, steps, _SHIFTED):
        count_now = min(_SHIFTED, steps - first)
        old = history[first : first + count_now]
        mixed = scratch(old.shape, _UINT32, "xorwow mixed")
        np.right_shift(old, 2, out=mixed)
        np.bitwise_xor(mixed, old, out=mixed)
        np.bitwise_xor(mixed, mixed << 1, out=mixed)
        newest = first + _SHIFTED
        for row, newer, part in zip(
            history[newest - 1 :], history[newest : newest + count_now], mixed, strict=False
        ):
            np.left_shift(row, 4, out=newer)
            np.bitwise_xor(newer, row, out=newer)
            np.bitwise_xor(newer, part, out=newer)
    words[..., :_SHIFTED] = history[steps:].reshape(_SHIFTED, lanes, turns).transpose(1, 2, 0)
    counters = np.arange(1, steps + 1, dtype=_UINT32)[:, None] * _UINT32.type(_COUNTER_STEP)
    counters = counters + words[..., -1].reshape(-1)
    words[..., -1] = counters[-1].reshape(lanes, turns)
    bits = np.add(history[_SHIFTED:], counters, out=history[_SHIFTED:])
    result = scratch((lanes, steps, turns), _UINT32, "xorwow result")
    np.copyto(result, bits.reshape(steps, lanes, turns).transpose(1, 0, 2))
    return result.reshape(lanes, -1)[:, :count]


def draw_uniform(states: np.ndarray, count: int) -> np.ndarray:
    """Return `count` multiples of 2**-24 per lane in [0, 1), as float32, and advance the states.

    The upper 24 bits of a word are used: every result is exact and none rounds up to 1.
    """
    words = draw(states, count)
    uniform = scratch(words.shape, _FLOAT32, "xorwow uniform")
    np.copyto(uniform, words >> 8)
    np.multiply(uniform, 2.0**-24, out=uniform)
    return uniform


def seed(states: np.ndarray, value: int) -> None:
    """Make all words of all lanes from a 32-bit seed, different in every lane.

    The words are upper halves of the SplitMix64 generator (Steele, Lea and Flood, "Fast splittable pseudorandom
    number generators", 2014), started 2**32 steps apart by different seeds.
    """
    first = (value & 0xFFFFFFFF) << 32
    z = np.arange(1, states.size + 1, dtype=np.uint64) + np.uint64(first)
    z *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    states[...] = (z >> np.uint64(32)).astype(np.uint32).reshape(states.shape)
