"""Fixtures that the tests of magics share."""

from tests.cli.conftest import command
from tests.magics.notebook import bare, notebook, shell

__all__ = ["bare", "command", "notebook", "shell"]
