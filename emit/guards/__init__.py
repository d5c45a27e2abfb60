"""What guards look at, and what they write: :mod:`layoutsolve.emit.barriers` has the table of them."""
