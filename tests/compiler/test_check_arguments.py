"""Tests the errors about values that come into a kernel, as arguments and globals, or that its text makes."""

import functools

import numpy as np
import pytest

from tests.compiler.test_check_language import module, told  # noqa: F401

pytestmark = pytest.mark.usefixtures("nki_0_6")


def test_what_arguments_bring_is_checked(module):  # noqa: F811
    made = module("""\
    import dataclasses
    from enum import Enum

    def fill(tile):
        nisa.memset(dst=tile, value=round(1.5))

    class Way(Enum):
        up = 1
        for other in (2,):
            down = other

    @dataclasses.dataclass
    class Sizes(nl.NKIObject):
        rows: int = 128
        parts: list = None

    @nki.jit
    def kernel(x, how, way, sizes=None):
        t = nl.load(x)
        how[0](t)
        return stored(t)
    """)
    given = {"how": (functools.partial(made.fill),), "way": made.Way.up}
    assert told(made.kernel, **given) == [
        ("`round`", "fill", "kernel"),
        (
            "a statement in a class other than fields, methods, `assert` and `pass`",
            "Way",
            "kernel",
        ),
    ]
    given["sizes"] = (made.Sizes(parts=[1]), [1], np.float32(2), {2}, 2**31, np.int8, {1: 2})
    messages = [m for m, *_ in told(made.kernel, **given) if m.startswith("argument")]
    assert messages == [
        f"argument `sizes.{n}` of kernel, {what}"
        for n, what in enumerate(
            [
                "a list",
                "a float32 of NumPy",
                "a set",
                "an integer of more than 32 bits",
                "a dtype of NumPy",
                "a dict with keys that are not strings",
            ],
            1,
        )
    ]


def test_globals_are_looked_at_like_arguments(module):  # noqa: F811
    made = module("""\
    import numpy as np

    class Plain:
        rows = 128

    class Kept(nl.NKIObject):
        rows: int = 128

    plain, kept, sizes, names = Plain(), Kept(), {1: 2}, {"a": 1}
    chosen, limit, scale, parts = {1, 2}, 2**40, np.float32(2), [1, 2]

    @nki.jit
    def kernel(x, names=None):
        assert plain.rows == kept.rows and sizes[1] in chosen
        assert limit > parts[0] and scale != names
        return stored(nl.load(x))
    """)
    assert [message for message, _ in told(made.kernel)] == [
        "`chosen`, a set",
        "`limit`, an integer of more than 32 bits",
        "`plain`, a Plain, which is not an NKIObject",
        "`scale`, a float32 of NumPy",
        "`sizes`, a dict with keys that are not strings",
    ]


def test_values_of_one_kind_are_known_and_others_left_alone(module):  # noqa: F811
    made = module("""\
    class Kept(nl.NKIObject):
        def sort(self):
            pass

    def any_of(values):
        values.sort()
        either = [1]
        either = Kept()
        either.sort()
        for values in ([2, 1],):
            values.sort()
        return values["a"] if values == {} else 0

    @nki.jit
    def kernel(x, mode="abc"):
        sizes, names = [2, 1], {}
        own = [2]
        own += [1]
        own.insert(0, 3)
        own.pop()
        found = {"a": 1}
        found[-1] = 2
        found[own[0]] = 3
        found.get("a")
        for name in found.keys():
            assert name != f"{mode}".upper()
        any_of([1, *own])
        first, *rest = own
        sizes.sort()
        mode.upper()
        return stored(nl.load(x))
    """)
    assert told(made.kernel) == [
        ("`*values` in a call, a list or a tuple", "kernel"),
        ("a dict key that is not a literal string", "kernel"),
        ("a method of a list that NKI does not have, such as sort, insert or pop(0)", "kernel"),
        ("a method or an element of a string", "kernel"),
        ("a starred target, `first, *rest = values`", "kernel"),
    ]
