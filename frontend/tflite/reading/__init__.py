"""From the bytes of a ``.tflite`` file to a model as plain, checked data."""
