"""`nki-lab validate`.

Exit codes: 0 every cell passed, 1 a cell or a notebook is wrong, or a package is missing, 2 the command line is wrong
or names nothing to look at, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from nki_lab.errors import UnknownOption, UsageError, close_matches

_SECONDS = 60
_WORKFLOW = Path(__file__).with_name("github_actions.yml")
# What pytest's own exit codes mean for ours; whatever else it may say is a failure.
_CODES = {0: 0, 1: 1, 2: 130}


def validate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...", help="notebooks, and folders of them", show_default="."
        ),
    ] = None,
    lax: Annotated[
        bool, typer.Option("--lax/--strict", help="only run the cells, or compare outputs as well")
    ] = False,
    timeout: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="time limit of each cell")
    ] = _SECONDS,
    workers: Annotated[
        int,
        typer.Option("--workers", "-n", min=1, help="notebooks that run at the same time"),
    ] = 1,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a report in JUnit's XML as well")
    ] = None,
    sanitize: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="more that differs from run to run, as nbval reads it"),
    ] = None,
    github_actions: Annotated[
        bool,
        typer.Option("--github-actions", help="only print a workflow that does this on GitHub"),
    ] = False,
) -> None:
    """Run notebooks in fresh kernels and compare every stored output with what comes out.

    Unknown and misplaced magics, expected errors that do not come, outputs never stored and dead kernels fail, too.

    Exit codes: 0 every cell passed, 1 something is wrong in a notebook, 2 in the command line.

    nki-lab validate lessons --lax -n 2
    """
    if github_actions:
        given: dict[str, object] = {str(path): path for path in paths or ()}
        given |= {"--lax": lax, "--junit": junit, "--sanitize": sanitize}
        given |= {"--timeout": timeout != _SECONDS, "--workers": workers != 1}
        for word, is_given in given.items():
            if is_given:
                raise UnknownOption(
                    f"`{word}` has no effect with --github-actions, which only prints a workflow",
                    help=f"leave out `{word}`, and edit the printed workflow",
                )
        typer.echo(_WORKFLOW.read_text("utf-8"), nl=False)
        return
    for package in ("nbval", *(["xdist"] if workers > 1 else [])):
        if find_spec(package) is None:
            from nki_lab.explain.doctor import install_command

            name = {"xdist": "pytest-xdist"}.get(package, package)
            raise UsageError(f"{name} is not installed", help=install_command(name))
    from nki_lab.cli import notebook_file

    if sanitize is not None:
        _check_patterns(sanitize)
    notebooks = find_notebooks(paths or [Path()])
    for path in notebooks:
        notebook_file.read(path)
    command = pytest_command(notebooks, lax=lax, timeout=timeout, workers=workers)
    command += [] if junit is None else [f"--junitxml={junit}"]
    command += [] if sanitize is None else [f"--nbval-sanitize-with={sanitize}"]
    # Solved exercises are not solved by who validates them.
    code = subprocess.call(command, env=notebook_file.unattended())
    raise typer.Exit(_CODES.get(code, 1))


def _check_patterns(path: Path) -> None:
    """Refuse a file of patterns that nbval could not use, or would use none of."""
    from nbval.plugin import get_sanitize_patterns

    if not path.is_file():
        raise UnknownOption(
            f"there is no file {path}",
            help="write the path of a file of patterns, or leave the option out",
        )
    pairs = get_sanitize_patterns(path.read_text("utf-8", errors="replace"))
    if not pairs:
        raise UnknownOption(
            f"{path} has no line `regex: ...` with a line `replace: ...` below it",
            help="write both lines for each pattern, below a heading in brackets",
        )
    for regex, _ in pairs:
        try:
            re.compile(regex)
        except re.error as error:
            raise UnknownOption(
                f"{path}: `{regex}` is not a regular expression: {error}",
                help="write a backslash before a character that stands for itself",
            ) from None


def find_notebooks(paths: Iterable[Path]) -> list[Path]:
    """Return the notebooks that paths name, those in folders included, each once.

    Copies that Jupyter keeps in hidden folders are left out.

    Raises UnknownOption for a path that is not there, is not a notebook, or is a folder without any.
    """
    notebooks: dict[Path, Path] = {}
    for path in paths:
        if path.is_dir():
            inside = [p.relative_to(path) for p in sorted(path.rglob("*.ipynb"))]
            visible = [
                path / p for p in inside if not any(part.startswith(".") for part in p.parts)
            ]
            if not visible:
                raise UnknownOption(
                    f"there is no notebook in the folder {path.resolve().name}",
                    help="name a folder with files that end in .ipynb",
                )
        elif not path.exists():
            raise UnknownOption(
                f"there is no file {path}",
                help=close_matches(path.name, [f.name for f in path.parent.glob("*.ipynb")])
                or "name a notebook or a folder",
            )
        elif path.suffix != ".ipynb":
            raise UnknownOption(
                f"{path} is not a notebook: its name does not end in .ipynb",
                help="name a notebook, or the folder that holds it",
            )
        else:
            visible = [path]
        notebooks |= {p.resolve(): p for p in visible if p.resolve() not in notebooks}
    return list(notebooks.values())


def nbval_options(lax: bool, timeout: int) -> list[str]:
    """Return the options of pytest that make it run notebooks with nbval and with our checks."""
    kind = "--nbval-lax" if lax else "--nbval"
    return [kind, "--nbval-current-env", f"--nbval-cell-timeout={timeout}", "--nki-notebooks"]


def pytest_command(notebooks: list[Path], *, lax: bool, timeout: int, workers: int) -> list[str]:
    """Return the command that validates notebooks with pytest, whatever pytest is told elsewhere.

    One notebook stays on one worker: its cells share a kernel.
    """
    command = [sys.executable, "-m", "pytest", *nbval_options(lax, timeout)]
    command += [
        "-rN",
        "--durations=5",
        "--durations-min=2",
        f"--color={'yes' if sys.stdout.isatty() else 'no'}",
        "--noconftest",
    ]
    command += ["-p", "no:cacheprovider", f"--config-file={os.devnull}", "--rootdir=."]
    if not _plugin_is_installed():
        command += ["-p", "nki_lab.cli.pytest_plugin"]
    if workers > 1:
        command += [f"--numprocesses={workers}", "--dist=loadfile"]
    return [*command, *map(str, notebooks)]


def _plugin_is_installed() -> bool:
    """Return whether pytest finds our plugin by itself, as it does where pip has installed nki_lab."""
    return any(point.name == "nki_lab" for point in entry_points(group="pytest11"))
