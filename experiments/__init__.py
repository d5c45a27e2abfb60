"""Measurements over a corpus of models; each module is run as ``python -m experiments.<room>.<name> FOLDER``."""
