"""Tests of what a cell and a command ask for, and how it is answered."""
