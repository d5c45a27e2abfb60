"""The reference graph that all stages share, with its names, symbolic sizes and budget."""
