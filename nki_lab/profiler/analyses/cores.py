"""Joins the profiles of two cores into one, and takes one core out of it.

Ids of rows are unique over both cores; `pcore_idx` tells the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from nki_lab.errors import UsageError
from nki_lab.profiler.analyses.advice import Advices
from nki_lab.profiler.analyses.what_if import Model, WhatIf, WhatIfs
from nki_lab.profiler.columns import Column, Strings, Texts, known, take
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.packets import Deals
from nki_lab.profiler.schema import FLOW_ENDS, TABLES, TRANSFERS

P = TypeVar("P", bound=ProfileData)
#: Table -> columns that hold ids of rows, and the table and column these ids are of.
_IDS: dict[str, dict[str, tuple[str, str]]] = {
    "Instruction": {"id": ("Instruction", "id")},
    TRANSFERS: {"id": (TRANSFERS, "id")},
    "DmaPacket": {"packet_aggregation_id": (TRANSFERS, "id"), "id": ("DmaPacket", "id")},
    "CcOp": {"op_id": ("CcOp", "op_id")},
    "CoreBarriers": {"id": ("CoreBarriers", "id")},
    "KernelInstructions": {
        "stack_frame_id": ("KernelStackFrames", "stack_frame_id"),
        "iteration_variables_id": ("KernelIterationVariables", "iteration_variable_id"),
    },
    "KernelStackFrames": {
        "stack_frame_id": ("KernelStackFrames", "stack_frame_id"),
        "parent_stack_frame_id": ("KernelStackFrames", "stack_frame_id"),
    },
    "KernelIterationVariables": {
        "iteration_variable_id": ("KernelIterationVariables", "iteration_variable_id"),
        "parent_iteration_variable_id": ("KernelIterationVariables", "iteration_variable_id"),
    },
}


def join_cores(profiles: Sequence[P]) -> P:
    """Return one profile with the rows of all cores, core 0 first; tables are made when asked for."""
    first = profiles[0]
    names = [name for name in TABLES if any(name in p.supplied for p in profiles)]
    models = [p.model for p in profiles if p.model is not None]
    return type(first).from_tables(
        first.target,
        {name: partial(_joined, profiles, name) for name in names},
        is_simulation=first.is_simulation,
        name=first.name,
        metrics=first.metrics,
        deals=partial(_deals, profiles),
        model=CoreModels(models, profiles) if len(models) == len(profiles) else None,
    )


class CoreModels:
    """The models of both cores, of which the core that ends last is asked."""

    def __init__(self, models: Sequence[Model], profiles: Sequence[ProfileData]) -> None:
        self.models = models
        self._profiles = profiles

    @property
    def _slowest(self) -> Model:
        return self.models[max(range(len(self.models)), key=lambda n: self._profiles[n].total_ns)]

    def what_if(self, changes: tuple[str, ...]) -> WhatIf:
        """Time the core that ends last again without some costs; the other one comes to meetings as it did."""
        return self._slowest.what_if(changes)

    def what_ifs(self) -> WhatIfs:
        """Ask every question that applies, each alone."""
        return self._slowest.what_ifs()

    def advice(self, exact: bool | None) -> Advices:
        """Say which changes of the kernel would help the core that ends last."""
        return self._slowest.advice(exact)


def _joined(profiles: Sequence[ProfileData], name: str) -> Mapping[str, Any]:
    parts = [(core, p, p.count(name)) for core, p in enumerate(profiles) if p.count(name)]
    if name == "Warning":
        return _distinct([p for _, p, _ in parts])
    columns: dict[str, Any] = {}
    for field in TABLES[name]:
        if field == "pcore_idx":
            columns[field] = np.repeat([core for core, _, _ in parts], [rows for *_, rows in parts])
            continue
        columns_of_cores = [p.column(name, field) for _, p, _ in parts]
        if all(column is None for column in columns_of_cores):
            continue
        text = TABLES[name][field].type == "string"
        columns[field] = _concatenated(
            [
                _unknown(rows, text) if column is None else _moved(profiles, core, name, field, column)
                for column, (core, _, rows) in zip(columns_of_cores, parts, strict=True)
            ]
        )  # fmt: skip
    return columns if parts else {}


def _distinct(profiles: Sequence[ProfileData]) -> Mapping[str, Any]:
    """Return the warnings of all cores, each once."""
    warnings = dict.fromkeys(
        (row["message"], row["category"]) for p in profiles for row in p.records("Warning")
    )
    return (
        {"message": [m for m, _ in warnings], "category": [c for _, c in warnings]}
        if warnings
        else {}
    )


def _unknown(rows: int, text: bool) -> Column:
    if text:
        return Strings(np.full(rows, -1), ())
    return np.ma.MaskedArray(np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool))


def _moved(
    profiles: Sequence[ProfileData], core: int, name: str, field: str, column: Column
) -> Column:
    """Return a column of ids behind those of the cores before; any other column as it is."""
    if name == "Flow" and field in ("in_id", "out_id"):
        assert isinstance(column, np.ndarray)
        ends = profiles[core].strings("Flow", field.replace("_id", "_table"))
        steps = np.zeros(len(ends), dtype=np.int64)
        for text, table in FLOW_ENDS.items():
            steps[ends.equal_to(text)] = _taken(profiles[:core], table, "id")
        return np.asanyarray(column + steps)
    of = _IDS.get(name, {}).get(field)
    if of is None or isinstance(column, Strings):
        return column
    return np.asanyarray(column + _taken(profiles[:core], *of))


def _taken(profiles: Sequence[ProfileData], table: str, column: str) -> int:
    """Return how far ids of some cores reach together."""
    return sum(int(p.numbers(table, column).max(initial=-1)) + 1 for p in profiles)


def _concatenated(columns: Sequence[Column]) -> Column:
    texts = [column for column in columns if isinstance(column, Strings)]
    if not texts:
        numbers: Any = columns
        masked = any(map(np.ma.isMaskedArray, numbers))
        return np.ma.concatenate(numbers) if masked else np.concatenate(numbers)  # type: ignore[no-untyped-call]
    if not any(isinstance(column.values, Texts) for column in texts):
        known_texts: dict[str, int] = {}
        return Strings(
            np.concatenate(
                [
                    np.array(
                        [known_texts.setdefault(t, len(known_texts)) for t in c.values] + [-1]
                    )[c.codes]
                    for c in texts
                ]
            ),
            known_texts,
        )
    starts = np.cumsum([0, *(len(column.values) for column in texts)])
    codes = [
        np.where(column.codes < 0, -1, column.codes + start)
        for column, start in zip(texts, starts.tolist(), strict=False)
    ]

    def text(number: int) -> str:
        part = int(np.searchsorted(starts, number, side="right")) - 1
        return texts[part].values[number - int(starts[part])]

    return Strings(np.concatenate(codes), Texts(int(starts[-1]), text))


def _deals(profiles: Sequence[ProfileData]) -> Deals | None:
    deals = [p.deals for p in profiles]
    if any(d is None for d in deals):
        return None
    forms: list[Any] = []
    codes: list[np.ndarray] = []
    cuts: list[Any] = []
    for d in deals:
        first = sum(map(len, codes))
        cuts += [cut._replace(row=cut.row + first) for cut in d.cuts]  # type: ignore[union-attr]
        codes.append(d.codes + len(forms))  # type: ignore[union-attr]
        forms += d.forms  # type: ignore[union-attr]
    return Deals(np.concatenate(codes), forms, cuts)


def of_core(profile: P, number: int) -> P:
    """Return what one core did, as a profile; the profile itself where there is only one core."""
    if number not in profile.cores:
        raise UsageError(
            f"this profile has no core {number}",
            help=f"cores are {', '.join(map(str, profile.cores))}",
        )
    if len(profile.cores) == 1:
        return profile
    key = of_core, number
    if key not in profile.answers:
        # Of a twin, which shares the tables: what is kept here does not lead back here.
        twin = object.__new__(type(profile))
        vars(twin).update(vars(profile) | {"answers": {}})
        profile.answers[key] = one_core(twin, number)
    core: P = profile.answers[key]
    return core


def slowest(profile: P) -> P:
    """Return what the core that ended last did; the profile itself where there is only one core."""
    if len(profile.cores) == 1:
        return profile
    tables = ("Instruction", TRANSFERS)
    last = np.concatenate([profile.numbers(t, "end_ts") for t in tables])
    core = np.concatenate([profile.numbers(t, "pcore_idx") for t in tables])
    return of_core(profile, max(profile.cores, key=lambda n: int(last[core == n].max(initial=0))))


def one_core(profile: P, core: int) -> P:
    """Return the rows of one core as a profile, with the ids they have."""
    rows = {
        name: np.flatnonzero(profile.numbers(name, "pcore_idx") == core)
        for name in profile.supplied
        if "pcore_idx" in TABLES[name]
    }
    model = profile.model
    deals = profile.deals
    return type(profile).from_tables(
        profile.target,
        {name: _maker(profile, name, rows, core) for name in profile.supplied},
        is_simulation=profile.is_simulation,
        name=f"{profile.name}, core {core}",
        metrics=profile.metrics,
        deals=None if deals is None else deals.take(rows[TRANSFERS]),
        model=model.models[core] if isinstance(model, CoreModels) else model,
        transfer_lines=None
        if profile.transfer_lines is None
        else profile.transfer_lines.take(rows[TRANSFERS]),
    )


def _maker(
    profile: ProfileData, name: str, rows: Mapping[str, np.ndarray], core: int
) -> Callable[[], Mapping[str, Any]]:
    def make() -> Mapping[str, Any]:
        columns = profile.table(name)
        if name == "Flow":
            event_ids = {
                table: profile.numbers(table, "id")[rows[table]]
                for table in FLOW_ENDS.values()
                if table in rows
            }
            chosen = np.flatnonzero(
                _flows(profile, "in", event_ids) & _flows(profile, "out", event_ids)
            )
        elif name in rows:
            chosen = rows[name]
        elif name == "Metadata":
            return columns | {"num_physical_cores": [1], "vnc_enabled": [False]}
        else:
            return columns
        return {field: take(column, chosen) for field, column in columns.items()}

    return make


def _flows(profile: ProfileData, way: str, event_ids: Mapping[str, np.ndarray]) -> np.ndarray:
    """Tell which dependences begin ("in") or end ("out") at a row of one core."""
    ends = profile.strings("Flow", f"{way}_table")
    ids = known(profile.numbers("Flow", f"{way}_id"))
    ends_here = np.zeros(len(ids), dtype=bool)
    for text, table in FLOW_ENDS.items():
        ends_here |= ends.equal_to(text) & np.isin(ids, event_ids.get(table, ()))
    return ends_here
