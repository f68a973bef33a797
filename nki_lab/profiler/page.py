"""What does the documentation page of profiles say? It is written from the schema."""

from __future__ import annotations

from nki_lab.profiler.known import ABSENT, NOTES, ROWS, UNKNOWN
from nki_lab.profiler.schema import SCHEMA_VERSION, TABLES

_HEAD = f"""\
# Profiles

<!-- Written from nki_lab/profiler by `pytest tests/timing/test_profile_page.py --update-golden`. -->

A profile says when every instruction and transfer of a run took place, on which engine or queue, and why not earlier.
It has the tables, columns and units of [Neuron Explorer's schema](https://github.com/aws-neuron/aws-neuron-sdk),
version {SCHEMA_VERSION} (tools/neuron-explorer/profile-schema-reference.rst): a profile modelled here and one
measured on a device read alike, and `is_simulation` tells them apart. Times of rows are whole nanoseconds, those of
Summary seconds, and what Explorer calls percent is a fraction of 1, as in its own files.

```python
profile = nki_lab.run(kernel, a, b).profile
profile.table_names  # the tables below
profile.table("Instruction")  # a table as NumPy columns
list(profile.records("OpcodeSummary"))  # a table as rows, None where unknown
profile.summary["mfu_estimated_percent"]
profile.save("run.parquet")  # nki_lab.profiler.profile.Profile.load("run.parquet") reads it
```

A kernel launched on both cores of a logical core, `kernel[2]`, has one profile: `pcore_idx` tells the core of a row,
ids are unique over both, and `profile.core(1)` has the rows of one. In Summary counts, bytes and operations are those
of both cores, active times of engines their mean, and shares of the Tensor engine's peak those of both peaks.

## Files

`nki-lab profile add.py:add --input a=randn:128x512 -o run.parquet` writes a profile, `nki-lab profile run.parquet`
shows the report of one, and with `-o` writes it in another format. Every format holds the whole profile: what is read
is equal to what was written.

| name | what it is | for |
|---|---|---|
| `run.json` | one document, column by column | keeping |
| `run.parquet` | a folder with a file for each table, as Neuron Explorer writes them | pandas, DuckDB, Polars |
| `run.csv` | a folder with a CSV file for each table; an unknown value is an empty field | spreadsheets |
| `run.pftrace` | a timeline in Perfetto's format | [ui.perfetto.dev](https://ui.perfetto.dev) |

Parquet needs pyarrow: `pip install 'nki-lab[profile]'`. `--perfetto trace.json` writes the timeline as a Chrome trace,
which is larger, for other viewers. In a folder `profile.json` says what ran; the folder has tables that follow from
others, too (Summary, ActiveTime, ...), for other programs: they are made anew when a profile is read. So is DmaPacket,
which is written out only up to a million rows.

A folder of Parquet tables that Neuron Explorer wrote is read in the same way, as a measured profile:
`nki-lab profile FOLDER`, `Profile.load(FOLDER)`. Where it does not say which chip it is of, `--target trn2` does. This
follows the published schema; no folder of a device was at hand to try.

## Loop variables

An instruction knows the values of the loop variables around it, such as `i=3, j=0`: of every `for` and comprehension in
each function of its call stack, whatever it loops over, and of device loops. They are read by running the kernel's
Python once more, without output, when one of the tables about them is asked for. Values that are no whole numbers, or
that only the device knows, are null. All are null for a kernel that was loaded from a file, and where the kernel has
changed since it ran (a global it reads, an object it was given).

```python
from nki_lab.profiler.iterations import loop_values

loop_values(profile)  # per row of Instruction: "i=3, j=0"
```
"""


def profile_page() -> str:
    """Return the page, in Markdown."""
    return "\n".join([_HEAD, *_tables(), *_absent()])


def _tables() -> list[str]:
    lines = ["## Tables", ""]
    for table, row in ROWS.items():
        lines += [f"### {table}", "", f"A row is {row}.", ""]
        unknown = UNKNOWN.get(table, {})
        known = [
            f"`{field.name}`" + (f" ({field.unit})" if field.unit != "-" else "")
            for field in TABLES[table].values()
            if field.name not in unknown
        ]
        lines += [f"Filled: {', '.join(known)}.", ""]
        lines += [f"- {note}" for note in NOTES.get(table, ())]
        lines += [""] if table in NOTES else []
        reasons: dict[str, list[str]] = {}
        for column, reason in unknown.items():
            reasons.setdefault(reason, []).append(f"`{column}`")
        if reasons:
            lines += ["| null | because |", "|---|---|"]
            lines += [f"| {', '.join(columns)} | {reason} |" for reason, columns in reasons.items()]
            lines.append("")
    return lines


def _absent() -> list[str]:
    lines = ["## Tables without rows", "", "| table | because |", "|---|---|"]
    return [*lines, *(f"| {table} | {reason} |" for table, reason in ABSENT.items()), ""]
