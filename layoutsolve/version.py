"""The version of layoutsolve, which packaging reads here as well."""

VERSION = "0.1.0"
