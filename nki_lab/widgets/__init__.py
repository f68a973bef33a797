"""Show a run: data in, views out; nothing here compiles or runs a kernel."""

from nki_lab.widgets.display import Display, display
from nki_lab.widgets.notebook import register, unregister

__all__ = ["Display", "display", "register", "unregister"]
