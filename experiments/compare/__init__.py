"""Results against a reference, another tool, another processor, or the solver with a stage left out."""
