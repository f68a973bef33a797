"""`nki-lab doctor`."""

from __future__ import annotations

import typer


def doctor() -> None:
    """Test this installation: versions, the JupyterLab extension, one run on the simulator."""
    from nki_lab.explain.doctor import examine

    checks = examine()
    typer.echo(checks.text())
    checks.require()
