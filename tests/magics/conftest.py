"""Which fixtures do the tests of magics share?"""

from tests.magics.notebook import bare, notebook, shell

__all__ = ["bare", "notebook", "shell"]
