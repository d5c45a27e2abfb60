"""What optimisation barriers look at, and what they write: :mod:`layoutsolve.emit.optimization_barriers` has the table
of them.
"""
