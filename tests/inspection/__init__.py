"""What is listed of a model before it is converted."""
