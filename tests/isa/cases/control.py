"""Cases of register_move, register_load and register_store, and of scalars."""

from __future__ import annotations

import numpy as np

from nki_lab.isa import registry
from nki_lab.isa.control import register_alloc
from nki_lab.isa.operators import OPS
from nki_lab.targets.spaces import SHARED_HBM
from tests.isa.case import Case, empty, isa, tile

FIVE = np.array([[5]], np.int32)
MINUS = np.array([[-7]], np.int32)


def stored(t, register):
    isa.register_store(t.dst, register)


def moved(t, value):
    register = register_alloc()
    isa.register_move(register, value)
    stored(t, register)


def loaded(t):
    register = register_alloc()
    isa.register_load(register, t.src)
    stored(t, register)


def moved_twice(t):
    first, second = register_alloc(11), register_alloc()
    isa.register_move(second, first)
    isa.register_move(first, 3)
    stored(t, second)


ONE = {"dst": empty((1, 1), "int32")}


def case(instruction, name, run, expected=None, tiles=ONE, **facts):
    results = {} if expected is None else {"dst": expected}
    return Case(instruction, name, tiles, run, results, **facts)


CASES = (
    case("register_move", "integer", lambda t: moved(t, -9), [[-9]]),
    case("register_move", "another register, by value", moved_twice, [[11]]),
    case("register_move", "float", lambda t: moved(t, 1.5), breaks="`src` must be a register"),
    case("register_move", "too wide", lambda t: moved(t, 1 << 32), breaks="`src` must be a register"),
    case("register_move", "into a number", lambda t: isa.register_move(3, 3), breaks="`dst` must be a register"),
    case("register_load", "from SBUF", loaded, [[5]], {**ONE, "src": tile(FIVE)}),
    case("register_load", "from HBM", loaded, [[-7]], {**ONE, "src": tile(MINUS, space=SHARED_HBM)}),
    case("register_load", "unsigned", loaded, [[200]], {**ONE, "src": tile(np.array([[200]], np.uint8))}),
    case("register_load", "one element of a row", loaded, [[4]],
         {**ONE, "src": tile(np.arange(8, dtype=np.int32)[None] + 1, view=lambda t: t[:, 3:4])}),
    case("register_load", "two elements", loaded, tiles={**ONE, "src": tile(np.zeros((1, 2), np.int32))},
         breaks="exactly one element"),
    case("register_load", "float", loaded, tiles={**ONE, "src": tile(np.zeros((1, 1)))}, breaks="of an integer dtype"),
    case("register_load", "into a number", lambda t: isa.register_load(3, t.src), tiles={**ONE, "src": tile(FIVE)},
         breaks="`dst` must be a register"),
    case("register_store", "to SBUF", lambda t: stored(t, register_alloc(42)), [[42]]),
    case("register_store", "to HBM", lambda t: stored(t, register_alloc(42)), [[42]],
         {"dst": empty((1, 1), "int32", SHARED_HBM)}),
    case("register_store", "low bits", lambda t: stored(t, register_alloc(259)), [[3]],
         {"dst": empty((1, 1), "uint8")}),
    case("register_store", "negative as unsigned", lambda t: stored(t, register_alloc(-1)), [[2**32 - 1]],
         {"dst": empty((1, 1), "uint32")}),
    case("register_store", "a number", lambda t: isa.register_store(t.dst, 3), breaks="`src` must be a register"),
    case("register_store", "two elements", lambda t: stored(t, register_alloc(1)),
         tiles={"dst": empty((1, 2), "int32")}, breaks="exactly one element"),
)  # fmt: skip


# -- scalars -----------------------------------------------------------------------------------------------------------

BIG = np.array([[-(2**40) - 3]], np.int64)


def wrapped(value):
    return (value + 2**31) % 2**32 - 2**31


def scalar(t):
    isa.scalar_store(t.dst, isa.scalar_load(t.src))


def computed(run):
    return lambda t: isa.scalar_store(t.dst, run(isa.scalar_load(t.src)))


def arithmetic(a, b, op="add"):
    return lambda t: registry["scalar_arithmetic"](OPS[op], a(t) if callable(a) else a, b)


def loaded_scalar(t):
    return isa.scalar_load(t.src)


INT32 = {**ONE, "src": tile(MINUS)}
INT64 = {"dst": empty((1, 1), "int64"), "src": tile(BIG, space=SHARED_HBM)}

CASES += (
    case("scalar_load", "32 bits", scalar, [[-7]], INT32),
    case("scalar_load", "64 bits from HBM", scalar, [[-(2**40) - 3]], INT64),
    case("scalar_load", "one element of a row", scalar, [[4]],
         {**ONE, "src": tile(np.arange(8, dtype=np.int32)[None] + 1, view=lambda t: t[:, 3:4])}),
    case("scalar_load", "two elements", scalar, tiles={**ONE, "src": tile(np.zeros((1, 2), np.int32))},
         breaks="`src` must have shape [1, 1]"),
    case("scalar_load", "unsigned", scalar, tiles={**ONE, "src": tile(FIVE.astype(np.uint32))},
         breaks="dtype int32 or int64"),
    case("scalar_store", "to HBM", scalar, [[-(2**40) - 3]],
         {"dst": empty((1, 1), "int64", SHARED_HBM), "src": tile(BIG)}),
    case("scalar_store", "a number", lambda t: isa.scalar_store(t.dst, 3), breaks="`value` must be an NkiScalar"),
    case("scalar_store", "a register", lambda t: isa.scalar_store(t.dst, register_alloc(3)),
         breaks="`value` must be an NkiScalar"),
    case("scalar_store", "another width", scalar, tiles={**ONE, "src": tile(BIG)}, breaks="dtype of `value`"),
    case("scalar_store", "two elements", scalar, tiles={**INT32, "dst": empty((2, 1), "int32")},
         breaks="`dst` must have shape [1, 1]"),
    case("scalar_arithmetic", "wraps 32 bits", computed(lambda i: i * 306783379), [[wrapped(-7 * 306783379)]], INT32),
    case("scalar_arithmetic", "a number first", computed(lambda i: 3 - i), [[10]], INT32),
    case("scalar_arithmetic", "two scalars", computed(lambda i: i * i + i), [[42]], INT32),
    case("scalar_arithmetic", "wraps 64 bits", computed(lambda i: i * (2**40) - 5),
         [[((-(2**40) - 3) * 2**40 - 5 + 2**63) % 2**64 - 2**63]], INT64),
    case("scalar_arithmetic", "two widths", lambda t: isa.scalar_load(t.src) + isa.scalar_load(t.wide),
         tiles={"src": tile(FIVE), "wide": tile(BIG)}, breaks="NkiScalars of one dtype"),
    case("scalar_arithmetic", "a number of 33 bits", arithmetic(loaded_scalar, 2**32), tiles={"src": tile(FIVE)},
         breaks="an integer that fits"),
    case("scalar_arithmetic", "a float", arithmetic(loaded_scalar, 1.5), tiles={"src": tile(FIVE)},
         breaks="an integer that fits"),
    case("scalar_arithmetic", "another operator", arithmetic(loaded_scalar, 2, "divide"), tiles={"src": tile(FIVE)},
         breaks="`op` must be"),
)  # fmt: skip
