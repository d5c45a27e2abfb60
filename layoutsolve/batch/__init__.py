"""Many models in one run: which there are, what is up to date, the processes that convert, and what is told."""
