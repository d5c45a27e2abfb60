"""What is known of an assignment, found again from the graph alone."""
