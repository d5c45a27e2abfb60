"""The graph, its budget, and what grows with it."""
