"""Searching a layout problem for the cheapest rows, with a proof."""
