"""Calls of kernels: compile, run, and what a run gave."""

from nki_lab.runtime.benchmark import benchmark
from nki_lab.runtime.check import Comparison
from nki_lab.runtime.compare import compare
from nki_lab.runtime.jit import CompiledFunction, KernelFunction, as_kernel, jit, simulate
from nki_lab.runtime.kernel_variants import KernelVariants
from nki_lab.runtime.launch import launch
from nki_lab.runtime.load import load
from nki_lab.runtime.recording import NkiWarning
from nki_lab.runtime.repeated_calls import Benchmark
from nki_lab.runtime.result import Result
from nki_lab.runtime.run import run
from nki_lab.runtime.step import step
from nki_lab.runtime.vary import vary

__all__ = [
    "Benchmark",
    "Comparison",
    "CompiledFunction",
    "KernelFunction",
    "KernelVariants",
    "NkiWarning",
    "Result",
    "benchmark",
    "compare",
    "jit",
    "as_kernel",
    "launch",
    "load",
    "run",
    "simulate",
    "step",
    "vary",
]
