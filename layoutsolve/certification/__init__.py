"""Certificates: written, and checked by code that imports nothing that searches."""
