"""Tests that objects are built by NKI's rules (nki/get-started/nki-language-guide.rst, "Class Support")."""

import copy
import pickle
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import pytest

import nki_lab.language as nl
from nki_lab.errors import ObjectFields
from nki_lab.language import NKIObject


@dataclass
class Decorated(NKIObject):
    x: int
    y: bool = False

    def toggle(self):
        self.y = not self.y


class Plain(NKIObject):
    x: int
    y: bool = False


@pytest.mark.parametrize("cls", [Decorated, Plain])
def test_fields_without_a_value_are_none(cls):
    assert vars(cls(1)) == {"x": 1, "y": False}
    assert vars(cls()) == {"x": None, "y": False}
    assert vars(cls(y=True)) == {"x": None, "y": True}
    assert vars(cls(1, True)) == vars(cls(y=True, x=1)) == {"x": 1, "y": True}


def test_the_example_of_the_guide():
    c = Decorated(1)
    c.toggle()
    assert (c.x, c.y) == (1, True)


class Sections(NKIObject):
    """As in published kernels: class attributes without annotation are keywords."""

    start = 0
    length: int
    activation = nl.relu

    def end(self):
        return self.start + self.length


def test_class_attributes_are_keywords():
    made = Sections(4, start=3, activation=nl.exp)
    assert (made.start, made.length, made.activation, made.end()) == (3, 4, nl.exp, 7)
    assert Sections(4).activation is nl.relu
    assert Sections.start == 0


def test_an_own_init_wins():
    class Own(NKIObject):
        x: int = 1

        def __init__(self, x, scale=2):
            self.x = x * scale

    decorated = dataclass(Own)
    assert vars(Own(3)) == vars(decorated(3)) == {"x": 6}
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Own()

    class Derived(Own):
        z: int = 0

    assert vars(Derived(3, scale=3)) == {"x": 9}


def test_an_own_init_can_call_the_one_of_nkiobject():
    class Own(NKIObject):
        x: int
        y: int = 5

        def __init__(self, x):
            super().__init__(x=x + 1)

    assert vars(Own(1)) == {"x": 2, "y": 5}


def test_post_init_sees_the_fields():
    class Config(NKIObject):
        tiles: int = 4

        def __post_init__(self):
            self.rows = self.tiles * 128

    assert Config().rows == 512
    assert dataclass(Config)(tiles=2).rows == 256


def test_bases_come_first():
    @dataclass
    class Base(NKIObject):
        a: int
        b: int = 2

    @dataclass
    class Derived(Base):
        c: int = 3
        a: int = 1

    assert vars(Derived()) == {"a": 1, "b": 2, "c": 3}
    assert vars(Derived(7, 8, 9)) == {"a": 7, "b": 8, "c": 9}


def test_containers_are_not_shared():
    @dataclass
    class Made(NKIObject):
        items: list = field(default_factory=list)
        limit: int = field(default=9)

    class Given(NKIObject):
        items: list = [1]

    for cls in (Made, Given):
        first, second = cls(), cls()
        first.items.append(2)
        assert second.items == cls().items != first.items
    assert Made().limit == 9


def test_what_is_no_field():
    class Mixed(NKIObject):
        x: int = 1
        shared: ClassVar[int] = 5

        class Kind(Enum):
            A = 1

        @property
        def double(self):
            return 2 * self.x

        @staticmethod
        def of(x):
            return Mixed(x)

    assert vars(Mixed.of(4)) == {"x": 4}
    for name in ("shared", "Kind", "double", "of"):
        with pytest.raises(ObjectFields, match=f"no field `{name}`"):
            Mixed(**{name: 1})


def test_frozen_and_slotted_dataclasses():
    @dataclass(frozen=True)
    class Frozen(NKIObject):
        a: int
        b: int = 2

    @dataclass(slots=True)
    class Slotted(NKIObject):
        a: int
        b: int = 2

    for cls in (Frozen, Slotted):
        made = cls(b=3)
        assert (made.a, made.b) == (None, 3)
    with pytest.raises(AttributeError):
        Frozen(1).a = 2


def test_without_fields_everything_is_taken():
    class Open(NKIObject):
        pass

    assert vars(Open(a=1, b=2)) == {"a": 1, "b": 2}
    assert vars(NKIObject(c=3)) == {"c": 3}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plain(xx=1), r"(?s)no field `xx`.*its fields: x, y.*did you mean `x`"),
        (lambda: Plain(1, 2, 3), "(?s)takes 2 values by position, found 3.*x, y"),
        (lambda: Plain(1, x=2), "`x` is given twice"),
        (lambda: Sections(1, 2), "takes 1 values by position, found 2"),
    ],
)
def test_wrong_fields(make, message):
    with pytest.raises(ObjectFields, match=message):
        make()
    with pytest.raises(TypeError):
        make()


def test_objects_are_copied_and_shown():
    made = Plain(x=[1], y=True)
    twin = copy.deepcopy(made)
    twin.x.append(2)
    assert made.x == [1]
    assert repr(made) == "Plain(x=[1], y=True)"
    assert vars(pickle.loads(pickle.dumps(made))) == vars(made)


def test_equality_is_by_what_objects_hold():
    class Pair(NKIObject):
        def __init__(self, a, b):
            self.a, self.b = a, b

    class Twin(NKIObject):
        def __init__(self, a, b):
            self.a, self.b = a, b

    one = Pair(1, Plain(x=[2], y=False))
    assert one == Pair(1, Plain(x=[2], y=False)) and Pair(1, 2) in (3, Pair(1, 2))
    assert (
        one != Pair(1, Plain(x=[2], y=True)) and Pair(1, 2) != Twin(1, 2) and Pair(1, 2) != (1, 2)
    )
    known = {one: "kept"}  # an object stays the same key while a kernel changes it
    one.a = 5
    assert known[one] == "kept"
