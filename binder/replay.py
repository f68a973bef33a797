#!/usr/bin/env python3
"""Builds this repository as mybinder.org would, and runs a notebook there.

    python binder/replay.py workshop/solutions/01_first_kernel.ipynb

Needs no Docker: repo2docker writes the Dockerfile, and what that would run for this repository is
run in a virtual environment with the versions of Binder's base image, on the tracked files only.
What a dev container would install is installed after that.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What the base image brings of Jupyter's front ends; the rest follows from their dependencies.
BASE = ("jupyterlab", "notebook", "ipywidgets")
# What mybinder.org promises a user, and what the largest process may take of it.
MEMORY_BYTES = 2**30


def main() -> None:
    """Replay the build and execute the notebooks named on the command line."""
    parser = argparse.ArgumentParser(description="Replay Binder's build and run notebooks.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="executed where they were built")
    notebooks = [path.resolve() for path in parser.parse_args().notebooks]
    with tempfile.TemporaryDirectory(prefix="binder-") as folder:
        replay(Path(folder), notebooks)


def replay(work: Path, notebooks: list[Path]) -> None:
    """Build in the empty folder `work`, then execute `notebooks`; raises where a step fails."""
    source = work / "source"
    copy_tracked_files(source)
    python, dockerfile = accepted(source)
    requirements, post_build, start = steps(dockerfile)

    base = base_versions(python)
    with step(f"Python {python} with {' '.join(base)}"):
        run(interpreter(python), "-m", "venv", work / "env", cwd=work)
        pip = [work / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
        run(*pip, *base, cwd=work)
    with step(f"install {requirements}"):
        # The image has only this file of the repository when it gets to this step.
        alone = work / "requirements.txt"
        shutil.copy(source / requirements, alone)
        run(*pip, "-r", alone, cwd=work)
    with step(f"run {post_build}"):
        run(source / post_build, cwd=source, **environment(work))
        visible = {path.suffix for path in (source / "workshop").rglob("*.*")}
        if visible != {".ipynb", ".svg"}:
            sys.exit(f"learners can open what is for authors: {', '.join(sorted(visible))}")
    begin = [source / start]
    with step(f"{start} nki-lab workshop --check"):
        run(*begin, "nki-lab", "workshop", "--check", cwd=source, **environment(work))
    for notebook in notebooks:
        with step(f"{start} execute {notebook.name}"):
            execute(begin, notebook, work)
    with step("dev container"):
        run("bash", "-c", devcontainer(source, python), cwd=source, **environment(work))
        run("nki-lab", "doctor", cwd=work, **environment(work))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"largest process: {peak / 2**20:.0f} MiB")
    if peak > MEMORY_BYTES:
        sys.exit(f"more than {MEMORY_BYTES / 2**20:.0f} MiB are too much for Binder")


def devcontainer(source: Path, python: str) -> str:
    """Return the command that makes a dev container, after looking at its Python."""
    made = json.loads((source / ".devcontainer" / "devcontainer.json").read_text())
    if not made["image"].endswith(f":{python}"):
        sys.exit(f"the dev container's {made['image']} has another Python than Binder's {python}")
    return str(made["postCreateCommand"])


def copy_tracked_files(target: Path) -> None:
    """Copy what a clone would have, with today's changes to it."""
    listed = run("git", "ls-files", "-z", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def accepted(source: Path) -> tuple[str, str]:
    """Let repo2docker read the repository; return the version of Python and the Dockerfile."""
    tool = Path(sys.executable).parent / "jupyter-repo2docker"
    text = run(tool, "--no-build", "--debug", ".", cwd=source)
    return found(r"conda environment for python=(\S+)", text), text


def steps(dockerfile: str) -> tuple[str, str, str]:
    """Return what the Dockerfile uses of this repository: requirements, the script it runs, and what starts it."""
    requirements = found(r'^RUN \S*/pip install \S* ?-r "(\S+)"$', dockerfile)
    post_build = found(r"^RUN \./(\S*postBuild)$", dockerfile)
    return (
        requirements,
        post_build,
        found(r'^ENV R2D_ENTRYPOINT="\$\{REPO_DIR\}/(\S+)"$', dockerfile),
    )


def base_versions(python: str) -> list[str]:
    """Return the requirements that make up repo2docker's base environment for this Python."""
    import repo2docker

    lock = f"buildpacks/conda/environment.py-{python}-linux-64.lock"
    text = (Path(repo2docker.__file__).parent / lock).read_text()
    return [f"{name}=={found(rf'/{name}-([0-9][0-9.]*)-', text)}" for name in BASE]


def interpreter(version: str) -> str:
    """Return the path of Python `version`: this one, or one on PATH."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    path = shutil.which(f"python{version}")
    if path is None:
        sys.exit(f"Binder would use Python {version}, and no python{version} is on PATH")
    return path


def environment(work: Path) -> dict[str, str]:
    """Return the variables that make a step use the environment in `work` and no other settings."""
    home = work / "home"
    home.mkdir(exist_ok=True)
    return {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "jupyter"),
        "PATH": os.pathsep.join([str(work / "env" / "bin"), os.environ["PATH"]]),
    }


def execute(start: list[Path], notebook: Path, work: Path) -> None:
    """Execute a notebook in the environment; one of the repository where it lies in the copy."""
    if notebook.is_relative_to(ROOT):
        notebook = work / "source" / notebook.relative_to(ROOT)
    command = ["jupyter", "nbconvert", "--to", "notebook", "--execute", "--output-dir", work]
    run(*start, *command, notebook, cwd=work, **environment(work))


def found(pattern: str, text: str) -> str:
    """Return the group that `pattern` finds in `text`; without one, exit with the text."""
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        sys.exit(f"nothing matches {pattern!r} in:\n{text}")
    return match[1]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command and return what it prints; exit with that when it fails."""
    kept = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")}
    outcome = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if outcome.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{outcome.stdout}")
    return outcome.stdout


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what has been done and how long it took."""
    start = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
