"""The parts of one conversion, and the Python interface around it."""
