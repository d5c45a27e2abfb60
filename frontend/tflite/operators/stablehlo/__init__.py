"""StableHLO operators."""
