"""TensorFlow Lite: from the bytes of a file to the reference graph."""
