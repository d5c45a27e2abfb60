"""Every experiment runs, and finds what it is there to find."""
