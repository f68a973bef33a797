"""Definitions of instructions: operands, rules, cost, and the form of a call."""
