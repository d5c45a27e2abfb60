"""The comparison of layout algorithms and tools as one artefact: models, measurements, rows, tables, plots and text."""
