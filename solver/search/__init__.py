"""Searching a layout problem for the cheapest alternatives, with a proof."""
