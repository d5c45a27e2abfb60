"""Passes from a graph to the same graph, written better. They know no file format."""
