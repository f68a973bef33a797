"""Which blocks of data may a live view of a run ask for?

    report                  headline, figures, engines, lines, findings
    findings                every finding
    source                  the author's text and the cost of each line
    ir, ir/2, ir/counts     the passes; the program after pass 2; how many lines each pass changed
    layout, layout/7        the tensors; tensor 7 with its slices
    access/5                operands of instruction 5, with the elements it touches
    values/7, values/7/5    what tensor 7 holds: at the end of the run, or after instruction 5 (values/7/5/before)
    array, array/5          products of the multiplier array; the one of instruction 5
    memory                  tiles of SBUF and PSUM
    memory/tile/7           instructions that write and read tensor 7
    stepper                 the executed instructions
    stepper/at/7            instruction 7 of those executed, with the values around it
    stepper/not_finite/7    the first one from 7 on that writes a NaN or an infinity
    stepper/window/7/0/after/16/8
                            some elements of operand 0 of 7, from row 16 and column 8 on
    timeline                tracks, and how busy they are over time
    timeline/events         every event, in chunks
    timeline/event/17       what is known of event 17; timeline/relations/17 what it has to do with others
    timeline/curves         what changes over time; timeline/curves/100/900 from 100 to 900 ns after the start
    timeline/path           the events that took the whole time
    timeline/stalls, timeline/tensors
                            what each event waited for; which tensor it moves or writes
    graph, graph/lines      which instruction hands values to which; the same by lines, or by instructions
    vary, vary/...          the kernel with other values of its parameters (`nki_lab.views.vary.model`)

What is small is put into the widget's own state, so that it is there without a kernel; the rest is
made when the browser asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from nki_lab.profiler.analyses.curves import Curve
from nki_lab.views.array.model import array_list, array_product
from nki_lab.views.graph.model import graph_parts
from nki_lab.views.ir.model import Passes
from nki_lab.views.layout.access import access_parts
from nki_lab.views.layout.model import TENSORS_SHOWN, first_tensor, tensor_layout, tensor_list
from nki_lab.views.layout.values import values_parts
from nki_lab.views.memory.model import memory_map, tile_uses
from nki_lab.views.report.model import report_parts
from nki_lab.views.run import ViewData
from nki_lab.views.source.model import findings_parts, source_parts
from nki_lab.views.stepper.model import (
    not_finite,
    stepper_overview,
    stepper_step,
    stepper_window,
)
from nki_lab.views.timeline.curves import known_curves, timeline_curves
from nki_lab.views.timeline.model import Timeline
from nki_lab.views.timeline.relations import TimelineRelations
from nki_lab.views.vary.model import VaryParts
from nki_lab.widgets.packing import UnknownPart, pack

#: Bytes of all blocks in the state of one widget; a notebook may store that state.
STORED_BYTES = 120_000
#: Programs and profiles up to this size are cheap enough to be prepared before they are asked for.
STORED_OPERATIONS = 3_000
STORED_EVENTS = 20_000
#: Text of a program is printed with the cell up to this size, else when somebody looks.
PRINTED_OPERATIONS = 200
#: Executed instructions whose values a saved page holds.
STEPS_RECORDED = 60


#: What a page without a kernel holds at most: instructions looked into, tensors in HBM whose values are seen, products
#: that are played.
OPENED_SAVED = 200
VALUES_SAVED = 6
PRODUCTS_SAVED = 2
#: Data-flow graphs by name -> by source line; None leaves the choice to the size of the program.
GRAPHS = {"graph": None, "graph/lines": True, "graph/instructions": False}


class Parts:
    """Makes the blocks of one run."""

    def __init__(self, data: ViewData, other: ViewData | None = None) -> None:
        self.data = data
        self.other = other

    @cached_property
    def timeline(self) -> Timeline:
        """The events of the run, beside those of the run it is compared with."""
        return Timeline(self.data, self.other)

    @cached_property
    def relations(self) -> TimelineRelations:
        """What events have to do with each other."""
        return TimelineRelations(self.timeline)

    @cached_property
    def curves(self) -> list[tuple[int, Curve]]:
        """What changes over time, with the number of its run."""
        return known_curves(self.timeline)

    @cached_property
    def passes(self) -> Passes:
        """The program after each pass."""
        return Passes(self.data)

    @cached_property
    def vary(self) -> VaryParts:
        """The kernel with other values of its parameters."""
        return VaryParts(self.data.variants, Parts)

    def make(self, name: str) -> Iterator[bytes]:
        """Yield the blocks of a part.

        Raises UnknownPart, also for a number past the end.
        """
        data = self.data
        kind, _, rest = name.partition("/")
        if name == "report":
            yield report_parts(data)
        elif name == "findings":
            yield findings_parts(data)
        elif name == "source":
            yield source_parts(data)
        elif name == "ir":
            yield self.passes.overview()
        elif name == "ir/counts":
            yield self.passes.counts()
        elif kind == "ir":
            yield self.passes.stage(_number(rest, len(data.stages)))
        elif name == "layout":
            shown = tensor_list(data)
            more = max(0, len(data.tensors) - TENSORS_SHOWN)
            yield pack({"tensors": shown, "first": first_tensor(data.tensors), "more": more})
        elif kind == "layout":
            yield tensor_layout(data, _number(rest, len(data.tensors)))
        elif kind == "access":
            yield access_parts(data, _number(rest, len(data.operations)))
        elif kind == "values":
            yield values_parts(data, *self._moment(rest))
        elif name == "array":
            yield array_list(data)
        elif kind == "array":
            yield array_product(data, _number(rest, len(data.operations)))
        elif name in GRAPHS:
            yield graph_parts(data, GRAPHS[name])
        elif name == "memory":
            yield memory_map(data)
        elif name.startswith("memory/tile/"):
            yield tile_uses(data, _number(rest.removeprefix("tile/"), len(data.tensors)))
        elif kind == "stepper":
            yield self._stepper(rest)
        elif kind == "timeline":
            yield from self._timeline(rest)
        elif kind == "vary":
            try:
                yield from self.vary.make(rest)
            except LookupError as error:
                raise UnknownPart(str(error.args[0])) from None
        else:
            raise UnknownPart(f"there is no data called {name!r}")

    def _moment(self, text: str) -> tuple[int, int | None, bool]:
        """Return tensor, instruction (None: the end of the run) and whether after it."""
        number, _, rest = text.partition("/")
        position, _, when = rest.partition("/")
        if when not in ("", "before"):
            raise UnknownPart(f"there is no moment {when!r}")
        tensor = _number(number, len(self.data.tensors))
        if not rest:
            return tensor, None, True
        return tensor, _number(position, len(self.data.operations)), not when

    def _timeline(self, rest: str) -> Iterator[bytes]:
        what, *numbers = rest.split("/")
        whole = self.timeline.last_ns - self.timeline.first_ns
        if what == "" and not numbers:
            yield self.timeline.overview()
        elif rest == "events":
            yield from self.timeline.events()
        elif what in ("event", "relations") and len(numbers) == 1:
            number = _number(numbers[0], self.timeline.count)
            known = self.relations
            yield pack(
                known.event_detail(number) if what == "event" else known.event_relations(number)
            )
        elif rest == "curves":
            yield timeline_curves(self.timeline, self.curves, 0, whole)
        elif what == "curves" and len(numbers) == 2:
            first, last = (_number(text, whole + 1) for text in numbers)
            if first >= last:
                raise UnknownPart(f"there is no time from {first} to {last}")
            yield timeline_curves(self.timeline, self.curves, first, last)
        elif rest == "path":
            yield self.relations.critical_events()
        elif rest == "stalls":
            yield self.relations.stalls()
        elif rest == "tensors":
            yield self.relations.tensors()
        else:
            raise UnknownPart(f"there is no data called {'timeline/' + rest!r}")

    def _stepper(self, rest: str) -> bytes:
        data = self.data
        what, *numbers = rest.split("/")
        count = len(data.steps.order)
        if what == "" and not numbers:
            return stepper_overview(data)
        if what == "at" and len(numbers) == 1:
            return stepper_step(data, _number(numbers[0], count))
        if what == "not_finite" and len(numbers) == 1:
            return not_finite(data, _number(numbers[0], count + 1))
        if what == "window" and len(numbers) == 5 and numbers[2] in ("before", "after"):
            number = _number(numbers[0], count)
            operand = _number(numbers[1], len(data.steps.at(number).operands))
            row, column = (_number(text, 1 << 53) for text in numbers[3:])
            return stepper_window(data, number, operand, numbers[2] == "after", row, column)
        raise UnknownPart(f"there is no data called {'stepper/' + rest!r}")

    def stored(self, tabs: Sequence[str]) -> dict[str, bytes]:
        """Return the blocks for the state of a widget: of each view what is small, the first view first."""
        found: dict[str, bytes] = {}
        space = STORED_BYTES
        for name in (part for tab in tabs for part in self._first_parts(tab)):
            blocks = list(self.make(name))
            size = sum(map(len, blocks))
            if len(blocks) == 1 and size <= space:
                found[name] = blocks[0]
                space -= size
        return found

    def recorded(
        self, tabs: Sequence[str], limit: int
    ) -> tuple[dict[str, list[bytes]], dict[str, list[str]]]:
        """Return the blocks that a page without a kernel holds, of each view all in turn, and what has no room.

        Args:
            tabs: names of the views.
            limit: bytes of all blocks.
        """
        found: dict[str, list[bytes]] = {}
        cut: dict[str, list[str]] = {tab: [] for tab in tabs}
        space = limit
        for tab in tabs:
            for name in self.names(tab):
                if name in found:
                    continue
                blocks = list(self.make(name)) if space > 0 else []
                size = sum(map(len, blocks))
                if blocks and size <= space:
                    found[name] = blocks
                    space -= size
                else:
                    cut[tab].append(name)
        return found, cut

    def names(self, tab: str) -> Iterator[str]:
        """Yield the parts that a view may ask for, those it shows first before others."""
        data = self.data
        if tab == "vary":
            yield from self.vary.saved()
            return
        yield from self._first_parts(tab) or [tab]
        if tab == "ir":
            yield from ("ir/counts", *(f"ir/{n}" for n in reversed(range(len(data.stages)))))
        elif tab == "layout":
            yield from (f"layout/{n}" for n in range(min(len(data.tensors), TENSORS_SHOWN)))
            yield from (f"access/{n}" for n in range(min(len(data.operations), OPENED_SAVED)))
            given = [n for n, t in enumerate(data.tensors[:OPENED_SAVED]) if not t.on_chip]
            yield from (f"values/{n}" for n in given[:VALUES_SAVED])
        elif tab == "array":
            yield from (f"array/{p}" for p in data.products[:PRODUCTS_SAVED].tolist())
        elif tab == "graph":
            yield from GRAPHS
        elif tab == "memory":
            yield from (f"memory/tile/{n}" for n in range(min(len(data.tensors), TENSORS_SHOWN)))
        elif tab == "stepper" and not data.steps.problem:
            yield "memory"
            yield "stepper/not_finite/0"
            yield from (
                f"stepper/at/{n}" for n in range(min(len(data.steps.order), STEPS_RECORDED))
            )
        elif tab == "timeline":
            yield from ("timeline/events", "timeline/curves")
            yield from ("timeline/stalls", "timeline/tensors", "timeline/path")
            if self.timeline.count <= STORED_OPERATIONS:
                for n in range(self.timeline.count):
                    yield from (f"timeline/event/{n}", f"timeline/relations/{n}")

    def _first_parts(self, tab: str) -> list[str]:
        """Return what a view shows at first, as far as it is cheap to make."""
        data = self.data
        if tab == "timeline":
            events = self.timeline.count <= STORED_EVENTS
            return [f"timeline{part}" for part in ("", "/events", "/curves") if events or not part]
        if tab in ("report", "findings", "source"):
            return [tab]
        if tab == "stepper" or max(len(data.operations), len(data.tensors)) > STORED_OPERATIONS:
            return []  # the stepper runs the kernel once more, which waits until somebody looks
        if tab == "ir":
            printed = data.stages and len(data.operations) <= PRINTED_OPERATIONS
            return ["ir", f"ir/{self.passes.first_shown}"] if printed else ["ir"]
        if tab == "layout":
            return (
                ["layout", f"layout/{first_tensor(data.tensors)}"] if data.tensors else ["layout"]
            )
        if tab == "graph":  # following every element takes longer than a cell should
            return []
        if tab == "vary":
            return self.vary.first()
        return [tab]


def _number(text: str, count: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= count:
        raise UnknownPart(f"there is no part number {text!r} of {count}")
    return int(text)
