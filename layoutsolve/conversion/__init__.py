"""The parts of one conversion: arguments, stages, translation, provenance, graph inputs and outputs, sessions."""
