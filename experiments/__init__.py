"""Measurements over a corpus of models; each module is run as ``python -m experiments.<name> CORPUS_FOLDER``."""
