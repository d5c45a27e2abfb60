"""Layout problems as instances of a public benchmark: written in common formats, solved by others, checked by a script
that knows nothing of layouts.
"""
