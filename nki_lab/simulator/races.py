"""Finds races between the two cores of a logical core where only a run decides which bytes they touch.

The compiler says which tensors that concerns; others cost nothing. Each use of a core leaves the number of the span it
is in (see compiler/races.py) at every byte it touches, and looks for the same number among the uses of the other core.
Whichever of two uses comes second finds the other, so what is found does not depend on the order in which cores run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nki_lab.ir.definition.instruction import READ, Instruction
from nki_lab.ir.program.logical_core import Places, Use, Watched, ordered_by, race, rows_text
from nki_lab.ir.program.nodes import Finding, Kernel
from nki_lab.ir.tensor.footprint import byte_range
from nki_lab.ir.tensor.storage import Storage
from nki_lab.simulator.accesses import Access, Checker, Elements

_NUMBERS = 255  # spans that a mark of one byte tells apart


class _Site:
    """The uses of a tensor by one line of a core, in the span the core is in.

    Attributes:
        use: the first of them.
        span: in which the marks were made.
        low, high: the range of bytes touched in that span.
    """

    __slots__ = ("use", "span", "low", "high", "_marks", "_round")

    def __init__(self, use: Use, size: int) -> None:
        self.use = use
        self.span = -1
        self.low = self.high = 0
        self._marks = np.zeros(size, np.uint8)
        self._round = 0

    def add(self, elements: Elements, unit: int, span: int, low: int, high: int) -> None:
        """Note that elements are touched in a span."""
        if self.span != span:
            if self._round != span // _NUMBERS:
                self._marks.fill(0)
                self._round = span // _NUMBERS
            self.span, self.low, self.high = span, low, high
        self.low, self.high = min(self.low, low), max(self.high, high)
        elements.mark(self._marks, unit, span % _NUMBERS + 1)

    def touched(self, elements: Elements, unit: int) -> np.ndarray:
        """Return which of the elements it touches in its span."""
        return np.asarray(elements.of(self._marks, unit) == self.span % _NUMBERS + 1)


class _Tensor:
    """What both cores do with one tensor."""

    def __init__(self, storage: Storage, unit: int, told: frozenset[Places]) -> None:
        self._storage = storage
        self._unit = unit
        self._told = told
        self.begin()

    def begin(self) -> None:
        """Forget the last run."""
        self._span = 0
        self._sites: tuple[dict[object, _Site], ...] = ({}, {})  # by line and way
        self._site_of: dict[tuple[int, int, bool], _Site] = {}  # by instruction and operand
        self._settled: dict[int, int] = {}  # accesses at fixed places -> span they were noted in
        self._races: dict[tuple[_Site, _Site], np.ndarray] = {}

    def order(self) -> None:
        """Begin another span: both cores have come to a place of order."""
        self._span += 1

    def use(self, core: int, i: Instruction, access: Access) -> None:
        """Look for uses by the other core that race with an access, and note it."""
        span, unit, elements = self._span, self._unit, access.elements
        if not i.form.dynamic:  # what it touches is always the same object
            if self._settled.get(id(access)) == span:
                return
            self._settled[id(access)] = span
        site = self._site(core, i, access)
        low, high = byte_range(elements.window)
        for other in self._sites[1 - core].values():
            if other.span != span or not (site.use.written or other.use.written):
                continue
            if low < other.high and other.low < high:
                hits = other.touched(elements, unit)
                if hits.any():
                    self._race((site, other) if core == 0 else (other, site), elements, hits)
        site.add(elements, unit, span, low, high)

    def _site(self, core: int, i: Instruction, access: Access) -> _Site:
        written = access.role != READ
        key = id(i), access.position, written
        site = self._site_of.get(key)
        if site is None:
            line = i.stack or id(i), written
            site = self._sites[core].get(line)
            if site is None:
                use = Use(i, access.view, written)
                site = self._sites[core][line] = _Site(use, self._storage.nbytes // self._unit)
            self._site_of[key] = site
        return site

    def _race(self, sites: tuple[_Site, _Site], elements: Elements, hits: np.ndarray) -> None:
        if (sites[0].use.i.stack, sites[1].use.i.stack) in self._told:
            return
        marks = self._races.get(sites)
        if marks is None:
            marks = self._races[sites] = np.zeros(self._storage.nbytes // self._unit, bool)
        elements.mark(marks, self._unit, elements.of(marks, self._unit) | hits)

    def findings(self, positions: Sequence[dict[int, int]]) -> list[Finding]:
        """Return a finding per pair of places, in the order of the programs; `positions` of instructions, by id."""
        ordered = sorted(
            self._races.items(),
            key=lambda item: [
                (positions[core][id(site.use.i)], not site.use.written)
                for core, site in enumerate(item[0])
            ],
        )
        unique: dict[Places, Finding] = {}
        for (a, b), marks in ordered:
            places = (a.use.i.stack, b.use.i.stack)
            if places not in unique:
                unique[places] = race(a.use, b.use, rows_text(self._storage, marks))
        return list(unique.values())


class _Core(Checker):
    """Follows the run of one core."""

    def __init__(self, watch: RaceWatch, core: int, tensors: Mapping[int, _Tensor]) -> None:
        self._watch = watch
        self._core = core
        self._tensors = tensors
        self._orders: dict[int, set[int]] = {}  # what instructions order, by id

    def begin(self) -> None:
        """Forget the last run."""
        if self._core == 0:
            self._watch.begin()

    def wants(self, i: Instruction) -> bool:
        """Tell whether an instruction touches a tensor that is watched, or may order the uses of one."""
        if i.definition.waits_for_others and (ordered := ordered_by(i)):
            self._orders[id(i)] = {s.id for s in ordered}
            return True
        return any(v.storage.id in self._tensors for v in (*i.read(), *i.written()))

    def before(self, i: Instruction, accesses: Sequence[Access]) -> None:
        """Take note of what an instruction is about to touch, or that it orders what follows."""
        ordered = self._orders.get(id(i), ())
        if ordered:
            tensors = [self._tensors[key] for key in ordered if key in self._tensors]
            self._watch.arrive(self._core, i.definition.meets, tensors)
        for access in accesses:
            storage = access.view.storage.id
            if storage in self._tensors and storage not in ordered:
                self._tensors[storage].use(self._core, i, access)

    def noticed(self) -> tuple[Finding, ...]:
        """Return the races of the last run; core 0 reports those of both."""
        return self._watch.findings() if self._core == 0 else ()


class RaceWatch:
    """Follows the run of both cores of a rank and reports races on some tensors.

    Args:
        kernels: the programs of the cores.
        watched: the tensors.
    """

    def __init__(self, kernels: Sequence[Kernel], watched: Sequence[Watched]) -> None:
        self._kernels = kernels
        self._tensors = [_Tensor(w.storages[0], _unit(kernels, w), w.told) for w in watched]
        self._of_core = [
            {w.storages[core].id: t for w, t in zip(watched, self._tensors, strict=True)}
            for core in range(len(kernels))
        ]
        self.begin()

    def checks(self, core: int) -> tuple[Checker, ...]:
        """Return what follows the run of a core."""
        return (_Core(self, core, self._of_core[core]),) if self._tensors else ()

    def begin(self) -> None:
        """Forget the last run."""
        for tensor in self._tensors:
            tensor.begin()
        self._waiting: dict[bool, list[tuple[int, list[_Tensor]]]] = {True: [], False: []}

    def arrive(self, core: int, is_barrier: bool, tensors: list[_Tensor]) -> None:
        """Note that a core comes to a place of order, where it waits for the other one.

        Barriers meet barriers and collectives meet collectives, in their order. What both name is ordered.
        """
        waiting = self._waiting[is_barrier]
        if not waiting or waiting[0][0] == core:
            waiting.append((core, tensors))
            return
        _, others = waiting.pop(0)
        for tensor in tensors:
            if tensor in others:
                tensor.order()

    def findings(self) -> tuple[Finding, ...]:
        """Return the races of the last run."""
        positions = [{id(i): n for n, i in enumerate(k.instructions)} for k in self._kernels]
        return tuple(f for tensor in self._tensors for f in tensor.findings(positions))


def _unit(kernels: Sequence[Kernel], watched: Watched) -> int:
    """Return the bytes that one mark stands for: those of the smallest element that a view has."""
    sizes = {watched.storages[0].dtype.itemsize}
    for kernel, storage in zip(kernels, watched.storages, strict=True):
        touches = kernel.touches
        views = np.flatnonzero(touches.storage == storage.id).tolist()
        sizes |= {touches.views[n].dtype.itemsize for n in views}
    return min(sizes)
