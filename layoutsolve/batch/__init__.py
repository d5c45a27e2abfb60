"""Batch conversion: jobs, resuming, worker processes, and messages."""
