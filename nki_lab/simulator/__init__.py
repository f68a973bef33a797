"""Computes the values of a program, with NumPy on byte-accurate memories."""

from nki_lab.simulator.eager import EagerRun
from nki_lab.simulator.machine import Program, of_rank, run_ranks, simulate
from nki_lab.simulator.races import RaceWatch

__all__ = [
    "EagerRun",
    "Program",
    "RaceWatch",
    "of_rank",
    "run_ranks",
    "simulate",
]
