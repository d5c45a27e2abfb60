"""Reading sources and writing results: bytes in, files out."""
