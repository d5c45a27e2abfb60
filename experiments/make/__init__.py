"""Models and figures: the zoo, families of hard networks, exports."""
