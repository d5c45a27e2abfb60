"""What knows of no model: processes, records, what systems lack."""
