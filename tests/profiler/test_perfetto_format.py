"""Traces in Perfetto's format, read field by field by the numbers of its .proto files."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import Any

import pytest

from nki_lab.errors import BadFile
from nki_lab.profiler.formats.perfetto import save_perfetto_trace, to_perfetto_trace
from nki_lab.profiler.formats.traces import from_perfetto_trace
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.targets import TRN2
from tests.timing import kernels
from tests.timing.timed import timed

from .example import INSTRUCTION, profile


def message(data: bytes) -> dict[int, list[Any]]:
    """Return the values of every field of a message: integers, or bytes."""

    def integer() -> int:
        nonlocal at
        value = 0
        for shift in range(0, 70, 7):
            byte = data[at]
            at += 1
            value += (byte % 128) * 2**shift
            if byte < 128:
                break
        return value

    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        field, kind = divmod(integer(), 8)
        if kind == 0:
            found[field].append(integer())
        elif kind == 1:
            found[field].append(data[at : at + 8])
            at += 8
        else:
            assert kind == 2
            size = integer()
            found[field].append(data[at : at + size])
            at += size
    return found


class Trace:
    """What Perfetto reads of a trace."""

    def __init__(self, data: bytes) -> None:
        self.tracks: dict[int, dict[int, list[Any]]] = {}
        self.slices: list[dict[str, Any]] = []
        self.counters: list[tuple[int, int, float]] = []
        self.names: dict[tuple[int, int], str] = {}
        opened: dict[int, dict[str, Any]] = {}
        for packet in map(message, message(data)[1]):
            for interned in map(message, packet[12]):
                for kind, entries in interned.items():
                    for entry in map(message, entries):
                        self.names[kind, entry[1][0]] = entry[2][0].decode()
            for track in map(message, packet[60]):
                self.tracks[track[1][0]] = track
            for event in map(message, packet[11]):
                time, uuid = packet[8][0], event[11][0]
                assert packet[10] == [1]  # all of one sequence, or texts have no meaning
                if event[9] == [1]:
                    assert uuid not in opened  # one slice at a time
                    opened[uuid] = self._slice(event, time)
                elif event[9] == [2]:
                    self.slices.append(opened.pop(uuid) | {"end": time})
                else:
                    assert event[9] == [4]
                    self.counters.append((uuid, time, struct.unpack("<d", event[44][0])[0]))
        assert not opened

    def _slice(self, event: dict[int, list[Any]], time: int) -> dict[str, Any]:
        args = {}
        for entry in map(message, event[4]):
            key = self.names[3, entry[1][0]]
            if entry[17]:
                args[key] = self.names[29, entry[17][0]]
            elif entry[5]:
                args[key] = struct.unpack("<d", entry[5][0])[0]
            else:
                (args[key],) = entry[4] or entry[2]
        flows = [[struct.unpack("<Q", f)[0] for f in event[n]] for n in (47, 48)]
        (name,), (category,), (uuid,) = event[10], event[3], event[11]
        return {
            "name": self.names[2, name],
            "table": self.names[1, category],
            "track": self.tracks[uuid][2][0].decode(),
            "start": time,
            "args": args,
            "begins": flows[0],
            "ends": flows[1],
        }


@pytest.fixture(scope="module", params=["by hand", "timed"])
def shown(request) -> tuple[Profile, Trace]:
    p = (
        profile()
        if request.param == "by hand"
        else timed(kernels.streamed, ((256, 64), "float32")).profile
    )
    return p, Trace(to_perfetto_trace(p))


def test_slices_have_the_times_and_rows_of_the_profile(shown) -> None:
    p, trace = shown
    for table in ("Instruction", TRANSFERS):
        found = sorted(
            (s for s in trace.slices if s["table"] == table), key=lambda s: s["args"]["id"]
        )
        rows = sorted(p.records(table), key=lambda r: r["id"])
        assert [(s["start"], s["end"]) for s in found] == [
            (r["start_ts"], r["end_ts"]) for r in rows
        ]
        for s, row in zip(found, rows, strict=True):
            told = {k: v for k, v in row.items() if v is not None and k in s["args"]}
            assert told == {k: v for k, v in s["args"].items() if k != "iteration"}
            missing = {k: v for k, v in row.items() if v is not None and k not in told}
            for name in ("start_ts", "end_ts", "duration_ns"):
                del missing[name]
            assert all(
                v == 0 and k.endswith(("bytes", "flops", "transpose")) for k, v in missing.items()
            )


def test_arrows_lead_from_what_ends_to_what_begins(shown) -> None:
    p, trace = shown
    begins = {f: s for s in trace.slices for f in s["begins"]}
    ends = {f: s for s in trace.slices for f in s["ends"]}
    assert begins.keys() == ends.keys()
    kinds = {"Instruction": "instruction", TRANSFERS: "dma_block"}
    found = {
        (kinds[begins[f]["table"]], begins[f]["args"]["id"], kinds[ends[f]["table"]], ends[f]["args"]["id"])
        for f in begins
    }  # fmt: skip
    assert found == {
        (r["in_table"], r["in_id"], r["out_table"], r["out_id"]) for r in p.records("Flow")
    }


def test_tracks_stand_below_their_core(shown) -> None:
    _, trace = shown
    processes = {u: t for u, t in trace.tracks.items() if t[3]}
    assert [message(t[3][0])[6] for t in processes.values()] == [[b"NeuronCore 0"]]
    others = [t for u, t in trace.tracks.items() if u not in processes]
    assert all(t[5][0] in processes for t in others)
    engines = [t for t in others if not t[8] and not t[2][0].startswith(b"q")]
    ranked = sorted(engines, key=lambda t: t[12][0])
    order = [b"Tensor", b"TensorMatrix", b"Vector", b"Scalar", b"GpSimd", b"Sync"]
    assert [t[2][0] for t in ranked] == [
        name for name in order if name in {t[2][0] for t in engines}
    ]


def test_curves_are_the_samples_of_the_tables(shown) -> None:
    p, trace = shown
    titles = {u: t[2][0].decode() for u, t in trace.tracks.items() if t[8]}
    pending = [(time, value) for u, time, value in trace.counters if titles[u] == "Pending DMA"]
    assert pending == [(r["timestamp"], r["value"]) for r in p.records("PendingDma")]
    used = [value for u, _, value in trace.counters if titles[u] == "SBUF usage"]
    assert used == pytest.approx(
        [
            100 * r["avg_util_percent"] * 229_376 / p.target.sbuf_usable_bytes_per_partition
            for r in p.records("SbufUsage")
        ]
    )  # of 224 KiB without what is reserved


def test_the_profile_comes_back(shown, tmp_path) -> None:
    p, _ = shown
    assert from_perfetto_trace(to_perfetto_trace(p)) == p
    assert Profile.load(save_perfetto_trace(p, tmp_path / "run.json")) == p  # whatever the name


def test_times_are_exact_and_names_are_any() -> None:
    late = 2**62
    names = ["</script>", "\ud800", "\x00"]
    table = INSTRUCTION | {"start_ts": [late + n for n in range(6)], "end_ts": [late + 7] * 6}
    p = profile(Instruction=table | {"opcode": [*names, *names]})
    trace = Trace(to_perfetto_trace(p))
    found = sorted((s["start"], s["end"]) for s in trace.slices if s["table"] == "Instruction")
    assert found == [(late + n, late + 7) for n in range(6)]
    assert from_perfetto_trace(to_perfetto_trace(p)) == p


def test_slices_back_to_back_and_of_no_time_do_not_overlap() -> None:
    table = {
        "start_ts": [5, 0, 5, 5],
        "end_ts": [9, 5, 5, 5],
        "id": [1, 2, 3, 4],
        "engine": "vector",
        "opcode": "X",
    }
    p = Profile.from_tables(TRN2, {"Instruction": table}, is_simulation=True)
    assert len(Trace(to_perfetto_trace(p)).slices) == 4


@pytest.mark.parametrize(
    "data", [b"", b"\x0a\x05hello", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"]
)
def test_other_data_is_refused(data) -> None:
    with pytest.raises(BadFile, match="is not a trace written by nki_lab"):
        from_perfetto_trace(data)


def test_a_trace_that_is_cut_off_is_refused() -> None:
    whole = to_perfetto_trace(profile())
    for length in (30, len(whole) // 2, len(whole) - 1):
        with pytest.raises(BadFile, match="is not a trace written by nki_lab"):
            from_perfetto_trace(whole[:length])
