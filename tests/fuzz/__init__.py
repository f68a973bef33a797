"""Tests that random legal kernels compute the same before, between and after all passes, in every order that waits
allow."""
