"""From the bytes of an ``.onnx`` file to the reference graph."""
