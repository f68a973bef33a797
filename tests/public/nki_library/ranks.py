"""Runs configurations of several ranks in a harness whose simulation has one."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import nki_lab


def install(orchestrator: Any) -> None:
    """Let the harness's class for runs launch configurations of several ranks; what has one stays theirs."""
    alone = orchestrator._run_simulator_inference

    def run(self: Any, tested: Any) -> str | None:
        ranks = tested.inference_args.collective_ranks
        return alone(self, tested) if ranks == 1 else _launched(self, tested, ranks)

    orchestrator._run_simulator_inference = run


def _launched(self: Any, tested: Any, ranks: int) -> str:
    """Run all ranks, and write the outputs of each where the harness looks for them."""
    given = tested.kernel_input
    inputs = [
        given.for_rank(rank) if hasattr(given, "for_rank") else given for rank in range(ranks)
    ]
    kernel = nki_lab.jit(tested.kernel_func)[tested.compiler_input.logical_nc_config]
    cleaned = [{k.removesuffix(".must_alias_input"): v for k, v in own.items()} for own in inputs]
    results = nki_lab.launch(kernel, ranks, [_own(arguments) for arguments in cleaned])
    golden = tested.validation_args.golden_output
    path = os.path.join(self.fs_config.artifacts_output_directory_path, "infer_result")
    for rank, result in enumerate(results):
        expected = golden.for_rank(rank) if hasattr(golden, "for_rank") else golden.output_ndarray
        assert len(expected) == len(result.outputs)
        found = {
            name: np.asarray(output, dtype=tensor.dtype)
            for (name, tensor), output in zip(expected.items(), result.outputs, strict=True)
        }
        self.__dump_tensors__(os.path.join(path, f"output_worker_{rank}"), found, lambda name: name)
    return path


def _own(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with arrays of their own: a rank may write them."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
