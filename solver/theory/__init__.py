"""Layouts as orders and groupings of atoms, and rules: how the layouts of an operator go together."""
