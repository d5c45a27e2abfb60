"""Sources and written files."""
