"""The stand-in of neuron-ls."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.hardware.standin.machine import Machine


def devices(machine: Machine) -> list[dict[str, Any]]:
    """Return one row for each device, with the fields of the variant."""
    contract, chip = machine.contract["neuron-ls"], machine.chip
    variant = contract["variants"][machine["ls"]]
    each = chip["cores"] // machine["lnc"]
    rows = []
    for number in range(machine["devices"]):
        cores = list(range(number * each, (number + 1) * each))
        users = {u["pid"]: u for core in cores if (u := machine.user_of(core))}
        row = {
            "instance_type": chip["instance_type"],
            "instance_id": "i-aabbccdd123456789",
            "neuron_device": number,
            "bdf": f"{0xCC - number:02x}:00.0",
            "cpu_affinity": "48-95,144-191",
            "numa_node": "1",
            "connected_to": [d for d in range(machine["devices"]) if d != number],
            "nc_count": each,
            "logical_neuroncore_config": machine["lnc"],
            "memory_size": chip["memory_size"],
            "neuroncore_ids": cores,
            "neuron_processes": [
                {"pid": u["pid"], "command": u["command"], "neuron_runtime_version": "2.0.0"}
                for u in users.values()
            ],
        }
        if "connected_to" in variant:
            row["connected_to"] = variant["connected_to"]
        rows.append({name: row[name] for name in (*variant["extra"], *contract["device"])})
    return rows


def payload(machine: Machine) -> Any:
    """Return the document of `--json-output`."""
    variant = machine.contract["neuron-ls"]["variants"][machine["ls"]]
    if machine["ls"] == "empty":
        return []
    rows = devices(machine)
    return {variant["wrapped_in"]: rows} if "wrapped_in" in variant else rows


def main(machine: Machine) -> None:
    arguments = sys.argv[1:]
    machine.told("neuron-ls", arguments)
    machine.stage("ls", "neuron-ls")
    flags = machine.contract["neuron-ls"]["flags"]
    known = [flag for names in flags.values() for flag in names]
    for argument in arguments:
        if argument not in known:
            print(f"unknown flag: {argument}", file=sys.stderr)
            raise SystemExit(1)
    if set(arguments) & set(flags["json"]):
        print(json.dumps(payload(machine), indent=4))
        return
    print(f"instance-type: {machine.chip['instance_type']}")
    print("instance-id: i-aabbccdd123456789")
    print(f"logical-neuroncore-config: {machine['lnc']}")
    for row in devices(machine):
        memory = f"{row['memory_size'] >> 30} GB"
        print(f"| {row['neuron_device']:<6} | {row['nc_count']:<6} | {memory:<6} | {row['bdf']} |")
