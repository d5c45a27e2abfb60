"""Running the source and the converted model on the same data, and comparing."""
