"""The module `neuronxcc.nki.isa.constants`: the named choices of its instructions."""

from __future__ import annotations

from nki_lab.beta1.enums import dge_mode, engine, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "engine", "nc_version", "oob_mode", "reduce_cmd"]
