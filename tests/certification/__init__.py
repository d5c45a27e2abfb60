"""Certificates, honest and forged."""
