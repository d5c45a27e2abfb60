"""What lowerings of several families share; nothing here is registered."""
