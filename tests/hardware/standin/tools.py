"""The stand-ins of neuron-explorer, neuron-profile and neuron-bench."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tests.hardware.standin.machine import Machine


def main(machine: Machine, tool: str) -> None:
    """Run a tool with the arguments of this process."""
    words = sys.argv[1:]
    machine.told(tool, words)
    if words[:1] == ["--show-profile-schema"] and tool == "neuron-explorer":
        from tests.hardware.standin.exports import schema

        print(schema())
        return
    commands = {"capture": _capture, "view": _view, "show-session": _show_session}
    if tool == "neuron-bench":
        commands = {"exec": _bench}
    if not words or words[0] not in commands:
        _refuse(
            f"Unknown command `{' '.join(words[:1])}'. Please specify one command of: {', '.join(commands)}"
        )
    commands[words[0]](machine, tool, words[1:])


def _refuse(line: str) -> NoReturn:
    print(line, file=sys.stderr)
    raise SystemExit(1)


class Flags:
    """The flags of a command line, by their long names, and what is left: `rest`."""

    def __init__(self, about: Mapping[str, Any], words: list[str]) -> None:
        self.values: dict[str, str] = dict(about["values"])
        self.given: list[str] = []
        self.rest: list[str] = []
        words = list(words)
        while words:
            word, equals, value = words.pop(0).partition("=")
            word = about["short"].get(word, word)
            if word in about["values"]:
                self.values[word] = value if equals else words.pop(0)
                self.given.append(word)
            elif word in about["switches"]:
                self.given.append(word)
            elif word.startswith("-"):
                _refuse(f"unknown flag `{word.lstrip('-')}'")
            else:
                self.rest.append(word)

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.given


def _capture(machine: Machine, tool: str, words: list[str]) -> None:
    contract = machine.contract
    flags = Flags(contract["capture"], words)
    from tests.hardware.standin import device, files

    machine.initialise(tool)
    program = device.Program(machine, Path(flags["--neff"]), tool)
    inputs = program.zeros()
    for name, file in zip(flags.rest[::2], flags.rest[1::2], strict=True):
        if name not in inputs:
            _refuse(f"fatal: no input named {name}")
        inputs[name] = device.read_array(Path(file), inputs[name])
    machine.stage("capture", tool, flags.given)
    count, nth = int(flags["--num-exec"]), int(flags["--profile-nth-exec"])
    session = Path(flags["--session-file"])
    suffix = contract["capture"]["nth_suffix"]
    for number in range(1, max(count, nth) + 1):
        execution = program.run(inputs)
        ending = "" if number == 1 else suffix.format(n=number)
        if number == nth or "--profile-nth-exec" not in flags:
            names = _sessions(session, flags, contract["capture"]["rank_suffix"], ending)
            profile = execution.profile
            if "--enable-dge-notifs" not in flags:
                profile = device.without_notifications(
                    profile, contract["capture"]["needs_notifications"]
                )
            content = device.stored_profile(profile, session.parent)
            for path in names:
                files.write_ntff(path, program.uuid, content, contract)
        raw, npy = "--save-output" in flags, "--save-output-npy" in flags
        for name, output in zip(program.outputs, execution.outputs, strict=True):
            if not raw and not npy:
                continue
            if npy and output.dtype.name == "bfloat16":
                machine.fail("npy", tool)
            file = f"{name}{'.npy' if npy else ''}" + ("" if number == 1 else f".{number}")
            device.write_array(Path(file), output, npy)
            print(contract["capture"]["saved"].format(name=name, file=file))


def _sessions(session: Path, flags: Flags, suffix: str, ending: str) -> list[Path]:
    """Return the files of an execution: one, or one for each rank."""
    ranks = range(int(flags["--collectives-workers-per-node"]))
    if flags["--collectives-profile-id"] != "all":
        ranks = range(
            int(flags["--collectives-profile-id"]), int(flags["--collectives-profile-id"]) + 1
        )
    told = [suffix.format(rank=rank) for rank in ranks]
    if "--collectives-workers-per-node" not in flags and "--collectives-worker-count" not in flags:
        told = [""]
    return [
        session.with_name(f"{session.stem}{r}{ending}{session.suffix or '.ntff'}") for r in told
    ]


def _show_session(machine: Machine, tool: str, words: list[str]) -> None:
    flags = Flags(machine.contract["show-session"], words)
    from tests.hardware.standin import device, files

    path = Path(flags["--session-file"])
    profile = device.read_profile(files.read_ntff(path, machine.contract)[1], path.parent)
    clock = next(profile.records("Metadata"))["neuroncore_clock_freq"] or 1.0
    graphs = [{"NC": core, "CycleCount": round(profile.total_ns * clock)} for core in profile.cores]
    print(json.dumps({"NeffNodes": [{"NodeInfo": {"Graphs": graphs}}]}))


def _view(machine: Machine, tool: str, words: list[str]) -> None:
    contract = machine.contract
    flags = Flags(contract["view"], words)
    machine.stage("view", tool)
    formats = contract["view"]["formats"][tool]
    kind = flags["--output-format"] or formats[0]
    if kind == "db":
        machine.fail("influx", tool)
    if kind not in formats:
        _refuse(f"fatal: output format {kind} is not supported, please use {', '.join(formats)}")
    from tests.hardware.standin import device, exports, files

    ntff, neff = Path(flags["--session-file"]), Path(flags["--neff"])
    for path in (neff, ntff):
        if not path.is_file():
            _refuse(f"fatal: open {path}: no such file or directory")
    uuid, content = files.read_ntff(ntff, contract)
    if uuid != files.read_neff(neff, contract)[1]:
        machine.fail("uuid", tool)
    profile = device.read_profile(content, ntff.parent)
    key = contract["view"]["summary_key"].format(hash=uuid.hex()[:12])
    if kind.startswith("summary"):
        if flags["--output-file"]:
            _refuse(f"fatal: --output-file is not supported with --output-format {kind}")
        summary = exports.summary(profile)
        text = "\n".join(f"{name:<40} {value}" for name, value in summary.items())
        print(json.dumps({key: summary}) if kind == "summary-json" else text)
        return
    if kind == "parquet":
        name = flags["--display-name"]
        if not name:
            if "--ingest-only" in flags:
                machine.fail("display-name", tool)
            name = key
        data = Path(flags["--data-path"] or contract["view"]["parquet"]["data_path"]).expanduser()
        exports.parquet(profile, data / contract["view"]["parquet"]["folder"].format(name=name))
        return
    path = Path(flags["--output-file"] or contract["view"]["files"][kind]["name"])
    if kind == "json":
        path.write_text(json.dumps(exports.document(profile, machine["time_unit"])), "utf-8")
    else:
        exports.perfetto(profile, path)


def _bench(machine: Machine, tool: str, words: list[str]) -> None:
    flags = Flags(machine.contract["neuron-bench"], words)
    from tests.hardware.standin import device

    if len(flags.rest) != 1:
        _refuse("fatal: one NEFF file is needed")
    machine.initialise(tool)
    program = device.Program(machine, Path(flags.rest[0]), tool)
    profile = program.run(program.zeros()).profile
    latency = device.latencies(profile.total_ns, int(flags["--work"]))
    at = {f"p{p}": round(device.percentile(latency, p) / 1000) for p in (0, 1, 25, 50, 90, 99, 100)}
    report = {"latency_us": at, "iterations": len(latency), "warmup": flags["--warmup"]}
    print("NeuronCore latency (us)")
    print("  ".join(f"{name}: {value}" for name, value in at.items()))
    if flags["--output-directory"]:
        folder = Path(flags["--output-directory"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "neuron_bench.json").write_text(json.dumps(report), "utf-8")
