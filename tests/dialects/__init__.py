"""Tests of the seams at which dialects differ, with a small second one."""
