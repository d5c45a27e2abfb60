"""What every room may use, and what knows of no model: texts, processes, memory, lazy imports, data structures."""
