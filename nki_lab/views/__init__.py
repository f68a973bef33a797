"""Shows a run: data in, views out; nothing here compiles or runs a kernel."""

from nki_lab.views.display import Display, display
from nki_lab.views.notebook import register, unregister

__all__ = ["Display", "display", "register", "unregister"]
