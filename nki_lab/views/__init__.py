"""Shows a run: data in, views out; nothing here compiles or runs a kernel. A view is one folder (see `registry`)."""
