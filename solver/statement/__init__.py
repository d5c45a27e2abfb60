"""Stating a graph as a layout problem: variables, rows, prices, and what is minimised."""
