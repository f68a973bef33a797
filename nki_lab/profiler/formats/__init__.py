"""The files a profile is kept in, each format in one module."""
