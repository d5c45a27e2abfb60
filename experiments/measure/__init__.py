"""Time, memory and counts over a corpus."""
