"""The command line, as a shell starts it."""
