"""Profiles: the tables of a run, modelled or measured, and what can be read off them."""
