"""Searches for faults: mutants, random and planted models, forged certificates."""
