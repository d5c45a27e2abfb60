"""Whole models, from reading to running: random ones, small ones of known optimum, those of a corpus."""
