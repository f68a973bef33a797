"""One file per pass; each takes a kernel and returns another one."""
